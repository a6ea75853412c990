// Package e2e tests the programs as a user runs them: a real felixd process,
// the felix command, and raw QUIC peers. It holds tests only.
package e2e
