package bpf

// GRO tells about datagrams that the kernel had merged before this process read
// them (UDP_GRO). Single datagrams are not in it: all datagrams received are
// the receives of [Receives] plus [GRO.Extra].
type GRO struct {
	// Merged are the merged datagrams read, Segments the datagrams in them, and
	// Bytes their payload.
	Merged   uint64 `json:"merged"`
	Segments uint64 `json:"segments"`
	Bytes    uint64 `json:"bytes"`
	// PerMerged are the datagrams in each merged one.
	PerMerged Histogram `json:"per_merged"`
}

// Extra returns the datagrams that came without a receive of their own.
func (g *GRO) Extra() uint64 { return since(g.Segments, g.Merged) }

func (g *GRO) sub(o *GRO) *GRO {
	return &GRO{
		Merged:    since(g.Merged, o.Merged),
		Segments:  since(g.Segments, o.Segments),
		Bytes:     since(g.Bytes, o.Bytes),
		PerMerged: g.PerMerged.Sub(o.PerMerged),
	}
}
