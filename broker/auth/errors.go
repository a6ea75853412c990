package auth

import "errors"

var (
	// ErrAuthFailed is what every refused token wraps. A peer is told no more
	// than this; the text behind it is for the operator.
	ErrAuthFailed = errors.New("auth failed")

	// ErrBadPermission means that a permission string is not
	// "action:resource" with both parts present.
	ErrBadPermission = errors.New("malformed permission")

	// ErrUnknownAction means that a permission names an action this version
	// does not know. Such a permission grants nothing and harms nothing.
	ErrUnknownAction = errors.New("unknown action")

	// ErrNoKeys means that a key set holds no usable Ed25519 key.
	ErrNoKeys = errors.New("key set has no Ed25519 key")

	// ErrBadKey means that a key that claims to be Ed25519 is unusable.
	ErrBadKey = errors.New("malformed key")

	// ErrKeyExposed means that the file of a private key may be read by
	// others than its owner.
	ErrKeyExposed = errors.New("private key file is accessible to others")
)
