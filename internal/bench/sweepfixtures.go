package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// sweeps are trees on disk that "lockbox add" stores with 1 to all workers.
func sweeps() []workload {
	var ws []workload
	for _, s := range []struct {
		name string
		size int64
		text bool // two workers have a goal
		tree iter.Seq[File]
	}{
		{"repeated-small: 4,096 files of 25,600 × 'x'", 105 * mib, false, repeatedSmall()},
		{"text-tree: 1,024 JSON-lines files, 30 MB", 36 * mib, true, textTree(1024, 160)},
		{"mixed-tree: Markdown, tiny and random files, 20 MB", 24 * mib, false, mixedTree},
		{"high-entropy: 64 × 1 MiB", 64 * mib, false, slices.Values(each(64, mib, nil))},
		{"text-tree: 4,096 JSON-lines files, 120 MB", 140 * mib, true, textTree(4096, 160)},
		{"one text file of 256 MiB", 256 * mib, true, func(yield func(File) bool) {
			t := &Text{base: jsonLines(0, 40_000)} // it comes back far beyond the reach of a frame
			yield(t.File("text.jsonl", 256*mib, 0))
		}},
		{"high-entropy: 128 × 1 MiB", 128 * mib, false, slices.Values(each(128, mib, nil))},
	} {
		ws = append(ws, workload{"jobs", s.name, false, 2*s.size + 32*mib, func(e *env) error { return e.sweep(s.tree, s.text) }})
	}
	return ws
}

func repeatedSmall() iter.Seq[File] {
	return func(yield func(File) bool) {
		b := bytes.Repeat([]byte{'x'}, 25_600)
		for i := range 4096 {
			if !yield(Bytes(fmt.Sprintf("d%02d/repeated%04d.txt", i%32, i), b)) {
				return
			}
		}
	}
}

// textTree are count files of lines JSON objects each, in 16 directories.
func textTree(count, lines int) iter.Seq[File] {
	return func(yield func(File) bool) {
		for i := range count {
			if !yield(Bytes(fmt.Sprintf("part%02d/events%04d.jsonl", i%16, i), jsonLines(i, lines))) {
				return
			}
		}
	}
}

// jsonLines are log events of about 187 bytes each.
func jsonLines(seed, lines int) []byte {
	r := rng(mix(uint64(seed)))
	b := make([]byte, 0, lines*190)
	for i := range lines {
		b = fmt.Appendf(b, `{"time":"2026-02-%02dT%02d:%02d:%02dZ","level":"%s","service":"%s-%s","user":%d,"host":"h%02d","path":"/%s/%s/%d","status":%d,"ms":%d,"message":"%s %s %s %s"}`+"\n",
			1+r.n(28), i/60%24, i%60, r.n(60), []string{"info", "info", "info", "debug", "warn", "error"}[r.n(6)], nouns[r.low(len(nouns))], verbs[r.low(len(verbs))],
			r.n(1_000_000), r.n(40), nouns[r.n(len(nouns))], verbs[r.n(len(verbs))], r.n(100_000), []int{200, 200, 200, 201, 304, 404, 500}[r.n(7)], r.low(5000),
			verbs[r.n(len(verbs))], prose[r.n(len(prose))], nouns[r.n(len(nouns))], prose[r.n(len(prose))])
	}
	return b
}

func mixedTree(yield func(File) bool) {
	for i := range 512 {
		g := textWriter{r: rng(uint64(i) + 1)}
		g.add("# ¢ ¢ ¢ ¢\n\n")
		for n := 2000 + 500*(i%16); len(g.b) < n; {
			g.add("¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢\n¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢.\n\n- ¢ ¢ ¢\n- ¢ ¢ ¢ ¢\n\n")
		}
		if !yield(Bytes(fmt.Sprintf("doc/%02d/page%03d.md", i%8, i), g.b)) {
			return
		}
	}
	for i := range 400 {
		if !yield(Bytes(fmt.Sprintf("tiny/%02d/t%03d", i%4, i), fmt.Appendf(nil, "%d\n", i*i))) {
			return
		}
	}
	for i := range 128 + 32 {
		f := Raw(fmt.Sprintf("bin/small%03d", i), 64*kib, uint64(i))
		if i >= 128 {
			f = Raw(fmt.Sprintf("bin/large%03d", i), 256*kib, uint64(i))
		}
		if !yield(f) {
			return
		}
	}
}

// writeTree writes files below a directory and returns how many bytes they have.
func (e *env) writeTree(dir string, files iter.Seq[File]) (total int64, err error) {
	made := map[string]bool{}
	for f := range files {
		if err := e.ctx.Err(); err != nil {
			return total, err
		}
		total += f.Size
		host := filepath.Join(dir, filepath.FromSlash(f.Name))
		if d := path.Dir(f.Name); !made[d] {
			if err := os.MkdirAll(filepath.Dir(host), 0o755); err != nil {
				return total, err
			}
			made[d] = true
		}
		if err := writeFile(host, func(w io.Writer) error {
			b := bufio.NewWriterSize(w, 256*kib)
			if err := fill(e.ctx, b, &f); err != nil {
				return err
			}
			return b.Flush()
		}); err != nil {
			return total, err
		}
	}
	return total, nil
}
