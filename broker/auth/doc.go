// Package auth checks and issues the tokens that open a Felix QUIC stream.
//
// A token is a JWT (RFC 7519) signed with Ed25519 (RFC 8037) that names one
// tenant and a list of permissions. A [Verifier] turns a token into [Grants],
// which answer whether an [Action] on a resource is allowed. Public keys come
// from a JSON Web Key Set (RFC 7517), see [KeySet]; [Issuer] and
// [GenerateKey] make tokens and keys for deployments without a control plane.
//
// The package does no I/O except in the functions whose names start with Load
// or Write. Everything exported is safe for concurrent use unless it says
// otherwise.
package auth
