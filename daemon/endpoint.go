package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// An Endpoint tells programs of the same user how to reach a broker in
// development mode. It is the content of endpoint.json in the data directory.
type Endpoint struct {
	Addr        string `json:"addr"`
	CAFile      string `json:"ca_file"`
	TokenFile   string `json:"token_file"`
	Tenant      string `json:"tenant"`
	Namespace   string `json:"namespace"`
	AdminSocket string `json:"admin_socket"`
	PID         int    `json:"pid"`
}

// ReadEndpoint reads endpoint.json of a data directory.
func ReadEndpoint(dataDir string) (Endpoint, error) {
	var e Endpoint
	path := filepath.Join(dataDir, endpointName)
	text, err := os.ReadFile(path)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

func writeEndpoint(dataDir string, e Endpoint) error {
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	return writeFileAtomic(filepath.Join(dataDir, endpointName), append(text, '\n'), 0o600)
}
