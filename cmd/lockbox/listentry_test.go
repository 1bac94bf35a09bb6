package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

type bytesSource struct{ *bytes.Reader }

func (bytesSource) Close() error { return nil }
func (bytesSource) Check() error { return nil }

// everything makes an archive with all that an entry can say.
func everything(t *testing.T, name string) {
	t.Helper()
	ctx := context.Background()
	a, err := store.Create(ctx, name, store.Options{}, store.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := a.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	path := func(s string) pathsafe.Path {
		p, err := pathsafe.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	file := func(p string, e index.Entry, data string) store.Source {
		e.Path, e.Kind = path(p), index.File
		if e.Sparse == nil {
			e.Size = int64(len(data))
		}
		return store.Source{Entry: e, Open: func() (store.Reader, index.Entry, error) {
			return bytesSource{bytes.NewReader([]byte(data))}, e, nil
		}}
	}
	link := func(p, to string) store.Source {
		return store.Source{Entry: index.Entry{Path: path(p)}, LinkTo: path(to)}
	}
	other := func(p string, e index.Entry) store.Source {
		e.Path = path(p)
		return store.Source{Entry: e}
	}
	xattrs := []index.Xattr{{Name: "user.a", Value: []byte{0, 0xff}}, {Name: "user.\xff", Value: nil}}
	large := []index.Xattr{{Name: "user.large", Value: bytes.Repeat([]byte("x"), 100_000)}}
	err = tx.Add(ctx, slices.Values([]store.Source{
		file("b/one", index.Entry{Mode: 0o4755, LinkGroup: tx.NewLinkGroup(), HasOwner: true, UID: 1000, GID: 1 << 40, User: "alice", HasMtime: true, MtimeSec: -62167219200}, "shared"),
		link("a", "b/one"),
		link("c", "b/one"),
		file("sparse", index.Entry{Size: 1 << 40, Sparse: []index.SparseRun{{Data: 6, Hole: 1<<40 - 12}, {Data: 6}}}, "front!bottom"),
		file("early", index.Entry{Xattrs: xattrs, HasMtime: true, MtimeSec: math.MinInt64, MtimeNsec: 5, HasBirth: true, BirthSec: 253402300800}, "x"),
		file("late", index.Entry{Xattrs: large, HasMtime: true, MtimeSec: 253402300799, MtimeNsec: 999999999, HasBirth: true, BirthSec: 1, HasBSDFlags: true, BSDFlags: 2, HasWinAttrs: true, WinAttrs: 32}, "x"),
		other("null", index.Entry{Kind: index.CharDevice, Mode: 0o666, HasDevice: true, Major: 1, Minor: 3, HasOwner: true}),
		other("sda", index.Entry{Kind: index.BlockDevice, HasDevice: true, Major: 8, Group: "disk\n"}),
		other("pipe", index.Entry{Kind: index.FIFO, Mode: 0o600}),
	}), func(a store.Added) {
		if a.Err != nil {
			t.Errorf("%v: %v", a.Path, a.Err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

// allListed returns what list --json says, by path, without what every file has.
func allListed(t *testing.T, dir, archive string, more ...string) map[string]map[string]any {
	t.Helper()
	got := map[string]map[string]any{}
	for _, line := range strings.Split(strings.TrimSpace(mustRun(t, dir, append([]string{"list", archive, "--json"}, more...)...)), "\n") {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got[o["path"].(string)] = o
	}
	return got
}

func TestListSaysEverything(t *testing.T) {
	t.Setenv("TZ", "UTC")
	dir := t.TempDir()
	everything(t, filepath.Join(dir, "a.lbx"))
	got := allListed(t, dir, "a.lbx")
	for path, want := range map[string]string{
		"a":      `{"path":"a","type":"file","size":6,"mode":"4755","mtime":"0000-01-01T00:00:00.000000000Z","uid":1000,"gid":1099511627776,"user":"alice"}`,
		"b/one":  `{"path":"b/one","type":"hardlink","target":"a","size":6,"mode":"4755","mtime":"0000-01-01T00:00:00.000000000Z","uid":1000,"gid":1099511627776,"user":"alice"}`,
		"c":      `{"path":"c","type":"hardlink","target":"a","size":6,"mode":"4755","mtime":"0000-01-01T00:00:00.000000000Z","uid":1000,"gid":1099511627776,"user":"alice"}`,
		"sparse": `{"path":"sparse","type":"file","size":1099511627776,"mode":"0000","sparse":true}`,
		"early": `{"path":"early","type":"file","size":1,"mode":"0000","mtime_sec":-9223372036854775808,"mtime_nsec":5,"birth_sec":253402300800,"birth_nsec":0,
			"xattrs":[{"name":"user.a","value":"AP8="},{"name":"user.\ufffd","name_base64":"dXNlci7/","value":""}]}`,
		"late": `{"path":"late","type":"file","size":1,"mode":"0000","mtime":"9999-12-31T23:59:59.999999999Z","birth":"1970-01-01T00:00:01.000000000Z",
			"bsd_flags":2,"windows_attributes":32}`,
		"null": `{"path":"null","type":"char","size":0,"mode":"0666","uid":0,"gid":0,"major":1,"minor":3}`,
		"sda":  `{"path":"sda","type":"block","size":0,"mode":"0000","group":"disk\n","major":8,"minor":0}`,
		"pipe": `{"path":"pipe","type":"fifo","size":0,"mode":"0600"}`,
	} {
		o := got[path]
		if x, ok := o["xattrs"].([]any); ok && path == "late" {
			if v := x[0].(map[string]any)["value"].(string); len(x) != 1 || len(v) != 133_336 {
				t.Errorf("late: %d attributes", len(x))
			}
			delete(o, "xattrs")
		}
		if d, ok := o["digest"].(string); ok != (o["type"] == "file" || o["type"] == "hardlink") || ok && len(d) != 64 {
			t.Errorf("%s: digest %q", path, d)
		}
		delete(o, "digest")
		var w any
		if err := json.Unmarshal([]byte(want), &w); err != nil {
			t.Fatal(err)
		}
		have, _ := json.Marshal(o)
		need, _ := json.Marshal(w)
		if !bytes.Equal(have, need) {
			t.Errorf("%s\n got %s\nwant %s", path, have, need)
		}
	}
	if n := allListed(t, dir, "a.lbx", "c", "b"); n["b/one"]["type"] == n["c"]["type"] {
		t.Errorf("of two names one is the first: %v", n)
	}
	long := mustRun(t, dir, "list", "a.lbx", "-l")
	want := `-rwsr-xr-x  alice/1099511627776    6 B 0000-01-01 00:00:00 a
hrwsr-xr-x  alice/1099511627776    6 B 0000-01-01 00:00:00 b/one link to a
hrwsr-xr-x  alice/1099511627776    6 B 0000-01-01 00:00:00 c link to a
----------+                        1 B @-9223372036854775808 early
----------+                        1 B 9999-12-31 23:59:59 late
crw-rw-rw-  0/0                   1, 3 -                   null
prw-------                           - -                   pipe
b---------  -/disk\x0a            8, 0 -                   sda
----------                      1.1 TB -                   sparse
`
	if long != want {
		t.Errorf("got\n%swant\n%s", long, want)
	}
	sums := mustRun(t, dir, "list", "a.lbx", "--digest")
	if strings.Count(sums, "\n") != 6 || strings.Count(sums, "\nsparse:") != 1 || !strings.Contains(sums, "  sparse\n") {
		t.Errorf("%s", sums)
	}
}

// Every command takes an archive with all of that.
func TestCommandsWithEverything(t *testing.T) {
	dir := t.TempDir()
	everything(t, filepath.Join(dir, "a.lbx"))
	if got := mustRun(t, dir, "cat", "a.lbx", "c", "b/one"); got != "sharedshared" {
		t.Errorf("%q", got)
	}
	if got := mustRun(t, dir, "cat", "a.lbx", "sparse", "--length", "8"); got != "front!\x00\x00" {
		t.Errorf("%q", got)
	}
	if got := mustRun(t, dir, "cat", "a.lbx", "sparse", "--offset", "1099511627766"); got != "\x00\x00\x00\x00bottom" {
		t.Errorf("%q", got)
	}
	if got := len(mustRun(t, dir, "cat", "a.lbx", "sparse", "--offset", "3", "--length", "10M")); got != 10<<20 {
		t.Errorf("%d bytes", got)
	}
	before := allListed(t, dir, "a.lbx")
	mustRun(t, dir, "verify", "a.lbx", "--full")
	mustRun(t, dir, "copy", "a.lbx", "copy.lbx")
	mustRun(t, dir, "recover", "a.lbx", "-o", "recovered.lbx")
	mustRun(t, dir, "recover", "a.lbx", "--dry-run")
	mustRun(t, dir, "move", "a.lbx", "late", "moved")
	mustRun(t, dir, "move", "a.lbx", "moved", "late")
	mustRun(t, dir, "compact", "a.lbx")
	for _, archive := range []string{"a.lbx", "copy.lbx", "recovered.lbx"} {
		mustRun(t, dir, "verify", archive, "--full")
		after := allListed(t, dir, archive)
		for p := range before {
			x, _ := json.Marshal(before[p])
			y, _ := json.Marshal(after[p])
			if !bytes.Equal(x, y) {
				t.Errorf("%s in %s:\n%.300s, before it was\n%.300s", p, archive, y, x)
			}
		}
	}
	mustRun(t, dir, "remove", "a.lbx", "a", "late")
	mustRun(t, dir, "verify", "a.lbx", "--full")
	if after := allListed(t, dir, "a.lbx"); after["b/one"]["type"] != "file" || after["c"]["target"] != "b/one" {
		t.Errorf("%v", after)
	}
}

// One damaged set of extended attributes is named, and costs neither list nor diff anything else.
func TestDamagedXattrs(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "a.lbx")
	everything(t, archive)
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, bytes.Repeat([]byte("x"), 10_000))
	if at < 0 {
		t.Fatal("the attributes are not found in the archive")
	}
	b[at+5000] ^= 1
	write(t, archive, b)
	code, out, errs := lockbox(t, dir, "list", "a.lbx", "--json")
	if code != int(exitDamaged) || !strings.Contains(errs, `the extended attributes of "late"`) {
		t.Errorf("exit %d: %s", code, errs)
	}
	if n := strings.Count(out, "\n"); n != 9 || strings.Contains(out, "user.large") || !strings.Contains(out, `"path":"sparse"`) {
		t.Errorf("%d lines:\n%s", n, out)
	}
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		return // no attributes are compared
	}
	write(t, filepath.Join(dir, "tree", "late"), []byte("x"))
	code, out, errs = lockbox(t, dir, "diff", "a.lbx", "tree")
	if code != int(exitDamaged) || !strings.Contains(errs, `"late" was not compared: its extended attributes: damaged`) || !strings.Contains(out, "removed   sparse\n") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
}
