package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/encoding/ianaindex"

	"lockbox/internal/format"
)

// The types of flag values that pflag does not know. Each says in its error what it takes.

// sizeValue is a number of bytes; set tells 0 from not given.
type sizeValue struct {
	n   int64
	set bool
}

func (v *sizeValue) Type() string { return "SIZE" }
func (v *sizeValue) String() string {
	if !v.set {
		return ""
	}
	return strconv.FormatInt(v.n, 10)
}

func (v *sizeValue) Set(s string) error {
	n, err := parseSize(s)
	if err == nil {
		v.n, v.set = n, true
	}
	return err
}

// parseSize reads a number of bytes, or of K, M, G, T of them: powers of 1,024.
func parseSize(s string) (int64, error) {
	digits, shift := s, 0
	if s != "" {
		if i := strings.IndexByte("KMGT", s[len(s)-1]&^0x20); i >= 0 {
			digits, shift = s[:len(s)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if errors.Is(err, strconv.ErrRange) || err == nil && n > math.MaxInt64>>shift {
		return 0, errors.New("the size is too large")
	}
	if err != nil {
		return 0, errors.New("a size is a number of bytes, or one with K, M, G or T")
	}
	return int64(n) << shift, nil
}

// jobsValue is a number of workers; 0 is auto.
type jobsValue struct{ n int }

const maxJobs = 1024

func (v *jobsValue) Type() string { return "N" }
func (v *jobsValue) String() string {
	if v.n == 0 {
		return "auto"
	}
	return strconv.Itoa(v.n)
}

func (v *jobsValue) Set(s string) error {
	if s == "auto" {
		v.n = 0
		return nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n < 1 || n > maxJobs {
		return fmt.Errorf(`the number of workers is "auto" or 1 to %d`, maxJobs)
	}
	v.n = int(n)
	return nil
}

// choice is one word of a list.
type choice struct {
	value string
	words []string
	set   bool
}

func newChoice(value string, words ...string) choice { return choice{value: value, words: words} }

func (v *choice) Type() string   { return strings.Join(v.words, "|") }
func (v *choice) String() string { return v.value }

func (v *choice) Set(s string) error {
	if !slices.Contains(v.words, s) {
		return fmt.Errorf("it is one of %s", strings.Join(v.words, ", "))
	}
	v.value, v.set = s, true
	return nil
}

// rootValue is the root of an archive's state as info prints it.
type rootValue struct{ digest *format.Digest }

func (v *rootValue) Type() string { return "HEX" }
func (v *rootValue) String() string {
	if v.digest == nil {
		return ""
	}
	return v.digest.String()
}

func (v *rootValue) Set(s string) error {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(format.Digest{}) {
		return fmt.Errorf("a root is %d hexadecimal digits", 2*len(format.Digest{}))
	}
	d := format.Digest(b)
	v.digest = &d
	return nil
}

// durationValue is a time span that is not negative.
type durationValue time.Duration

func (v *durationValue) Type() string   { return "TIME" }
func (v *durationValue) String() string { return time.Duration(*v).String() }

func (v *durationValue) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return errors.New("a time is a number with a unit, such as 90s, 30m or 2h")
	}
	*v = durationValue(d)
	return nil
}

// countValue is a number that is not negative; set tells 0 from not given.
type countValue struct {
	n   uint64
	set bool
}

func (v *countValue) Type() string   { return "N" }
func (v *countValue) String() string { return strconv.FormatUint(v.n, 10) }

func (v *countValue) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return errors.New("it is a number, 0 or more")
	}
	v.n, v.set = n, true
	return nil
}

// encodingValue is what IANA calls an encoding of characters.
type encodingValue string

func (v *encodingValue) Type() string   { return "NAME" }
func (v *encodingValue) String() string { return string(*v) }
func (v *encodingValue) Set(s string) error {
	if enc, err := ianaindex.IANA.Encoding(s); err != nil || enc == nil {
		return errors.New("no encoding of that name is known; IANA lists them, such as cp866 and windows-1251")
	}
	*v = encodingValue(s)
	return nil
}
