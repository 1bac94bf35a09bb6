//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Every file that a command line names may be a FIFO. A command that waits for its other end, or for what comes
// through, ends with an interrupt; with somebody at the other end it does what it does with a file.
func TestNamedFIFOs(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	key := func(name string) string { return filepath.Join("testdata", "keys", name) }
	contents := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	run := func(ctx context.Context, args []string) (int, string) {
		code, _, errs := inProcess(ctx, args...)
		return code, errs
	}
	write(t, at("f"), []byte("f"))
	write(t, at("phrase"), []byte("words\n"))
	for _, args := range [][]string{
		{"add", at("plain"), at("f")},
		{"add", at("signed"), at("f"), "--sign-key", key("sign")},
		{"add", at("locked"), at("f"), "--recipient", key("age.pub")},
		{"add", at("phrased"), at("f"), "--encrypt", "--passphrase-file", at("phrase")},
	} {
		if code, errs := run(t.Context(), args); code != 0 {
			t.Fatalf("%q: exit %d: %s", args, code, errs)
		}
	}
	base := `{"machine":{"cpu":"none","cpus":1,"os":"x","arch":"y"}}` + "\n"
	for _, c := range []struct {
		args    string
		content string
	}{
		{"add PLAIN F --exclude-from FIFO", "*.o\n"},
		{"add PLAIN --files-from FIFO", at("f") + "\n"},
		{"add PLAIN --files-from0 FIFO", at("f") + "\x00"},
		{"list SIGNED --signer FIFO", contents(key("sign.pub"))},
		{"add SIGNED F --sign-key FIFO", contents(key("sign"))},
		{"list LOCKED -i FIFO", contents(key("age.key"))},
		{"add LOCKED F -i KEY --recipient FIFO", contents(key("age.pub"))},
		{"key add LOCKED -i KEY --new-passphrase-file FIFO", "more words\n"},
		{"compact PHRASED --passphrase-file FIFO", "words\n"},
		{"create NEW --encrypt --passphrase-file FIFO", "words\n"},
		{"bench --quick --filter never --compare FIFO", base},
	} {
		t.Run(c.args, func(t *testing.T) {
			// with makes the command line, with a FIFO that nobody left behind waits for.
			with := func(fifo string) (args []string) {
				if err := mkfifo(at(fifo)); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.Remove(at(fifo)) })
				for _, a := range strings.Fields(c.args) {
					switch {
					case a == "KEY":
						a = key("age.key")
					case a == "FIFO":
						a = at(fifo)
					case a == strings.ToUpper(a) && a[0] != '-':
						a = at(strings.ToLower(a))
					}
					args = append(args, a)
				}
				return args
			}
			// interrupted runs the command and lets before decide when it is interrupted.
			interrupted := func(when string, args []string, before func()) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan int, 1)
				go func() {
					code, _ := run(ctx, args)
					done <- code
				}()
				before()
				cancel()
				select {
				case code := <-done:
					if code != 130 {
						t.Errorf("interrupted while it %s: exit %d", when, code)
					}
				case <-time.After(20 * time.Second):
					t.Errorf("interrupted while it %s: it goes on", when)
				}
			}
			interrupted("opens", with("opened"), func() { time.Sleep(20 * time.Millisecond) })
			interrupted("reads", with("read"), func() {
				waitFor(t, "a reader", func() bool {
					w, err := os.OpenFile(at("read"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
					if err == nil {
						t.Cleanup(func() { w.Close() })
					}
					return err == nil
				})
			})
			args := with("written")
			go func() {
				if w, err := os.OpenFile(at("written"), os.O_WRONLY, 0); err == nil {
					_, _ = w.WriteString(c.content)
					w.Close()
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			want := 0
			if args[0] == "bench" {
				want = 2 // it has read what it is to compare with, and then finds no workload of that name
			}
			if code, errs := run(ctx, args); code != want {
				t.Errorf("exit %d: %s", code, errs)
			}
		})
	}
}
