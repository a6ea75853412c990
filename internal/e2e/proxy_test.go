package e2e

import (
	"net"
	"sync"
	"testing"
)

// proxy is a UDP path to the daemon that can be cut. A cut path takes packets
// and passes none on, as a mobile network does that has given the client another
// address.
type proxy struct {
	t      *testing.T
	front  *net.UDPConn
	broker string

	mu    sync.Mutex
	paths map[string]*net.UDPConn // by client address; nil: cut
	work  sync.WaitGroup
}

func newProxy(t *testing.T, broker string) *proxy {
	t.Helper()
	front, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, front: front, broker: broker, paths: map[string]*net.UDPConn{}}
	p.work.Go(p.forward)
	t.Cleanup(func() {
		front.Close()
		p.cut()
		p.work.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.front.LocalAddr().String() }

// forward passes on what clients send. A client it does not know gets a path.
func (p *proxy) forward() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := p.front.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		back, known := p.paths[from.String()]
		if !known {
			back = p.open(net.UDPAddrFromAddrPort(from))
			p.paths[from.String()] = back
		}
		p.mu.Unlock()
		if back != nil {
			_, _ = back.Write(buf[:n]) // a lost packet is sent again
		}
	}
}

// open makes a path for a client. p.mu is held.
func (p *proxy) open(client *net.UDPAddr) *net.UDPConn {
	to, err := net.ResolveUDPAddr("udp4", p.broker)
	if err != nil {
		p.t.Error(err)
		return nil
	}
	back, err := net.DialUDP("udp4", nil, to)
	if err != nil {
		p.t.Error(err)
		return nil
	}
	p.work.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := back.Read(buf)
			if err != nil {
				return
			}
			_, _ = p.front.WriteToUDP(buf[:n], client) // same
		}
	})
	return back
}

// cut ends all paths there are. Clients get through again from another port.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client, back := range p.paths {
		if back != nil {
			back.Close()
			p.paths[client] = nil
		}
	}
}
