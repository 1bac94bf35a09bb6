package source

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// Input is the file that holds an old archive. It is only ever read.
type Input struct {
	io.ReaderAt
	Size int64
}

// Options says how to read an old archive.
type Options struct {
	// Passphrase returns the passphrase of a protected archive. It is called at most once, when one is needed; nil
	// means that none can be had. The caller wipes what it returned after Close.
	Passphrase func() ([]byte, error)
	RawKey     []byte // the content key itself, of formats that have such keys
	Identities []byte // private keys, in the form the format uses
	Encoding   string // of names that do not say theirs, as IANA calls it; "" is the format's own
	AllowLoss  bool   // take an older or partial state where the newest is damaged; Info.Lost names what was taken

	// Mtime is the time of the entries of a format that stores none. Zero: they get none.
	Mtime time.Time
	// VariablesTo is the directory in which named values, of formats that keep such values beside their entries, become
	// files. Zero: they are lost, and Info.Lost counts them.
	VariablesTo pathsafe.Path

	MaxEntries   int64  // refuse (ErrLimit) an archive with more; 0 is no bound
	MaxBytes     int64  // refuse (ErrLimit) to decompress more than this of an archive that is one stream; 0 is no bound
	MaxKDFMemory int64  // bytes that deriving a key may take, 0 is a default
	MaxKDFTime   uint32 // passes over that memory, of all derivations together, 0 is a default
}

// Verdict is what a probe says of an input.
type Verdict struct {
	Format    string // such as "zip" or "tar.gz"; "" when it is not the prober's
	Supported bool
	Detail    string // of a dialect that is not supported: what is known about it
}

// Info is what is known of an old archive as a whole.
type Info struct {
	Format    string
	Encrypted bool // names or contents were encrypted
	Signed    bool
	Signer    string // who signed, in the format's way of saying it; it was verified
	// Random says that entries' contents can be opened in any order, by several goroutines at once, until Close.
	// Otherwise an entry's content can be opened once, and read until the iteration goes on.
	Random bool
	// Repeats says that a path may come again and then stands for a later state of the same thing, as in tar.
	Repeats bool
	// Links says that entries may be hard links (Entry.LinkTo). What it takes to make them is kept of every file.
	Links   bool
	Entries int64 // -1 when only reading tells
	Bytes   int64 // of contents, -1 when only reading tells
	// Lost is what the archive as a whole has and the new one will not have: bytes that stand where no format
	// puts any, parts of unknown kinds, a state newer than the one that is taken. Notes are facts of interest to its
	// owner with which nothing is lost: how something was read that the format leaves open, and what only the old file
	// has a use for, such as a program in front of it, an index, or a comment on the whole, whose text the note keeps. Neither says anything of times of last access and
	// of change of the inode: every reading changes the ones, and no program can set the others.
	Notes, Lost []string
}

// Said is the note that keeps what an archive says of itself, in a comment, as that of git archive names a commit, or in
// a label.
func Said(in, text string) string {
	const most = 1000
	if len(text) > most {
		return fmt.Sprintf("the archive has a %s of %d bytes, which begins with %q", in, len(text), text[:most])
	}
	return fmt.Sprintf("the archive has a %s: %q", in, text)
}

// Before is the note on n bytes in front of an archive that begins where its format finds it.
func Before(n int64) string {
	return fmt.Sprintf("%d bytes stand before the archive, a program that unpacks it perhaps; they are not part of it", n)
}

// Entry is one entry of an old archive.
type Entry struct {
	Name string // as the old archive has it, any bytes
	// Entry is what will be stored: path, kind and metadata. Size is the file's length with its holes, -1 when
	// only reading tells. Content, LinkGroup and XattrsContent are 0.
	Entry index.Entry
	// LinkTo is the path of an earlier entry of which this one is a hard link. Then there is no content.
	// Only where Info.Links says that there are such.
	LinkTo pathsafe.Path
	// Open opens the content of a file: what Entry.Sparse calls data, without the holes. Reading ends in io.EOF only
	// when everything that the format can check was checked.
	Open func() (io.ReadCloser, error)
	// Secret says that the old archive marks the content as a secret: it may go into an encrypted archive only.
	Secret bool
	Lost   []string // what of the entry cannot be carried over
	Err    error    // the entry cannot be taken at all; of the rest only Name means anything
}

// Archive is an open old archive.
type Archive interface {
	Info() Info
	// Entries reads the archive from its beginning. It may be called again when an earlier iteration is over. An error
	// is the last thing it yields and says that the archive itself cannot be read further; what is wrong with one
	// entry is in the entry.
	Entries(ctx context.Context) iter.Seq2[*Entry, error]
	Close() error
}
