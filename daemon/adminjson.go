package daemon

import (
	"bufio"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// readBody fills into from the one JSON value that the body of r consists of.
// It is strict: unknown and repeated members, text that is not UTF-8 and
// anything after the value are errors.
func readBody(r *http.Request, into any) error {
	text, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &httpError{http.StatusRequestEntityTooLarge, fmt.Errorf("request body: larger than %d bytes", large.Limit)}
	}
	if err != nil {
		return badRequest("request body: %w", err)
	}
	if err := json.Unmarshal(text, into, json.RejectUnknownMembers(true)); err != nil {
		return badRequest("request body: %s", explainJSON(err))
	}
	return nil
}

// explainJSON says what is wrong with a body, and at which member, without the
// names of Go types.
func explainJSON(err error) string {
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return at(syntax.JSONPointer, explainSyntax(syntax))
	case errors.As(err, &meaning):
		why := "cannot be a JSON " + meaning.JSONKind.String()
		if errors.Is(meaning.Err, json.ErrUnknownName) {
			why = "unknown member"
		} else if meaning.Err != nil {
			why = meaning.Err.Error()
		}
		return at(meaning.JSONPointer, why)
	}
	return err.Error()
}

func explainSyntax(e *jsontext.SyntacticError) string {
	switch {
	case errors.Is(e.Err, jsontext.ErrDuplicateName):
		return "duplicate member"
	case errors.Is(e.Err, io.ErrUnexpectedEOF):
		return "incomplete JSON"
	}
	return fmt.Sprintf("%v at byte %d", e.Err, e.ByteOffset)
}

func at(where jsontext.Pointer, what string) string {
	if where == "" {
		return what
	}
	return string(where) + ": " + what
}

// readQuery returns the parameters of r's URL, which are those of known, each
// given once at most and UTF-8.
func readQuery(r *http.Request, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("query: %w", err)
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list := values[name]
		switch {
		case !slices.Contains(known, name):
			return nil, badRequest("query: unknown parameter %q", name)
		case len(list) > 1:
			return nil, badRequest("query: %s is given twice", name)
		case !utf8.ValidString(list[0]):
			return nil, badRequest("query: %s is not UTF-8", name)
		}
		out[name] = list[0]
	}
	return out, nil
}

// answer runs get and writes what it returns. A list is written piece by piece.
func answer(w http.ResponseWriter, r *http.Request, get func(*http.Request) (any, error)) {
	body, err := get(r)
	if err != nil {
		code := http.StatusInternalServerError
		var e *httpError
		if errors.As(err, &e) {
			code = e.code
		}
		writeError(w, code, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if list := reflect.ValueOf(body); list.Kind() == reflect.Slice {
		writeList(w, list)
		return
	}
	_ = stdjson.NewEncoder(w).Encode(body) // the client is gone if this fails
}

// writeList writes the elements of a slice as a JSON array, one on a line.
func writeList(w io.Writer, list reflect.Value) {
	out := bufio.NewWriter(w)
	enc := stdjson.NewEncoder(out)
	_ = out.WriteByte('[') // the client is gone if one of these fails, which the last one tells
	for i := range list.Len() {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		if err := enc.Encode(list.Index(i).Interface()); err != nil {
			return
		}
	}
	_, _ = out.WriteString("]\n")
	_ = out.Flush()
}

func writeError(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = stdjson.NewEncoder(w).Encode(map[string]string{"error": text}) // the client is gone if this fails
}

// withJSONErrors serves mux and says in JSON, too, that there is no such path or
// that it takes another method.
func withJSONErrors(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refusal := refusalRecorder{header: w.Header()}
		h.ServeHTTP(&refusal, r)
		w.Header().Del("X-Content-Type-Options")
		if refusal.code == http.StatusMethodNotAllowed {
			writeError(w, refusal.code, fmt.Sprintf("%s is not allowed here (%s are)", r.Method, w.Header().Get("Allow")))
			return
		}
		writeError(w, http.StatusNotFound, "no such path: "+r.URL.Path)
	})
}

// refusalRecorder keeps the status and the header of an answer and drops its text.
type refusalRecorder struct {
	header http.Header
	code   int
}

func (r *refusalRecorder) Header() http.Header         { return r.header }
func (r *refusalRecorder) WriteHeader(code int)        { r.code = code }
func (r *refusalRecorder) Write(p []byte) (int, error) { return len(p), nil }
