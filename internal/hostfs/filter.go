package hostfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
)

// Filter is an ordered list of ignore rules as git knows them. The last rule that matches an entry
// decides; an entry that no rule matches is kept. What lies in an excluded directory is excluded and
// no rule can bring it back, because the directory is not entered. A nil Filter keeps everything. Once its rules
// stand it may be asked from any goroutine.
type Filter struct {
	rules []*rule
}

type rule struct {
	glob    glob
	base    bool // no slash in the pattern: it is held against the last component
	dirOnly bool
	keep    bool
	shown   string // the pattern as the user wrote it; "" when it comes from a file
	matched atomic.Bool
}

// Exclude adds one pattern. A leading "!" makes it one that keeps, a leading or inner slash ties it to the
// top, a trailing slash limits it to directories. A leading "./" is a leading slash: git gives it no meaning,
// and people who write it mean that.
func (f *Filter) Exclude(pattern string) error {
	return f.exclude(pattern, pattern)
}

func (f *Filter) exclude(pattern, shown string) error {
	p, keep := strings.CutPrefix(pattern, "!")
	return f.add(pattern, p, keep, shown)
}

// Include adds one pattern that keeps what earlier ones exclude.
func (f *Filter) Include(pattern string) error {
	if strings.HasPrefix(pattern, "!") {
		return fmt.Errorf("pattern %q: a pattern that includes cannot be negated", pattern)
	}
	return f.add(pattern, pattern, true, pattern)
}

func (f *Filter) add(pattern, p string, keep bool, shown string) error {
	r := &rule{keep: keep, shown: shown}
	for strings.HasPrefix(p, "./") {
		p = "/" + strings.TrimLeft(p[2:], "/")
		if strings.HasPrefix(p, "/./") {
			p = p[1:]
		}
	}
	if n := len(p); n > 0 && p[n-1] == '/' {
		r.dirOnly, p = true, p[:n-1]
	}
	r.base = strings.IndexByte(p, '/') < 0
	p = strings.TrimPrefix(p, "/")
	if p == "" {
		return fmt.Errorf("pattern %q matches nothing", pattern)
	}
	var err error
	if r.glob, err = compileGlob(p); err != nil {
		return fmt.Errorf("pattern %q: %w", pattern, err)
	}
	f.rules = append(f.rules, r)
	return nil
}

// ReadRules adds the rules of an ignore file: blank lines and lines that begin with "#" say nothing,
// trailing blanks count only behind a backslash.
func (f *Filter) ReadRules(r io.Reader) error {
	br := bufio.NewReaderSize(r, maxName+1)
	for number := 1; ; number++ {
		line, err := br.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("line %d is longer than %d bytes", number, maxName)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if p := trimBlanks(string(line)); p != "" && p[0] != '#' {
			if perr := f.exclude(p, ""); perr != nil {
				return fmt.Errorf("line %d: %w", number, perr)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// trimBlanks removes trailing spaces that no backslash protects.
func trimBlanks(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(s))
	}
	return s[:end]
}

// Excludes reports whether the rules exclude path, a slash-separated path from the top, itself. It
// does not look at the directories above.
func (f *Filter) Excludes(path string, isDir bool) bool {
	if f == nil {
		return false
	}
	base := path[strings.LastIndexByte(path, '/')+1:]
	decided, excluded := false, false
	for i := len(f.rules) - 1; i >= 0; i-- {
		r := f.rules[i]
		// Below the one that decides, a rule matters only while it is not known to match anything.
		if decided && (r.shown == "" || r.matched.Load()) || r.dirOnly && !isDir {
			continue
		}
		if r.base && r.glob.match(base) || !r.base && r.glob.match(path) {
			if r.shown != "" && !r.matched.Load() {
				r.matched.Store(true)
			}
			if !decided {
				decided, excluded = true, !r.keep
			}
		}
	}
	return excluded
}

// Unmatched returns the patterns of Exclude and Include that matched nothing of what the filter was asked about.
// The rules of a file are not among them: such a file is written for many trees.
func (f *Filter) Unmatched() []string {
	if f == nil {
		return nil
	}
	var list []string
	for _, r := range f.rules {
		if r.shown != "" && !r.matched.Load() {
			list = append(list, r.shown)
		}
	}
	return list
}

// ExcludesTree is Excludes that looks at the directories above too, from the top down: what a walk from
// the top would have left out.
func (f *Filter) ExcludesTree(path string, isDir bool) bool {
	if f == nil {
		return false
	}
	for i := range len(path) {
		if path[i] == '/' && f.Excludes(path[:i], true) {
			return true
		}
	}
	return f.Excludes(path, isDir)
}
