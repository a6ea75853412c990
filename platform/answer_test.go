package platform

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestAnswerText(t *testing.T) {
	for a, want := range map[Answer]string{Unknown: `"unknown"`, Yes: `"yes"`, No: `"no"`} {
		b, err := json.Marshal(a)
		if err != nil || string(b) != want {
			t.Errorf("marshal %v = %s, %v, want %s", a, b, err, want)
		}
		var back Answer = 77
		if err := json.Unmarshal(b, &back); err != nil || back != a {
			t.Errorf("unmarshal %s = %v, %v", b, back, err)
		}
	}
	var a Answer
	if err := json.Unmarshal([]byte(`"maybe"`), &a); err == nil {
		t.Error("maybe was accepted as an answer")
	}
}

func TestProbeKeepsOnlyDefiniteAnswers(t *testing.T) {
	var script []Feature
	runs := 0
	p := &cachedProbe{run: func() Feature {
		f := script[runs]
		runs++
		return f
	}}
	cause := errors.New("out of descriptors")
	script = []Feature{unknown("socket", cause), unknown("socket", cause), no("refused", cause), yes("never asked")}
	for i, want := range []Answer{Unknown, Unknown, No, No, No} {
		if got := p.get(); got.Answer != want {
			t.Errorf("call %d: %v, want %v", i, got.Answer, want)
		}
	}
	if runs != 3 {
		t.Errorf("the probe ran %d times, want 3", runs)
	}
	f := p.get()
	if f.Supported() || !errors.Is(f.Err, cause) || !strings.Contains(f.Reason, cause.Error()) {
		t.Errorf("a No without its evidence: %+v", f)
	}
	if f := yes("ok"); !f.Supported() || f.Err != nil {
		t.Errorf("yes: %+v", f)
	}
}
