package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	longestLine = 1 << 20
	mostLines   = 1 << 16
	// mostFigure bounds what can be a figure: more comes of no measurement.
	mostFigure = 1e15
)

// Read reads NDJSON output. A run that was not complete is read as far as it got: a last line that was cut short
// is passed over, and Whole is false.
func Read(r io.Reader) (*Report, error) {
	in := bufio.NewReaderSize(r, longestLine)
	var out Report
	for n := 1; ; n++ {
		text, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("line %d is longer than %d bytes", n, longestLine-1)
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case n > mostLines:
			return nil, fmt.Errorf("it has more than %d lines", mostLines)
		}
		if last := err != nil; len(bytes.TrimSpace(text)) > 0 {
			if lerr := out.line(text); errors.Is(lerr, errNotJSON) && last && out.Machine.OS != "" {
				return &out, nil
			} else if lerr != nil {
				return nil, fmt.Errorf("line %d: %w", n, lerr)
			}
		}
		if err != nil {
			break
		}
	}
	if out.Machine.OS == "" {
		return nil, errors.New("it is empty")
	}
	return &out, nil
}

var errNotJSON = errors.New("it is not a JSON object")

func (r *Report) line(text []byte) error {
	var l struct {
		line
		Set
	}
	if err := json.Unmarshal(text, &l); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
			return fmt.Errorf("%q cannot be a %s", strings.TrimPrefix(wrong.Field, "Set."), wrong.Value)
		}
		return errNotJSON
	}
	switch {
	case r.Machine.OS == "" && (l.Machine == nil || l.Machine.OS == ""):
		return errors.New("the first line does not describe a machine")
	case l.Machine != nil:
		r.Machine = *l.Machine
	case l.Summary != nil:
		r.Whole = true
	case l.Workload != "":
		if err := l.sane(); err != nil {
			return err
		}
		r.Sets = append(r.Sets, l.Set)
	}
	return nil
}

// sane refuses figures that no measurement gives. JSON has neither infinity nor what is no number.
func (s *Set) sane() error {
	figures := []struct {
		name  string
		value *float64
	}{{"ratio", s.Ratio}, {"value", s.Value}, {"goal", s.Goal}, {"size_ratio", &s.SizeRatio}}
	for _, f := range figures {
		if f.value != nil && !(*f.value >= 0 && *f.value <= mostFigure) {
			return fmt.Errorf("%q is %g, which is no figure between 0 and %g", f.name, *f.value, mostFigure)
		}
	}
	for _, d := range s.Samples {
		if d < 0 || float64(d) > mostFigure {
			return fmt.Errorf("a sample of %d ns is no time", d)
		}
	}
	return nil
}
