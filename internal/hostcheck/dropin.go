package hostcheck

import (
	"fmt"
	"strings"
)

// dropIn puts the settings of all remedies into one file. FreeBSD has no
// directory of settings: the path is that of its only file, to append to. macOS
// reads no such file at all.
func dropIn(os string, findings []Finding) *DropIn {
	if os == "darwin" {
		return nil
	}
	var b strings.Builder
	seen := map[string]bool{}
	for _, f := range findings {
		if f.Remedy == nil {
			continue
		}
		for _, s := range f.Remedy.Settings {
			if seen[s.Name] {
				continue
			}
			seen[s.Name] = true
			fmt.Fprintf(&b, "%s = %s\n", s.Name, s.Value)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	d := &DropIn{Path: "/etc/sysctl.d/90-felix.conf", Content: "# UDP settings for Felix, see: felix host check\n" + b.String()}
	if os != "linux" {
		d.Path = "/etc/sysctl.conf"
		d.Content = strings.ReplaceAll(d.Content, " = ", "=")
	}
	return d
}
