// Command enginegen makes the tuned QUIC engine: a copy of the quic-go version that go.mod pins, with the few
// constants of a table replaced, and a module file that builds with the copy.
//
//	go run ./internal/enginegen -out build/
//	go build -modfile=build/tuned.mod -o bin/ ./cmd/...
//
// The copy goes to build/quic-go-tuned and is not part of the repository. The generator refuses to work when the
// pinned version, one of the files or one of the texts to be replaced is not what the table was written for, so that
// an upgrade of quic-go cannot lose the tuning in silence. A run that changes nothing writes nothing.
package main
