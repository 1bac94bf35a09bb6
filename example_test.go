package lockbox_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing/fstest"
	"time"

	"filippo.io/age"

	"lockbox"
)

// check ends an example; programs handle their errors.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// workDir makes a directory for an example.
func workDir() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "lockbox-example-")
	check(err)
	return dir, func() { check(os.RemoveAll(dir)) }
}

// sample makes an archive with three files.
func sample(dir string) (name string) {
	ctx := context.Background()
	name = filepath.Join(dir, "sample.lbx")
	a, err := lockbox.Create(ctx, name, lockbox.Options{}, lockbox.CreateOptions{})
	check(err)
	tx, err := a.Begin(ctx)
	check(err)
	for _, n := range []string{"docs/guide.txt", "docs/notes/todo.txt", "readme.txt"} {
		check(tx.PutBytes(ctx, lockbox.Entry{Path: n, Mode: 0o644}, []byte("This is "+n+".\n")))
	}
	_, err = tx.Commit(ctx)
	check(err)
	check(a.Close())
	return name
}

// A new archive gets its name with the first commit, complete.
func ExampleCreate() {
	dir, remove := workDir()
	defer remove()
	ctx := context.Background()

	a, err := lockbox.Create(ctx, filepath.Join(dir, "new.lbx"), lockbox.Options{}, lockbox.CreateOptions{Compression: lockbox.CompressBetter})
	check(err)
	defer a.Close()
	tx, err := a.Begin(ctx)
	check(err)
	defer tx.Rollback() // does nothing after Commit

	// From a reader.
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	check(tx.Put(ctx, lockbox.Entry{Path: "greeting.txt", Mode: 0o644, ModTime: now}, strings.NewReader("hello\n")))
	// A link, and a directory by itself.
	check(tx.Put(ctx, lockbox.Entry{Path: "latest", Mode: fs.ModeSymlink | 0o777, Target: "greeting.txt"}, nil))
	check(tx.Put(ctx, lockbox.Entry{Path: "empty", Mode: fs.ModeDir | 0o755, ModTime: now}, nil))
	// A whole file system: os.DirFS, embed.FS, a zip.Reader, another archive.
	site := fstest.MapFS{"index.html": {Data: []byte("<p>hi")}, "css/main.css": {Data: []byte("p{}")}}
	check(tx.PutFS(ctx, "www", site, lockbox.PutFSOptions{}))

	sum, err := tx.Commit(ctx)
	check(err)
	fmt.Println("generation", sum.Generation, "with", sum.Added, "entries")
	// Output: generation 1 with 7 entries
}

// One file is read without touching the others.
func ExampleArchive_ReadFile() {
	dir, remove := workDir()
	defer remove()

	a, err := lockbox.Open(context.Background(), sample(dir), lockbox.Options{})
	check(err)
	defer a.Close()
	text, err := a.ReadFile("docs/guide.txt")
	check(err)
	fmt.Print(string(text))
	_, err = a.ReadFile("docs/nothing.txt")
	fmt.Println(errors.Is(err, fs.ErrNotExist), err)
	// Output:
	// This is docs/guide.txt.
	// true read docs/nothing.txt: file does not exist
}

// An archive is a file system.
func ExampleArchive_walk() {
	dir, remove := workDir()
	defer remove()

	a, err := lockbox.Open(context.Background(), sample(dir), lockbox.Options{})
	check(err)
	defer a.Close()
	check(fs.WalkDir(a, ".", func(name string, d fs.DirEntry, err error) error {
		fmt.Println(d.Type(), name)
		return err
	}))
	// What is stored, and nothing else, in one pass over the index.
	for e, err := range a.Entries("docs") {
		check(err)
		fmt.Println(e.Path, e.Size)
	}
	// Output:
	// d--------- .
	// d--------- docs
	// ---------- docs/guide.txt
	// d--------- docs/notes
	// ---------- docs/notes/todo.txt
	// ---------- readme.txt
	// docs/guide.txt 24
	// docs/notes/todo.txt 29
}

