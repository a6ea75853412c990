// Command felix uses, measures and explains a Felix broker.
package main

import (
	"os"

	"felix/internal/cli"
)

func main() { os.Exit(cli.Main()) }
