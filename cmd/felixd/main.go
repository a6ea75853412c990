// Command felixd is the Felix broker.
package main

import (
	"os"

	"felix/daemon"
)

func main() { os.Exit(daemon.Main(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }
