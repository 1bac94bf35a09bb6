package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/zeebo/xxh3"

	"lockbox/internal/hostfs"
	"lockbox/internal/seal"
)

var update = flag.Bool("update", false, "write what commands print into the scripts that compare it")

// quickExit keeps a process of a binary built with the race detector from waiting a second at its end.
const quickExit = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	os.Setenv("GORACE", os.Getenv("GORACE")+" "+quickExit)
	passphraseRecipient = cheapRecipient
	if os.Getenv("LOCKBOX_TEST_TERMINAL") == "" {
		// Whoever runs the tests at a terminal must not be asked.
		openTerminal = func() (terminal, error) { return nil, errNoTerminal }
	}
	switch os.Getenv("LOCKBOX_TEST_NAMES") {
	case "windows":
		extractNames = &hostfs.NameRules{
			FoldCase: true, UTF8: true, Refused: `<>:"|?*\`, Control: true, Trailing: true, Devices: true, Longest: 255, Units: true,
		}
	case "macos":
		extractNames = &hostfs.NameRules{FoldCase: true, FoldForm: true, UTF8: true, Longest: 255}
	}
	openItem = openBetween
	testscript.Main(m, map[string]func(){"lockbox": checkedMain, "b3sum": b3sum, "age": openAge, "age-plugin-probe": probePlugin})
}

// cheapRecipient locks with a passphrase at the least cost that there is.
func cheapRecipient(p []byte) (seal.Recipient, error) {
	r, err := seal.PassphraseRecipient(p)
	if err == nil {
		r.(interface{ SetWorkFactor(int) }).SetWorkFactor(1)
	}
	return r, err
}

// TestScript runs the scripts: one or more for each command, one for each situation seen with other
// archivers (their names begin with a number).
func TestScript(t *testing.T) {
	agent := startAgent(t, "testdata/keys/sign")
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	revault, err := filepath.Abs("../../internal/migrate/revault/testdata")
	if err != nil {
		t.Fatal(err)
	}
	rar, err := filepath.Abs("../../internal/migrate/rar/testdata/libarchive")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", quickExit)
			env.Setenv("AGENT", agent)
			env.Setenv("DOCS", docs)
			env.Setenv("REVAULT", revault)
			env.Setenv("RAR", rar)
			return copyKeys(filepath.Join(env.WorkDir, "keys"))
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Getuid() == 0, nil
			case "agent":
				return agent != "", nil
			case "devfull":
				_, err := os.Stat("/dev/full")
				return err == nil, nil
			case "xattrs":
				return takesXattrs(), nil
			}
			return false, errors.New("unknown condition " + cond)
		},
		Cmds: withMetaCommands(map[string]func(*testscript.TestScript, bool, []string){
			"exits":    cmdExits,
			"flip":     cmdFlip,
			"truncate": cmdTruncate,
			"zero":     cmdZero,
			"mkfifo":   cmdMkfifo,
			"fill":     cmdFill,
			"touch":    cmdTouch,
			"same":     cmdSame,
			"samesize": cmdSameSize,

			"codeblock": cmdCodeBlock,
			"rootof":    cmdRootOf,
			"modeof":    cmdModeOf,
			"newer":     cmdNewer,
			"flipin":    cmdFlipIn,
			"unbase64":  cmdUnbase64,
			"empty":     cmdEmpty,
		}),
	})
}

func withMetaCommands(cmds map[string]func(*testscript.TestScript, bool, []string)) map[string]func(*testscript.TestScript, bool, []string) {
	maps.Copy(cmds, metaCommands)
	return cmds
}

// copyKeys gives a script the keys in testdata/keys, which protect nothing but tests.
func copyKeys(to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	files, err := filepath.Glob("testdata/keys/*")
	if err != nil {
		return err
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(name)), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exits CODE COMMAND [ARG...] runs a command that must end with this exit code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var e *exec.ExitError
		if !errors.As(err, &e) {
			ts.Fatalf("%v", err)
		}
		got = e.ExitCode()
	}
	if stderr := ts.ReadFile("stderr"); strings.Contains(stderr, "goroutine ") || strings.Contains(stderr, "internal error") {
		ts.Fatalf("it panicked: %s", stderr)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d; stderr: %s", got, want, ts.ReadFile("stderr"))
	}
}

// flip FILE OFFSET [COUNT] inverts bytes; an offset below 0 counts from the end.
func cmdFlip(ts *testscript.TestScript, _ bool, args []string) {
	edit(ts, args, func(b []byte) {
		for i := range b {
			b[i] ^= 0xff
		}
	})
}

// zero FILE OFFSET [COUNT] overwrites bytes with zeros.
func cmdZero(ts *testscript.TestScript, _ bool, args []string) {
	edit(ts, args, func(b []byte) { clear(b) })
}

func edit(ts *testscript.TestScript, args []string, fn func([]byte)) {
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	off, err := strconv.Atoi(args[1])
	ts.Check(err)
	n := 1
	if len(args) > 2 {
		n, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	if off < 0 {
		off += len(b)
	}
	fn(b[off : off+n])
	ts.Check(os.WriteFile(name, b, 0o666))
}

// truncate FILE SIZE cuts a file; a size below 0 is how many bytes to cut off.
func cmdTruncate(ts *testscript.TestScript, _ bool, args []string) {
	name := ts.MkAbs(args[0])
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	if n < 0 {
		fi, err := os.Stat(name)
		ts.Check(err)
		n += fi.Size()
	}
	ts.Check(os.Truncate(name, n))
}

func cmdMkfifo(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(mkfifo(ts.MkAbs(args[0])))
}

// fill FILE SIZE [SEED] writes bytes that do not compress; the same seed gives the same bytes.
func cmdFill(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	seed := "0"
	if len(args) > 2 {
		seed = args[2]
	}
	name := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(name), 0o777))
	ts.Check(os.WriteFile(name, noise(n, seed), 0o666))
}

// touch FILE NANOSECONDS sets a file's time.
func cmdTouch(ts *testscript.TestScript, _ bool, args []string) {
	ns, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Chtimes(ts.MkAbs(args[0]), time.Time{}, time.Unix(0, ns)))
}

// same DIR DIR compares two trees: names, kinds, bytes, targets, modes, times.
func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	if diff := compareTrees(ts.MkAbs(args[0]), ts.MkAbs(args[1])); (diff != "") != neg {
		ts.Fatalf("trees compare as: %q", diff)
	}
}

// samesize FILE FILE compares the lengths of two files.
func cmdSameSize(ts *testscript.TestScript, neg bool, args []string) {
	var sizes [2]int64
	for i := range sizes {
		fi, err := os.Stat(ts.MkAbs(args[i]))
		ts.Check(err)
		sizes[i] = fi.Size()
	}
	if (sizes[0] != sizes[1]) != neg {
		ts.Fatalf("they have %d and %d bytes", sizes[0], sizes[1])
	}
}

// codeblock DOCUMENT FILE writes a file that stands in a document.
func cmdCodeBlock(ts *testscript.TestScript, _ bool, args []string) {
	blocks, _ := docBlocks(ts.ReadFile(args[0]))
	i := slices.IndexFunc(blocks, func(b docBlock) bool { return b.file == args[1] })
	if i < 0 {
		ts.Fatalf("%s has no file %s", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(blocks[i].text), 0o666))
}

// rootof INFO FILE fails unless the root in what info prints as JSON stands in a file.
func cmdRootOf(ts *testscript.TestScript, _ bool, args []string) {
	_, rest, _ := strings.Cut(ts.ReadFile(args[0]), `"root":"`)
	root, _, found := strings.Cut(rest, `"`)
	if !found || !strings.Contains(ts.ReadFile(args[1]), root) {
		ts.Fatalf("no root %q in %s", root, ts.ReadFile(args[1]))
	}
}

// modeof FILE MODE compares permission bits.
func cmdModeOf(ts *testscript.TestScript, _ bool, args []string) {
	fi, err := os.Lstat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(fi.Mode().Perm()), 8); got != args[1] {
		ts.Fatalf("mode %s, want %s", got, args[1])
	}
}

