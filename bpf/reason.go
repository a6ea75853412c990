package bpf

import "encoding/json"

// ReasonKind classifies why something is off.
type ReasonKind uint8

const (
	// ReasonMode: the mode does not ask for it.
	ReasonMode ReasonKind = iota + 1
	// ReasonRights: the process lacks capabilities.
	ReasonRights
	// ReasonUserNamespace: the process holds the capabilities, but over a user
	// namespace that is not the host's first one.
	ReasonUserNamespace
	// ReasonPolicy: the capabilities are there and the kernel refuses all the
	// same: lockdown, a security module, a system-call filter.
	ReasonPolicy
	// ReasonNoBTF: the kernel does not describe its types, or hides them.
	ReasonNoBTF
	// ReasonNoTracepoint: this kernel has none of the tracepoints.
	ReasonNoTracepoint
	// ReasonKernel: the kernel lacks something else that the programs need.
	ReasonKernel
	// ReasonMemory: no memory, or the memlock limit of a kernel before 5.11.
	ReasonMemory
	// ReasonVerifier: the kernel's verifier refused a program: a defect of
	// Felix. Err holds the verifier's log.
	ReasonVerifier
	// ReasonPIDNamespace: the process could not learn its id in the first PID
	// namespace.
	ReasonPIDNamespace
	// ReasonPlatform: the operating system or processor has no such probes.
	ReasonPlatform
	// ReasonNoBPFFS: the pin directory is not on a BPF file system.
	ReasonNoBPFFS
	// ReasonPinInUse: another process uses the pin directory.
	ReasonPinInUse
	// ReasonPinForeign: something that is not ours has the name of a pin.
	ReasonPinForeign
	// ReasonOther: an error that has no class; the text quotes it.
	ReasonOther
)

var reasonNames = map[ReasonKind]string{
	ReasonMode:          "mode",
	ReasonRights:        "rights",
	ReasonUserNamespace: "user_namespace",
	ReasonPolicy:        "policy",
	ReasonNoBTF:         "no_btf",
	ReasonNoTracepoint:  "no_tracepoint",
	ReasonKernel:        "kernel",
	ReasonMemory:        "memory",
	ReasonVerifier:      "verifier",
	ReasonPIDNamespace:  "pid_namespace",
	ReasonPlatform:      "platform",
	ReasonNoBPFFS:       "no_bpffs",
	ReasonPinInUse:      "pin_in_use",
	ReasonPinForeign:    "pin_foreign",
	ReasonOther:         "other",
}

// String returns a word such as "rights" or "no_btf".
func (k ReasonKind) String() string {
	if n, ok := reasonNames[k]; ok {
		return n
	}
	return "unknown"
}

// MarshalText writes the form of [ReasonKind.String].
func (k ReasonKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Reason says why a metric is off, or why something beside it (pins, run
// statistics) is not there. It is an error, too.
type Reason struct {
	Kind ReasonKind
	// Text is one sentence without a full stop: what is missing.
	Text string
	// Remedy is what to do about it; empty if nothing helps.
	Remedy string
	// Err is the kernel's or the library's error, nil if there was none. Its
	// text may blame the wrong thing (the memlock limit, for each EPERM): print
	// Text and Remedy, log Err.
	Err error
}

// Error returns "text (remedy)".
func (r *Reason) Error() string {
	if r.Remedy == "" {
		return r.Text
	}
	return r.Text + " (" + r.Remedy + ")"
}

// Unwrap returns Err.
func (r *Reason) Unwrap() error { return r.Err }

// MarshalJSON writes the object {kind, text, remedy}.
func (r *Reason) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind   ReasonKind `json:"kind"`
		Text   string     `json:"text"`
		Remedy string     `json:"remedy,omitempty"`
	}{r.Kind, r.Text, r.Remedy})
}
