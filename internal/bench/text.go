package bench

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"unicode/utf8"
)

const (
	// generatedText is prime, so that files cut from the text at round places are never equal.
	generatedText = 50_331_653
	leastText     = 32 << 20
	mostText      = 256 << 20
)

// Text is what text fixtures are cut from.
type Text struct{ base []byte }

// LoadText returns the text of a directory's files in order of their paths, or generated text when dir is "".
func LoadText(dir string) (*Text, error) {
	if dir == "" {
		return &Text{generateText(generatedText)}, nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	t := &Text{}
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		if room := mostText - len(t.base); fi.Size() > int64(room) {
			return nil
		}
		b, err := os.ReadFile(name)
		if err == nil && isText(b) {
			t.base = append(t.base, b...)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(t.base) < leastText {
		return nil, fmt.Errorf("only %d bytes of text below %s; %d are needed, because what repeats sooner compresses too well", len(t.base), dir, leastText)
	}
	return t, nil
}

func isText(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// The words are written out as slices, which costs no start of the program anything.
var (
	nouns = []string{
		"node", "frame", "block", "entry", "archive", "reader", "writer", "buffer", "offset", "length", "index",
		"tree", "page", "root", "record", "header", "cursor", "digest", "path", "name", "file", "handle", "range",
		"extent", "window", "cache", "table", "slot", "queue", "worker", "option", "error", "result", "state",
		"value", "count", "limit", "level", "batch", "group", "field", "token", "source", "target", "stream",
	}
	verbs = []string{
		"read", "write", "open", "close", "find", "next", "seek", "flush", "check", "parse", "encode", "decode",
		"append", "insert", "remove", "update", "load", "store", "lock", "free", "copy", "move", "scan", "merge",
		"split", "reset", "mark", "fill", "grow", "sync",
	}
	prose = []string{
		"the", "of", "a", "to", "is", "and", "that", "it", "in", "for", "not", "be", "when", "which", "with",
		"has", "are", "this", "by", "one", "from", "as", "on", "before", "after", "must", "never", "only", "every",
		"because", "until", "an", "or", "if", "than", "more", "first", "last", "other", "same", "what", "there",
		"they", "their", "into", "would", "caller", "returns", "reports", "bytes", "number", "position",
		"anything", "nothing", "already",
	}
	builtin = []string{
		"int", "int64", "uint32", "uint64", "bool", "string", "error", "[]byte", "uint8", "time.Duration",
	}
	signs = []string{
		"==", "!=", "<", ">", "<=", ">=",
	}
	lines = []string{
		"if err != nil {\n\t§return err\n§}", "if err != nil {\n\t§return nil, fmt.Errorf(\"¢ ¢: %w\", err)\n§}", "µ := ¶.£(¶)", "µ, err := ¶.£(¶, µ)",
		"if ¶ ¡ ¶ {\n\t§return ¶.µ\n§}", "for _, µ := range ¶.µ {\n\t§µ.£(¶)\n§}", "¶.µ = ¶", "¶ = append(¶, ¶.µ)", "return ¶.£(¶)", "¶.µ += ¶.£(ª)",
		"// ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢", "// ¢ ¢ ¢ ¢ ¢ ¢", "var µ ¤", "switch ¶.µ {\n§case ª:\n\t§¶.µ = ª\n§default:\n\t§return nil\n§}", "defer ¶.£()", "if !¶.µ {\n\t§continue\n§}",
		"¶.£(¶, func(µ ¤) error {\n\t§return ¶.£(µ)\n§})", "¶[ª] = byte(¶ >> ª)", "t.Errorf(\"¢ ¢ ¢: got %v, want %v\", ¶, ¶)", "{¶, ª, \"¢ ¢\", ª},",
	}
)

// generateText returns n bytes that compress like program source: few words for much of the text, names that come
// back within a file, functions that come back in other files, comments, numbers. Deflate at level 6 and zstd both
// make a little more than a quarter of it, as of Go source.
func generateText(n int) []byte {
	g := textWriter{r: 7, b: make([]byte, 0, n+64<<10)}
	for len(g.b) < n {
		g.file()
	}
	return g.b[:n:n]
}

type textWriter struct {
	r      rng
	b      []byte
	names  [48]string // of this file, those that come often first
	funcs  [24]string
	kinds  [10]string
	indent int
	spans  [256][2]int // where earlier functions are, in no order
	known  int
}

func title(s string) string { return string(s[0]-'a'+'A') + s[1:] }

func (g *textWriter) word() string { return nouns[g.r.n(len(nouns))] }

// file writes what could be one file of source.
func (g *textWriter) file() {
	for i := range g.names {
		switch g.names[i] = g.word(); g.r.n(4) {
		case 0:
			g.names[i] = g.names[i][:1+g.r.n(2)]
		case 1:
			g.names[i] += title(g.word())
		case 2:
			g.names[i] = verbs[g.r.n(len(verbs))] + title(g.names[i])
		}
	}
	for i := range g.funcs {
		g.funcs[i] = title(verbs[g.r.n(len(verbs))])
		if g.r.n(3) > 0 {
			g.funcs[i] += title(g.word())
		}
	}
	for i := range g.kinds {
		if g.kinds[i] = "*" + title(g.word()); g.r.n(2) == 0 {
			g.kinds[i] = g.word() + "." + title(g.word())
		}
	}
	g.add("// Package ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢.\npackage " + g.word() + "\n\nimport (\n\t\"fmt\"\n\t\"" + g.word() + "/" + g.word() + "\"\n)\n\n")
	for range 8 + g.r.n(24) {
		g.function()
	}
}

// function writes a function or a type. One of seven is one that was there before, some hundred KiB back at most.
func (g *textWriter) function() {
	if g.known > len(g.spans) && g.r.n(7) == 0 {
		s := g.spans[g.r.n(len(g.spans))]
		g.b = append(g.b, g.b[s[0]:s[1]]...)
		return
	}
	begin := len(g.b)
	defer func() {
		g.spans[g.known%len(g.spans)] = [2]int{begin, len(g.b)}
		g.known++
	}()
	if g.r.n(6) == 0 {
		g.add("// ¢ ¢ ¢ ¢ ¢ ¢ ¢.\ntype " + title(g.word()) + title(g.word()) + " struct {\n")
		for range 3 + g.r.n(8) {
			g.add("\tµ ¤ // ¢ ¢ ¢ ¢ ¢\n")
		}
		g.add("}\n\n")
		return
	}
	g.add("// £ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢ ¢\n// ¢ ¢ ¢ ¢ ¢ ¢ ¢.\nfunc (µ ¤) £(µ ¤, µ ¤) (¤, error) {\n")
	for range 4 + g.r.n(16) {
		depth := 1 + g.r.low(3)
		g.indent = depth
		g.tabs()
		g.add(lines[g.r.n(len(lines))])
		g.b = append(g.b, '\n')
	}
	g.add("\treturn ¶, nil\n}\n\n")
}

func (g *textWriter) tabs() {
	for range g.indent {
		g.b = append(g.b, '\t')
	}
}

// add writes a pattern: µ a name, ¶ a name or a field of one, £ a function, ¤ a type, ¢ a word of prose, ª a number,
// ¡ a comparison, § this line's indentation.
func (g *textWriter) add(pattern string) {
	for _, c := range pattern {
		switch c {
		case 'µ':
			g.b = append(g.b, g.names[g.r.low(len(g.names))]...)
		case '¶':
			g.b = append(g.b, g.names[g.r.low(len(g.names))]...)
			if g.r.n(3) == 0 {
				g.b = append(append(g.b, '.'), g.names[g.r.low(len(g.names))]...)
			}
		case '£':
			g.b = append(g.b, g.funcs[g.r.low(len(g.funcs))]...)
		case '¤':
			if g.r.n(2) == 0 {
				g.b = append(g.b, builtin[g.r.low(len(builtin))]...)
			} else {
				g.b = append(g.b, g.kinds[g.r.low(len(g.kinds))]...)
			}
		case '¢':
			switch g.r.n(4) {
			case 0:
				g.b = append(g.b, g.word()...)
			default:
				g.b = append(g.b, prose[g.r.n(len(prose))]...)
			}
		case 'ª':
			g.b = strconv.AppendInt(g.b, int64(g.r.low(1<<(2+g.r.n(14)))), 10)
		case '¡':
			g.b = append(g.b, signs[g.r.low(len(signs))]...)
		case '§':
			g.tabs()
		default:
			g.b = append(g.b, byte(c)) // patterns hold nothing else that is not ASCII
		}
	}
}
