package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// revaultSample is one of the samples of reVault's formats, and what its manifest says of it.
type revaultSample struct {
	name      string
	old       string
	RawKeyHex string
	Password  string
	Expect    string
	Entries   []struct {
		Path, Kind, Sha256, Target, Mode string
		Unreadable                       any
	}
	Variables []struct {
		Name, Value string
		Secret      bool
	}
}

// revaultSamples copies the samples, with a time of their own, to dir, and returns them with the flags that open them.
func revaultSamples(t *testing.T, dir string) (all []revaultSample, flags map[string][]string) {
	t.Helper()
	flags = map[string][]string{}
	names, err := filepath.Glob("../../internal/migrate/revault/testdata/*.lbox")
	if err != nil || len(names) == 0 {
		t.Fatal("there are no samples")
	}
	for _, name := range names {
		s := revaultSample{name: strings.TrimSuffix(filepath.Base(name), ".lbox")}
		s.old = filepath.Join(dir, s.name+".lbox")
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, s.old, b)
		if err := os.Chtimes(s.old, time.Time{}, time.Unix(1_600_000_000, 0)); err != nil {
			t.Fatal(err)
		}
		j, err := os.ReadFile(strings.TrimSuffix(name, ".lbox") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(j, &s); err != nil {
			t.Fatal(err)
		}
		key, err := hex.DecodeString(s.RawKeyHex)
		if err != nil {
			t.Fatal(err)
		}
		flag := "--raw-key-file"
		if s.Password != "" {
			flag, key = "--source-passphrase-file", []byte(s.Password+"\n")
		}
		write(t, filepath.Join(dir, s.name+".key"), key)
		flags[s.name] = []string{flag, s.name + ".key"}
		all = append(all, s)
	}
	return all, flags
}

func unchangedFile(t *testing.T, name string, want []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	fi, serr := os.Stat(name)
	if err != nil || serr != nil || !bytes.Equal(b, want) || fi.ModTime().Unix() != 1_600_000_000 {
		t.Errorf("%s was changed", name)
	}
}

// TestMigrateRevault migrates each sample and holds what extract gives against its manifest.
func TestMigrateRevault(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("LOCKBOX_PASSPHRASE", "of the new archives")
	key, err := filepath.Abs("testdata/keys/sign")
	if err != nil {
		t.Fatal(err)
	}
	samples, flags := revaultSamples(t, dir)
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			old, err := os.ReadFile(s.old)
			if err != nil {
				t.Fatal(err)
			}
			defer unchangedFile(t, s.old, old)
			args := append([]string{"migrate", s.old, "-o", s.name + ".lbx", "--encrypt", "--sign-key", key, "--variables-to", "their variables"}, flags[s.name]...)
			want := map[string]int{"ok": 0, "partial": 15, "error": 15, "unsupported": 14}[s.Expect]
			code, _, errs := lockbox(t, dir, args...)
			if code != want {
				t.Fatalf("exit %d, want %d: %s", code, want, errs)
			}
			if s.Expect == "partial" {
				noNewArchive(t, dir, s.name)
				for _, e := range s.Entries {
					if e.Unreadable == true && !strings.Contains(errs, fmt.Sprintf("%q is lost", e.Path)) {
						t.Errorf("%s is not named: %s", e.Path, errs)
					}
				}
				mustRun(t, dir, append(args, "--allow-loss")...)
			} else if want != 0 {
				noNewArchive(t, dir, s.name)
				if s.Expect == "error" {
					if code, _, errs := lockbox(t, dir, append(args, "--allow-loss")...); code != 15 { // nothing is left to take
						t.Errorf("exit %d: %s", code, errs)
					}
					noNewArchive(t, dir, s.name)
				}
				return
			}
			mustRun(t, dir, "verify", s.name+".lbx", "--full")
			if s.name == "v1-synth-basic" {
				s.catAll(t, dir) // it has few files, and holes in them, which cat gives as zeros
				return
			}
			mustRun(t, dir, "extract", s.name+".lbx", "-d", s.name)
			s.compare(t, filepath.Join(dir, s.name))
		})
	}
}

func noNewArchive(t *testing.T, dir, name string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, name+".lbx*"))
	if hidden, herr := filepath.Glob(filepath.Join(dir, ".*")); err != nil || herr != nil || len(left)+len(hidden) != 0 {
		t.Errorf("left behind: %v %v", left, hidden)
	}
}