// A File can be read at any position, by many goroutines at once.
func ExampleFile_ReadAt() {
	dir, remove := workDir()
	defer remove()

	a, err := lockbox.Open(context.Background(), sample(dir), lockbox.Options{})
	check(err)
	defer a.Close()
	f, err := a.Open("docs/guide.txt")
	check(err)
	defer f.Close()
	word := make([]byte, 5)
	_, err = f.(io.ReaderAt).ReadAt(word, 13)
	check(err)
	fmt.Printf("%s\n", word)
	// Output: guide
}

// Bulk is the fast way to read much: all workers, and each frame once.
func ExampleArchive_Bulk() {
	dir, remove := workDir()
	defer remove()
	ctx := context.Background()

	a, err := lockbox.Open(ctx, sample(dir), lockbox.Options{})
	check(err)
	defer a.Close()
	var total atomic.Int64
	check(a.Bulk(ctx, a.Entries("docs"), func(p lockbox.Piece) error {
		// Here an extraction would call WriteAt(p.Data, p.Off) of the file p.Entry.Path.
		total.Add(int64(len(p.Data)))
		return p.Err
	}))
	fmt.Println(total.Load(), "bytes")
	// Output: 53 bytes
}

// A change is made whole or not at all.
func ExampleArchive_Begin() {
	dir, remove := workDir()
	defer remove()
	ctx := context.Background()

	a, err := lockbox.OpenWrite(ctx, sample(dir), lockbox.Options{})
	check(err)
	defer a.Close()

	change := func(fail error) error {
		tx, err := a.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := tx.Rename(ctx, "docs", "archive/docs"); err != nil {
			return err
		}
		if err := tx.Remove(ctx, "readme.txt"); err != nil {
			return err
		}
		if fail != nil {
			return fail // everything stays as it was
		}
		_, err = tx.Commit(ctx)
		return err
	}
	list := func() {
		var paths []string
		for e, err := range a.Entries("") {
			check(err)
			paths = append(paths, e.Path)
		}
		fmt.Println(strings.Join(paths, " "))
	}
	fmt.Println(change(errors.New("changed my mind")))
	list()
	fmt.Println(change(nil))
	list()
	// Output:
	// changed my mind
	// docs/guide.txt docs/notes/todo.txt readme.txt
	// <nil>
	// archive/docs/guide.txt archive/docs/notes/todo.txt
}

// Verify reads and checks every byte of an archive.
func ExampleVerify() {
	dir, remove := workDir()
	defer remove()

	report, err := lockbox.Verify(context.Background(), sample(dir), lockbox.Options{}, lockbox.VerifyOptions{
		Finding: func(f lockbox.Finding) { fmt.Println(f.Path, f.Kind, f.Detail) },
	})
	check(err)
	fmt.Println(report.Entries, "entries,", report.Damaged, "damaged")
	// Output: 3 entries, 0 damaged
}

// An archive that nobody without a key can read, and nobody but the signer can change unnoticed.
func Example_protected() {
	dir, remove := workDir()
	defer remove()
	ctx := context.Background()
	identity, err := age.GenerateX25519Identity()
	check(err)
	public, private, err := ed25519.GenerateKey(nil)
	check(err)

	name := filepath.Join(dir, "safe.lbx")
	a, err := lockbox.Create(ctx, name, lockbox.Options{SignKey: private}, lockbox.CreateOptions{
		Recipients: []lockbox.Recipient{{Key: identity.Recipient(), Label: "me"}},
	})
	check(err)
	tx, err := a.Begin(ctx)
	check(err)
	check(tx.PutBytes(ctx, lockbox.Entry{Path: "secret", Mode: 0o600}, []byte("the treasure is under the oak")))
	_, err = tx.Commit(ctx)
	check(err)
	check(a.Close())

	_, err = lockbox.Open(ctx, name, lockbox.Options{})
	fmt.Println("without a key:", errors.Is(err, lockbox.ErrAuth))

	a, err = lockbox.Open(ctx, name, lockbox.Options{
		Identities: []age.Identity{identity},
		Signers:    []ed25519.PublicKey{public}, // who must have signed it
	})
	check(err)
	defer a.Close()
	secret, err := a.ReadFile("secret")
	check(err)
	fmt.Printf("%s\n", secret)
	// Output:
	// without a key: true
	// the treasure is under the oak
}
