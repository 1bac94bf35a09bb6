package vfs

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"
	"testing"
)

func TestMemHook(t *testing.T) {
	m := Mem()
	var seen []Op
	m.Hook = func(op Op) error {
		m.Bytes(op.Name) // the hook may look
		seen = append(seen, op)
		return nil
	}
	f, err := m.CreateTemp("d/a", 0o644)
	ok(t, err)
	write(t, f, "abc", 4)
	ok(t, f.Truncate(2))
	ok(t, f.Sync())
	ok(t, f.Publish())
	ok(t, m.Remove("d/a"))
	want := []Op{
		{OpCreate, "d/a", 0, 0}, {OpWrite, "d/a", 4, 3}, {OpTruncate, "d/a", 2, 0}, {OpSync, "d/a", 0, 0},
		{OpPublish, "d/a", 0, 0}, {OpSyncDir, "d", 0, 0}, {OpRemove, "d/a", 0, 0},
	}
	if !slices.Equal(seen, want) {
		t.Fatalf("the hook saw %v, want %v", seen, want)
	}
}

func TestMemFaults(t *testing.T) {
	m := Mem()
	m.Put("a", []byte("old"))
	fault := errors.New("fault")
	var failing OpKind
	m.Hook = func(op Op) error {
		if op.Kind == failing {
			return fault
		}
		return nil
	}
	f, err := m.Open("a", true)
	ok(t, err)

	failing = OpWrite
	is(t, errOf(f.WriteAt([]byte("new"), 0)), fault)
	failing = OpTruncate
	is(t, f.Truncate(0), fault)
	failing = OpSync
	is(t, f.Sync(), fault)
	failing = OpRemove
	is(t, m.Remove("a"), fault)
	failing = OpCreate
	_, err = m.CreateTemp("b", 0o644)
	is(t, err, fault)
	failing = OpPublish
	temp, err := m.CreateTemp("b", 0o644)
	ok(t, err)
	is(t, temp.Publish(), fault)
	if got := m.Names(); !slices.Equal(got, []string{"a"}) || string(m.Bytes("a")) != "old" {
		t.Fatalf("failed operations left %q, %q", got, m.Bytes("a"))
	}

	failing = OpSyncDir
	is(t, m.SyncDir("."), fault)
	is(t, temp.Publish(), fault) // named, but not durable
	if same, err := temp.SameFile("b"); !same || err != nil {
		t.Fatalf("SameFile after the directory's sync failed: %v, %v", same, err)
	}
	is(t, temp.Publish(), fs.ErrInvalid)
}

func TestMemLimit(t *testing.T) {
	m := Mem()
	m.Put("a", []byte("12345"))
	f, err := m.Open("a", true)
	ok(t, err)
	is(t, f.Truncate(1<<62), syscall.ENOSPC)
	is(t, errOf(f.WriteAt([]byte("x"), 1<<63-1)), syscall.ENOSPC)
	m.Limit = 8
	is(t, errOf(f.WriteAt([]byte("abcde"), 4)), syscall.ENOSPC)
	write(t, f, "abcd", 4)
	if got := string(m.Bytes("a")); got != "1234abcd" {
		t.Fatalf("content %q", got)
	}
}

func TestMemPut(t *testing.T) {
	m := Mem()
	if m.Bytes("a") != nil {
		t.Fatal("a file that is not there has bytes")
	}
	data := []byte("one")
	m.Put("./x/../a", data)
	data[0] = '!'
	f, err := m.Open("a", false)
	ok(t, err)
	m.Put("a", nil)
	if got := m.Bytes("a"); got == nil || len(got) != 0 {
		t.Fatalf("an empty file has %v", got)
	}
	if got := content(t, f); got != "one" {
		t.Fatalf("the open handle reads %q", got)
	}
	if same, err := f.SameFile("a"); same || err != nil {
		t.Fatalf("SameFile after Put: %v, %v", same, err)
	}
}
