package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var errNotBase64 = errors.New("not unpadded base64url")

// decodeBase64 reads unpadded base64url (RFC 7515 section 2). Unlike package
// base64 it passes over nothing: line ends are as wrong as any other character
// outside the alphabet.
func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errNotBase64
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, errNotBase64
	}
	return b, nil
}

// checkForm refuses tokens that could be read in two ways: with characters that
// belong to no part, or with a header whose members are repeated, are not UTF-8
// or ask for an extension.
func checkForm(token string) error {
	for i := range len(token) {
		if !inToken(token[i]) {
			return fmt.Errorf("byte %d of the token is neither base64url nor a dot", i)
		}
	}
	encoded, _, _ := strings.Cut(token, ".")
	text, err := decodeBase64(encoded)
	if err != nil {
		return fmt.Errorf("header of the token: %w", err)
	}
	var header map[string]jsontext.Value
	if err := json.Unmarshal(text, &header); err != nil {
		return fmt.Errorf("header of the token: %w", err)
	}
	// RFC 7515 section 4.1.11: whoever does not know a critical extension has to
	// refuse, and no extension is known here.
	if _, ok := header["crit"]; ok {
		return errors.New("header of the token: crit asks for an extension")
	}
	// RFC 7797: any value but true changes what is signed.
	if b64, ok := header["b64"]; ok && string(b64) != "true" {
		return errors.New("header of the token: b64 is not true")
	}
	return nil
}

func inToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}