// empty DIR demands that a directory has nothing in it.
func cmdEmpty(ts *testscript.TestScript, _ bool, args []string) {
	es, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(es) > 0 {
		ts.Fatalf("%s is not empty: %v", args[0], es)
	}
}

// newer FILE makes an archive look as if a later version had written it.
func cmdNewer(ts *testscript.TestScript, _ bool, args []string) {
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	for page := 0; page < 4; page++ {
		c := b[page*4096 : page*4096+512]
		c[8]++
		sum := xxh3.Hash128(c[:480])
		binary.LittleEndian.PutUint64(c[480:], sum.Lo)
		binary.LittleEndian.PutUint64(c[488:], sum.Hi)
	}
	ts.Check(os.WriteFile(name, b, 0o666))
}

// unbase64 FROM TO writes bytes that a script cannot hold.
func cmdUnbase64(ts *testscript.TestScript, _ bool, args []string) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o666))
}

// flipin ARCHIVE FILE POSITION flips a bit of what an archive holds, uncompressed, of a file.
func cmdFlipIn(ts *testscript.TestScript, _ bool, args []string) {
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	data, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	pos, err := strconv.Atoi(args[2])
	ts.Check(err)
	at := bytes.Index(b, data[pos:pos+32])
	if at < 0 {
		ts.Fatalf("%s is not stored uncompressed", args[1])
	}
	b[at] ^= 1
	ts.Check(os.WriteFile(name, b, 0o666))
}
