package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of the HTTP interfaces. Their clients are scrapers and commands on
// the same host or network: a request is a line and a few headers.
const (
	httpReadTimeout  = 10 * time.Second
	httpWriteTimeout = 60 * time.Second
	httpHeaderBytes  = 16 << 10
	// adminHeaderBytes lets a URL name a stream by three names of the largest
	// size, with every byte of them escaped.
	adminHeaderBytes = 1 << 20
	httpBodyBytes    = 1 << 20
)

// httpServer is an HTTP server that is already bound.
type httpServer struct {
	ln   net.Listener
	srv  *http.Server
	done chan struct{}
}

// serveHTTP serves handler on ln, which it owns from now on. The request line and
// the headers may have headerBytes together.
func serveHTTP(ln net.Listener, handler http.Handler, headerBytes int, log *slog.Logger) *httpServer {
	s := &httpServer{
		ln: ln,
		srv: &http.Server{
			Handler:           http.MaxBytesHandler(handler, httpBodyBytes),
			ReadHeaderTimeout: httpReadTimeout,
			ReadTimeout:       httpReadTimeout,
			WriteTimeout:      httpWriteTimeout,
			MaxHeaderBytes:    headerBytes,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.srv.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("HTTP interface ended", logAddr, ln.Addr().String(), logError, err)
		}
	}()
	return s
}

// stop lets running requests finish until ctx ends, then cuts them off.
func (s *httpServer) stop(ctx context.Context) error {
	err := s.srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.srv.Close())
	}
	<-s.done
	return err
}
