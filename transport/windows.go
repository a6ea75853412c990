package transport

// ListenerWindows returns the default windows of a listener's streams and connections.
func ListenerWindows() (stream, conn Window) { return listenerWindows.stream, listenerWindows.conn }

// DialerWindows returns the default windows of a dialer's streams and connections.
func DialerWindows() (stream, conn Window) { return dialerWindows.stream, dialerWindows.conn }
