package transport

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/quic-go/quic-go"
)

// mapError turns an error of quic-go into one of this package. Errors that are not quic-go's pass unchanged.
func mapError(err error) error {
	if err == nil {
		return nil
	}
	var (
		app       *quic.ApplicationError
		stream    *quic.StreamError
		transport *quic.TransportError
		idle      *quic.IdleTimeoutError
		handshake *quic.HandshakeTimeoutError
		reset     *quic.StatelessResetError
		version   *quic.VersionNegotiationError
	)
	switch {
	case errors.As(err, &app):
		return &ApplicationError{Code: uint64(app.ErrorCode), Reason: app.ErrorMessage, Remote: app.Remote}
	case errors.As(err, &stream):
		return &StreamError{Code: uint64(stream.ErrorCode), Remote: stream.Remote}
	case errors.As(err, &transport):
		return mapTransportError(transport)
	case errors.As(err, &idle):
		return ErrIdleTimeout
	case errors.As(err, &handshake):
		return ErrHandshakeTimeout
	case errors.As(err, &reset):
		return ErrStatelessReset
	case errors.As(err, &version):
		return &ProtocolError{Code: uint64(quic.ConnectionRefused), Reason: version.Error()}
	case errors.Is(err, quic.ErrServerClosed), errors.Is(err, quic.ErrTransportClosed):
		return ErrEndpointClosed
	case errors.Is(err, quic.ErrStreamClosed):
		return ErrStreamClosed
	case errors.Is(err, syscall.EMSGSIZE):
		return fmt.Errorf("%w: %w", ErrPacketTooBig, err)
	}
	return err
}

func mapTransportError(e *quic.TransportError) error {
	switch {
	case e.ErrorCode.IsCryptoError():
		alert := uint8(e.ErrorCode - cryptoErrorBase)
		h := &HandshakeError{Kind: alertKind(alert), Alert: alert, Remote: e.Remote}
		if text := e.ErrorMessage; text != "" {
			h.Err = errors.New(text)
		} else if cause := tlsCause(e); cause != nil {
			h.Err = cause
		}
		return h
	case e.ErrorCode == quic.ConnectionRefused:
		return ErrRefused
	case e.ErrorCode == quic.InternalError && !e.Remote && strings.Contains(e.ErrorMessage, syscall.EMSGSIZE.Error()):
		// quic-go keeps only the text of a refused first send.
		return fmt.Errorf("%w: %s", ErrPacketTooBig, e.ErrorMessage)
	}
	return &ProtocolError{Code: uint64(e.ErrorCode), Reason: reasonOf(e), Remote: e.Remote}
}

// cryptoErrorBase is the first of the 256 transport error codes that stand for TLS alerts (RFC 9001, 4.8).
const cryptoErrorBase = 0x100

func reasonOf(e *quic.TransportError) string {
	if e.ErrorMessage != "" {
		return e.ErrorMessage
	}
	return e.ErrorCode.String()
}

// tlsCause returns what crypto/tls said of a local failure, nil if quic-go has not kept it.
func tlsCause(e *quic.TransportError) error {
	for _, cause := range e.Unwrap() {
		if cause != nil && !errors.Is(cause, net.ErrClosed) {
			return cause
		}
	}
	return nil
}

// TLS alert numbers (RFC 8446, 6).
const (
	alertBadCertificate         = 42
	alertUnsupportedCertificate = 43
	alertCertificateRevoked     = 44
	alertCertificateExpired     = 45
	alertCertificateUnknown     = 46
	alertUnknownCA              = 48
	alertNoApplicationProtocol  = 120
)

func alertKind(alert uint8) HandshakeFailure {
	switch alert {
	case alertNoApplicationProtocol:
		return FailALPN
	case alertBadCertificate, alertUnsupportedCertificate, alertCertificateRevoked, alertCertificateExpired,
		alertCertificateUnknown, alertUnknownCA:
		return FailCertificate
	}
	return FailTLS
}
