package session

import (
	"errors"
	"fmt"

	"felix/broker"
	"felix/wire"
)

// Openings of the error texts for a name that cannot be that of a stream or a
// cache. Clients go by the words "not found".
const (
	textNoStream = "stream not found: "
	textNoCache  = "cache scope not found: "
)

// findStream looks up a stream. The error text is for the client.
func (s *Server) findStream(k broker.Key) (*broker.Stream, error) {
	if err := checkLength(k); err != nil {
		return nil, fmt.Errorf(textNoStream+"%w", err)
	}
	st, err := s.broker.Stream(k)
	return st, named(textNoStream, err)
}

// findCache is findStream for a cache.
func (s *Server) findCache(k broker.Key) (*broker.Cache, error) {
	if err := checkLength(k); err != nil {
		return nil, fmt.Errorf(textNoCache+"%w", err)
	}
	c, err := s.broker.Cache(k)
	return c, named(textNoCache, err)
}

// checkLength refuses names that a JSON message can carry and no other layout,
// so that no answer repeats them.
func checkLength(k broker.Key) error {
	for _, part := range []struct{ what, name string }{
		{"tenant", k.Tenant}, {"namespace", k.Namespace}, {"name", k.Name},
	} {
		if n := len(part.name); n > wire.MaxIDLen {
			return &broker.InvalidNameError{What: part.what, Reason: fmt.Sprintf("%d bytes, at most %d", n, wire.MaxIDLen)}
		}
	}
	return nil
}

// named puts an opening before the error about an invalid name.
func named(opening string, err error) error {
	var invalid *broker.InvalidNameError
	if errors.As(err, &invalid) {
		return fmt.Errorf("%s%w", opening, err)
	}
	return err
}
