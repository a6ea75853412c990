package wire

// Error texts of the protocol, as they stand in error, publish_error and binary
// acks. Clients show them and some choose their exception by words in them, so
// the words are part of the protocol.
const (
	TextAuthFailed          = "auth failed"
	TextAuthRequired        = "auth required"
	TextAuthEstablished     = "auth already established"
	TextTenantMismatch      = "tenant mismatch"
	TextForbidden           = "forbidden"
	TextUnsupportedFlags    = "unsupported frame flags"
	TextUnexpectedMessage   = "unexpected message type"
	TextCursorErrorFromPeer = "subscribe_cursor_error is a server-to-client message"
	TextMalformedBatch      = "malformed publish batch"
	TextNoRequestID         = "missing request_id for acked publish"
	TextNoRequestIDBatch    = "missing request_id for acked publish batch"
	TextMaxSubscriptions    = "max subscriptions per connection exceeded"

	TextServerOverloaded  = "server overloaded"
	TextIngressOverloaded = "ingress overloaded"
	TextQueueFull         = "publish queue full"
	TextByteBudget        = "publish ingress byte budget exhausted"
	TextConnByteBudget    = "publish ingress per-connection byte budget exhausted"
	TextAdmissionTimeout  = "publish admission timed out"
	TextAdmissionClosed   = "publish admission closed"
	TextEnqueueTimeout    = "publish enqueue timed out"
	TextQueueClosed       = "publish queue closed"
	TextCommitTimeout     = "publish commit timeout"
)

// The connection close of a broker that has drained.
const (
	ShutdownCode   uint64 = 0 // application error code
	ShutdownReason        = "broker shutting down"
)

// StreamNotFoundText is the error text for an unregistered stream.
func StreamNotFoundText(tenant, namespace, stream string) string {
	return "stream not found: tenant=" + tenant + " namespace=" + namespace + " stream=" + stream
}

// CacheNotFoundText is the error text for an unregistered cache.
func CacheNotFoundText(tenant, namespace, cache string) string {
	return "cache scope not found: " + tenant + "/" + namespace + "/" + cache
}
