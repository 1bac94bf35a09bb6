package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

const (
	machineLine = `{"machine":{"os":"x"}}` + "\n"
	setLine     = `{"workload":"w","ratio":1}` + "\n"
)

func TestReadAsFarAsItGot(t *testing.T) {
	for text, whole := range map[string]bool{
		machineLine + setLine + `{"summary":{}}` + "\n":      true,
		machineLine + setLine + `{"summary":{}}` + "\n\n \n": true,
		machineLine + setLine:                                false,
		machineLine + setLine + `{"workload":"w","rat`:       false,
	} {
		r, err := Read(strings.NewReader(text))
		if err != nil || len(r.Sets) != 1 || r.Whole != whole {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "it is empty",
		"\n\n":                                "it is empty",
		`{"mach`:                              "line 1: it is not a JSON object",
		setLine:                               "line 1: the first line does not",
		machineLine + `{"wo` + "\n" + setLine: "line 2: it is not a JSON object",
		machineLine + `{"workload":"w","ratio":"x"}`:         `line 2: "ratio" cannot be a string`,
		machineLine + `{"workload":"w","ratio":-1}`:          `line 2: "ratio" is -1`,
		machineLine + `{"workload":"w","value":1e300}`:       `line 2: "value" is 1e+300`,
		machineLine + `{"workload":"w","ratio":1e999}`:       `line 2: "ratio" cannot be a number 1e999`,
		machineLine + `{"workload":"w","ratio":NaN}` + "\n":  "line 2: it is not a JSON object",
		machineLine + `{"workload":"w","samples_ns":[1,-1]}`: "line 2: a sample of -1 ns",
		machineLine + strings.Repeat("x", longestLine+1):     "line 2 is longer than 1048575 bytes",
		machineLine + strings.Repeat("\n", mostLines):        "it has more than 65536 lines",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80q: %v, want %s", text, err, want)
		}
	}
}

// Whatever figures Read takes, what a comparison says of them can be written.
func TestGrowthIsBounded(t *testing.T) {
	for _, was := range []float64{0, math.SmallestNonzeroFloat64, 1e-300, 1, mostFigure} {
		for _, atLeast := range []bool{false, true} {
			now := 2.0
			set := Set{Workload: "w", Ratio: &now, AtLeast: atLeast}
			old := set
			old.Ratio = &was
			c := (&Report{Sets: []Set{set}}).Compare(&Report{Sets: []Set{old}})
			var b bytes.Buffer
			if err := WriteChange(&b, &c.Changes[0]); err != nil || !json.Valid(b.Bytes()) || c.Changes[0].By > fromNothing {
				t.Errorf("from %g: %+v, %v", was, c.Changes[0], err)
			}
		}
	}
}
