package session

import (
	"strings"
	"testing"

	"felix/broker"
	"felix/wire"
)

// A name that cannot be that of a stream or a cache gets an answer that says "not
// found", which clients go by, and does not come back with a long answer.
func TestInvalidNames(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	for _, create := range []bool{false, true} {
		run(t, func(e *env, c *testClient) {
			const noStream, noCache = "stream not found: ", "cache scope not found: "
			s := c.control()
			for _, name := range []string{"", long} {
				check := func(got, opening string) {
					t.Helper()
					if !strings.HasPrefix(got, opening) || strings.Contains(got, "broker:") || len(got) > 200 {
						t.Errorf("auto_create %v, name of %d bytes: answer %.200q", create, len(name), got)
					}
				}
				s.send(&wire.Publish{TenantID: testTenant, Namespace: testNS, Stream: name, RequestID: id(1)})
				check(s.message().(*wire.PublishError).Message, noStream)
				if name == "" {
					s.bytes(batchFrame(t, wire.PublishHeader{TenantID: testTenant, Namespace: testNS, Stream: name, Acked: true, RequestID: 2, Ack: wire.AckPerBatch}, "x"))
					check(s.ack().Message, noStream)
				}
				s.send(&wire.CacheGet{TenantID: testTenant, Namespace: testNS, Cache: name, Key: "k", RequestID: id(3)})
				check(s.message().(*wire.Error).Message, noCache)
				s.send(&wire.CachePut{TenantID: testTenant, Namespace: testNS, Cache: name, Key: "k", RequestID: id(4)})
				check(s.message().(*wire.Error).Message, noCache)
				sub := c.control()
				sub.send(&wire.Subscribe{TenantID: testTenant, Namespace: testNS, Stream: name})
				check(sub.message().(*wire.Error).Message, noStream)
			}
			s.alive()
		}, func(_ *Config, o *broker.Options) { o.AutoCreate = create })
	}
}
