// Package hostcheck says what this host grants a Felix broker and what an
// operator would have to change: socket buffers, offloads, MTUs, rights and
// limits. It changes nothing and needs no rights.
//
// It works in two steps: [Gather] collects facts, [Evaluate] judges them. The
// second is a pure function, so every rule can be tried with made-up hosts.
//
// Rights and limits are those of the process that runs the check; run it as the
// daemon's user, in its container or unit, to see what the daemon gets.
package hostcheck
