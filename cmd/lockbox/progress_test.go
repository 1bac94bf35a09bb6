package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		spent       time.Duration
		want        string
	}{
		{0, -1, 0, "adding 0 B so far"},
		{5_000_000, -1, 2 * time.Second, "adding 5.0 MB so far, 2.5 MB/s"},
		{0, 0, time.Second, "adding 0 B, 0 B/s"},
		{0, 1000, 0, "adding   0% [                        ] 0 B of 1.0 kB"},
		{500, 1000, time.Second, "adding  50% [############            ] 500 B of 1.0 kB, 500 B/s, 2s left"},
		{1000, 1000, time.Second, "adding 100% [########################] 1.0 kB of 1.0 kB, 1.0 kB/s"},
		{2000, 1000, 0, "adding 100% [########################] 1.0 kB of 1.0 kB"},
		{1, 1 << 40, time.Second, "adding   0% [                        ] 1 B of 1.1 TB, 1 B/s"},
		{1 << 30, 1 << 40, time.Minute, "adding   0% [                        ] 1.1 GB of 1.1 TB, 18 MB/s, 17h3m1s left"},
	} {
		if got := progressLine("adding", humanBytes, c.done, c.total, c.spent); got != c.want {
			t.Errorf("%d of %d after %v:\n%q, want\n%q", c.done, c.total, c.spent, got, c.want)
		}
	}
}

func TestProgressOfThings(t *testing.T) {
	const want = "comparing  25% [######                  ] 1,000 of 4,000, 500/s, 7s left"
	if got := progressLine("comparing", countOf, 1000, 4000, 2*time.Second); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A message appears on a line of its own, and a shorter line leaves nothing of a longer one.
func TestProgressLeavesNothingBehind(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(100, 0)
	p := &progress{w: &out, label: "adding", amount: humanBytes, now: func() time.Time { return now }, start: now}
	p.set(123_456_789, -1)
	p.draw()
	p.set(1, -1)
	p.draw()
	p.aside(func() { _, _ = io.WriteString(&out, "message\n") })
	p.aside(func() { _, _ = io.WriteString(&out, "another\n") })
	p.draw()
	p.clear()
	if got := screen(out.String()); got != "message\nanother\n" {
		t.Errorf("the screen shows %q", got)
	}
}

// screen is what a terminal shows after s, which moves only by carriage returns and line feeds.
func screen(s string) string {
	var b strings.Builder
	line, at := []byte{}, 0
	for i := range len(s) {
		switch s[i] {
		case '\r':
			at = 0
		case '\n':
			b.WriteString(strings.TrimRight(string(line), " ") + "\n")
			line, at = line[:0], 0
		default:
			if at == len(line) {
				line = append(line, ' ')
			}
			line[at] = s[i]
			at++
		}
	}
	b.WriteString(strings.TrimRight(string(line), " "))
	return b.String()
}

// Every long command shows a bar that knows how much there is to do, and where that is known exactly it is full at the end.
func TestBars(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		write(t, filepath.Join(dir, "tree", fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, 50_000))
	}
	mustRun(t, dir, "add", "made.lbx", "tree")
	mustRun(t, dir, "export", "made.lbx", "--format", "tar", "-o", "old.tar")
	mustRun(t, dir, "create", "locked.lbx", "--recipient", absolute(t, "testdata/keys/age.pub"))
	key := absolute(t, "testdata/keys/age.key")
	// The walk that counts for add may come to its end after the other, when there is little to do.
	for _, c := range []struct{ line, ends string }{
		{"add a.lbx tree", `^adding (100% \[|\d)`},
		{"verify --full a.lbx", `^verifying 100% \[`},
		{"extract a.lbx -d out", `^extracting 100% \[`},
		{"cat a.lbx tree/1", `^reading 100% \[`},
		{"export a.lbx --format tar -o a.tar", `^exporting 100% \[`},
		{"export a.lbx --format zip", `^exporting 100% \[`},
		{"diff a.lbx tree --to tree", `^comparing 100% \[`},
		{"diff a.lbx tree --to tree --content", `^comparing 100% \[`},
		{"migrate old.tar -o new.lbx", `^migrating +\d+% \[`},
		{"copy a.lbx b.lbx", `^copying 100% \[`},
		{"recover a.lbx -o c.lbx", `^recovering +\d+% \[`},
		{"add locked.lbx tree -i " + key, `^adding (100% \[|\d)`},
		{"key rotate locked.lbx -i " + key, `^encrypting 100% \[`},
	} {
		code, _, errs := lockbox(t, dir, append(strings.Fields(c.line), "--progress", "always")...)
		last := errs[strings.LastIndexByte(errs, '\r')+1:]
		if code != 0 || !regexp.MustCompile(c.ends).MatchString(last) || !strings.HasSuffix(last, "\n") {
			t.Errorf("%s: exit %d, the bar ends as %q", c.line, code, last)
		}
	}
	// What has changed counts and nothing else, also what the archive has below another name. The walk that counts may come too
	// late; then it shows that what the archive may have already is read twice.
	for i := range 3 {
		write(t, filepath.Join(dir, "tree", fmt.Sprint(i)), noise(8_000_000, fmt.Sprint(i)))
	}
	mustRun(t, dir, "add", "u.lbx", "tree", "--to", "top")
	late := 0
	for {
		write(t, filepath.Join(dir, "tree", "1"), noise(8_000_001+late, fmt.Sprint(late)))
		code, _, errs := lockbox(t, dir, "add", "u.lbx", "tree", "--to", "top", "--update", "--progress", "always")
		last := errs[strings.LastIndexByte(errs, '\r')+1:]
		if code != 0 || !regexp.MustCompile(`^adding (100% \[#+\] 8.0 MB of 8.0 MB|(8.0|16) MB so far)`).MatchString(last) {
			t.Fatalf("exit %d, the bar ends as %q", code, last)
		}
		if strings.Contains(last, "%") {
			break
		}
		if late++; late == 20 {
			t.Fatal("add --update never knows how much there is to do")
		}
	}
	// Calm in a pipe.
	for _, line := range []string{"verify --full a.lbx", "add a.lbx tree"} {
		if code, _, errs := lockbox(t, dir, strings.Fields(line)...); code != 0 || errs != "" {
			t.Errorf("%s: exit %d: %q", line, code, errs)
		}
	}
}
