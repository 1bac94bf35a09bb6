// Package lockbox reads and changes lockbox archives: one file that holds many, encrypted, signed, both or neither,
// each change of which is a transaction that a power cut leaves done or undone and never half done.
//
// # Reading
//
// [Open] takes equally long whatever an archive holds. An [Archive] is a file system in the sense of [io/fs], so that
// everything that takes an [fs.FS] takes it:
//
//	a, err := lockbox.Open(ctx, "photos.lbx", lockbox.Options{})
//	defer a.Close()
//	text, err := a.ReadFile("2026/notes.txt")          // or fs.ReadFile, fs.WalkDir, fs.Glob, http.FS, template.ParseFS
//
// Reading one file of a million costs what that file costs. Every byte is verified after it was read and before the
// caller gets it; when that fails, the caller's buffer holds nothing of it. What has been decoded is shared through a
// cache of bounded size: many small files that are stored in one frame decode it once, whatever the order in which
// they are read and by how many goroutines.
//
// A [File] is also an [io.ReaderAt], an [io.Seeker] and an [io.WriterTo]. [Archive.Entries] goes through what is
// stored in order, [Archive.Bulk] reads many files with all workers and each frame once.
//
// # Changing
//
// [Create] makes an archive, [OpenWrite] opens one for changing, [Archive.Begin] starts a transaction:
//
//	tx, err := a.Begin(ctx)
//	err = tx.Put(ctx, lockbox.Entry{Path: "2026/notes.txt", Mode: 0o644, ModTime: now}, strings.NewReader(text))
//	err = tx.Remove(ctx, "2025")
//	sum, err := tx.Commit(ctx)
//
// Nothing of it shows before Commit has returned, in this handle either. Rollback, and Close without a commit, leave
// the archive as it was.
//
// # Names
//
// A stored path is relative, has slashes, no empty, "." or ".." component and no zero byte; its bytes are kept as
// they are. Those that are not UTF-8 have no name in the sense of [fs.ValidPath]. A directory listing shows them all
// the same, so that nothing is passed over in silence, but as with [os.DirFS] the file system refuses to open them.
// [Archive.Lookup], [Archive.Entries] and [Archive.OpenEntry] take and give all of them.
//
// Open, Stat and ReadFile follow symbolic links, as far as these stay inside the archive; one that leads out of it is
// an error of kind [fs.ErrNotExist]. Lstat, ReadLink and ReadDir show links as links. A directory that was not stored
// itself and has something below it is there, without a time.
//
// # Errors
//
// An error that says something of an archive is an [*Error], in the methods of the file system inside of an
// [*fs.PathError]. Its kind is found with [errors.Is]: [fs.ErrNotExist], [fs.ErrExist], [fs.ErrInvalid],
// [fs.ErrClosed], the errors of a context, or one of the Err variables of this package.
//
// # Concurrency
//
// An Archive may be used by any number of goroutines, and they share its caches. So may [File.ReadAt],
// [File.WriteRange] and [File.Stat] of one File; its Read, Seek and WriteTo have one position and are for one
// goroutine at a time. A [Tx] is for one goroutine. There is one transaction at a time in an archive, other processes
// included; readers go on meanwhile and keep the state that they have opened. Close waits for what is under way, and
// everything after it gives fs.ErrClosed.
//
// A handle for changing moves on to the new state with each commit. A File that it opened before, and a listing under
// way, may then find that what they need was overwritten; they say so with [ErrChanged].
//
// What is not here is done by the command: compacting, key slots, recovery, migration.
package lockbox
