package hostfs

import (
	"errors"
	"runtime"
	"strings"
)

// trialMark stands behind a temporary name in those that are tried out.
const trialMark = "-try"

// usualNames are the rules of a destination in which nothing can be tried out.
func usualNames() NameRules {
	switch runtime.GOOS {
	case "windows":
		return windowsNames
	case "darwin":
		return NameRules{FoldCase: true, FoldForm: true, UTF8: true, Longest: 255}
	}
	return NameRules{Longest: 255}
}

// probeFolding finds out which names a directory, at is its path, takes for one, by making a file and looking for it under
// other names: few systems say it of a directory.
func (x *Extractor) probeFolding(d *dir, at string) (r NameRules, err error) {
	r = usualNames()
	base := tempName() + trialMark
	for _, t := range []trial{{&r.FoldCase, base + "a", base + "A"}, {&r.FoldForm, base + "é", base + "e\u0301"}} {
		made, found, err := x.tryName(d, at, t.name, t.other)
		if err != nil {
			return r, err
		}
		if made {
			*t.result = found
		}
	}
	return r, nil
}

// tryName makes an empty file and removes it again. It reports whether that could be made, and whether it was found as
// other, too. The error is that it cannot be removed.
func (x *Extractor) tryName(d *dir, at, name, other string) (made, found bool, err error) {
	f, err := d.createNamed(name, 0o600)
	if err != nil {
		return false, false, nil
	}
	if other != "" {
		_, err := d.lookup(other, false)
		found = err == nil
	}
	return true, found, errors.Join(f.close(), x.removeTrial(d, at, name))
}

// probeNames completes rules by trying out what some system refuses. It is for trees with names that are out of the
// ordinary. On Windows trying would not tell: there a colon makes a stream, and a device opens.
func (x *Extractor) probeNames(d *dir, at string, r *NameRules) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	base := tempName() + trialMark
	if made, _, err := x.tryName(d, at, base+"plain", ""); err != nil || !made {
		return err // nothing can be made here at all; what is usual has to do
	}
	refused := make([]bool, len(refusedByWindows))
	trials := []trial{
		{result: &r.Control, name: base + "\x01x"},
		{result: &r.UTF8, name: base + "\xff"},
		{result: &r.Trailing, name: base + "x.", other: base + "x"},
	}
	for i, c := range refusedByWindows {
		trials = append(trials, trial{result: &refused[i], name: base + string(c) + "x", other: base})
	}
	left := r.Longest - len(base)
	var noLong, noUnits bool
	trials = append(trials,
		trial{result: &noLong, name: base + strings.Repeat("a", left)},
		trial{result: &noUnits, name: base + strings.Repeat("é", left)})
	for _, t := range trials {
		made, found, err := x.tryName(d, at, t.name, t.other)
		if err != nil {
			return err
		}
		*t.result = !made || found
	}
	for i, c := range refusedByWindows {
		if refused[i] {
			r.Refused += string(c)
		}
	}
	r.Units = !noUnits // twice as many bytes were no matter
	if noLong {
		r.Longest = 143 // what is left where the names on the disk are encrypted
	}
	return nil
}

// trial is a name to make. other is what it may be found as.
type trial struct {
	result      *bool
	name, other string
}