// compare holds a directory against the manifest.
func (s *revaultSample) compare(t *testing.T, dir string) {
	t.Helper()
	listed := map[string]bool{}
	for _, e := range s.Entries {
		name := filepath.Join(dir, filepath.FromSlash(e.Path))
		fi, err := os.Lstat(name)
		if e.Unreadable == true {
			if err == nil {
				t.Errorf("%s: extracted, and cannot be read", e.Path)
			}
			continue
		}
		if err != nil {
			if e.Unreadable == nil {
				t.Error(err)
			}
			continue
		}
		listed[name] = true
		if fi.ModTime().Unix() != 1_600_000_000 && e.Kind != "symlink" {
			t.Errorf("%s: its time is %v", e.Path, fi.ModTime())
		}
		if runtime.GOOS != "windows" && e.Kind != "symlink" && fmt.Sprintf("%04o", fi.Mode().Perm()) != e.Mode {
			t.Errorf("%s: %v, want %s", e.Path, fi.Mode(), e.Mode)
		}
		switch e.Kind {
		case "file":
			checkSum(t, name, e.Sha256)
		case "symlink":
			to, err := os.Readlink(name)
			if at := path.Join(path.Dir(e.Path), filepath.ToSlash(to)); err != nil || path.IsAbs(to) || at != e.Target {
				t.Errorf("%s: leads to %q, %v, want %s", e.Path, to, err, e.Target)
			}
		case "dir":
			if !fi.IsDir() {
				t.Errorf("%s: %v", e.Path, fi.Mode())
			}
		}
	}
	for _, v := range s.Variables {
		name := filepath.Join(dir, "their variables", filepath.FromSlash(v.Name))
		listed[name] = true
		sum := sha256.Sum256([]byte(v.Value))
		checkSum(t, name, hex.EncodeToString(sum[:]))
	}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !listed[name] {
			t.Errorf("%s: extracted, and not in the manifest", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// catAll holds what list and cat print against the manifest.
func (s *revaultSample) catAll(t *testing.T, dir string) {
	t.Helper()
	listed := map[string]map[string]any{}
	for line := range strings.Lines(mustRun(t, dir, "list", s.name+".lbx", "--json")) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if p, ok := e["path"].(string); ok {
			listed["/"+p] = e
		}
	}
	for _, e := range s.Entries {
		is := listed[e.Path]
		if is["type"] != e.Kind || is["mode"] != e.Mode || is["mtime"] != "2020-09-13T12:26:40.000000000Z" {
			t.Errorf("%s: %v", e.Path, is)
		}
		if e.Kind == "file" {
			out := mustRun(t, dir, "cat", s.name+".lbx", e.Path)
			if sum := sha256.Sum256([]byte(out)); hex.EncodeToString(sum[:]) != e.Sha256 {
				t.Errorf("%s: other bytes", e.Path)
			}
		}
		if target, _ := is["target"].(string); e.Kind == "symlink" && path.Join(path.Dir(e.Path), target) != e.Target {
			t.Errorf("%s: leads to %q", e.Path, target)
		}
	}
	for _, v := range s.Variables {
		if got := mustRun(t, dir, "cat", s.name+".lbx", "their variables"+v.Name); got != v.Value {
			t.Errorf("%s: %q", v.Name, got)
		}
	}
}

func checkSum(t *testing.T, name, want string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if sum := sha256.Sum256(b); err != nil || hex.EncodeToString(sum[:]) != want {
		t.Errorf("%s: %v, or other bytes", name, err)
	}
}

// TestKilledRevaultMigration kills it at moments spread over its run: the old archive stays, a new one is whole or not
// there, and the next run does it all.
func TestKilledRevaultMigration(t *testing.T) {
	dir := t.TempDir()
	samples, flags := revaultSamples(t, dir)
	for _, s := range samples {
		if s.name != "i-bulk-frames" {
			continue
		}
		old, err := os.ReadFile(s.old)
		if err != nil {
			t.Fatal(err)
		}
		args := append([]string{"migrate", s.old, "-o", "new.lbx", "--plaintext"}, flags[s.name]...)
		for i := range 6 {
			cmd := command(t, dir, args...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(5+12*i) * time.Millisecond)
			_ = cmd.Process.Kill() // it may be done
			_ = cmd.Wait()
			if _, err := os.Stat(filepath.Join(dir, "new.lbx")); err == nil {
				mustRun(t, dir, "verify", "new.lbx", "--full")
				if err := os.Remove(filepath.Join(dir, "new.lbx")); err != nil {
					t.Fatal(err)
				}
			}
			unchangedFile(t, s.old, old)
		}
		mustRun(t, dir, args...)
		mustRun(t, dir, "verify", "new.lbx", "--full")
		unchangedFile(t, s.old, old)
	}
}
