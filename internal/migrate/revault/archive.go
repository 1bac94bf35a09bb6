package revault

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/pathsafe"
)

// Archive is an open reVault archive. Its table of contents was read once in full; contents were not.
type Archive struct {
	pages  *pages
	frames cache[*descriptor, []byte]
	root   root // zero for an archive that never had a commit
	info   source.Info

	mtime       time.Time
	allowLoss   bool
	maxEntries  int64
	variablesTo pathsafe.Path
	prefixDirs  map[string]bool // directories of the archive that lie above variablesTo
	doubt       string          // why a newer commit may have been
	newer       []string        // what is lost of newer commits
	opened      bool
	lost        map[int64]bool // nodes that opening could not read
}

const maxLostSubtrees = 1000

// Open opens the archive in in. Errors are of the kinds ErrVersion, ErrAuth and ErrCorrupt, or those of reading.
func Open(ctx context.Context, in source.Input, o source.Options) (source.Archive, error) {
	f, err := readFront(in)
	if err != nil {
		return nil, err
	}
	switch {
	case f.verdict.Format == "":
		return nil, failure(format.ErrVersion, "archive", "it does not begin as one")
	case !f.verdict.Supported:
		return nil, failure(format.ErrVersion, "archive", "it is of %s", f.verdict.Detail)
	case len(f.headers) == 0:
		return nil, corrupt("header", 0, "%s: nothing says which commit is the current one", f.damage)
	case f.damage != "" && !o.AllowLoss:
		return nil, lossy(corrupt("header", -1, "%s; the other copy names commit %d, which may not be the last one", f.damage, f.headers[0].sequence))
	}
	k, err := newKeys(o)
	if err != nil {
		return nil, err
	}
	a, err := openCommit(ctx, in, o, k, f, 0)
	switch {
	case err == nil && a.doubt != "" && a.empty():
		return nil, corrupt("header", -1, "%s, and what is left names an empty state", a.doubt)
	case err == nil:
		return a, nil
	}
	if len(f.headers) < 2 || f.headers[1].root == 0 || !errors.Is(err, format.ErrCorrupt) {
		return nil, err
	}
	older := f.headers[1].sequence
	a, again := openCommit(ctx, in, o, k, f, 1)
	switch {
	case again != nil || a.empty():
		return nil, err // an empty state instead of the last one helps nobody
	case !o.AllowLoss:
		return nil, lossy(fmt.Errorf("%w; there is the older commit %d", err, older))
	}
	a.newer = append(a.newer, fmt.Sprintf("commit %d cannot be read (%s): what comes over is the older commit %d", f.headers[0].sequence, detail(err), older))
	return a, nil
}

// lossy says of an error that less than all can be had.
func lossy(err error) error {
	if errors.Is(err, source.ErrAllowLoss) {
		return err
	}
	return fmt.Errorf("%w; %w", err, source.ErrAllowLoss)
}

// openCommit opens the commit that the header at position i names.
func openCommit(ctx context.Context, in source.Input, o source.Options, k *keys, f front, i int) (*Archive, error) {
	h := &f.headers[i]
	a := &Archive{
		pages: &pages{in: in, base: h.base(), id: h.id, sequence: h.sequence},
		info:  source.Info{Format: f.verdict.Format, Encrypted: true, Random: true, Signed: h.auth != 0},
		mtime: o.Mtime, allowLoss: o.AllowLoss, variablesTo: o.VariablesTo,
		prefixDirs: map[string]bool{}, lost: map[int64]bool{}, maxEntries: o.MaxEntries,
	}
	if a.maxEntries == 0 {
		a.maxEntries = defaultMaxEntries
	}
	a.pages.cache.most, a.frames.most = pageBudget, frameBudget
	if f.damage != "" {
		a.mayBeOlder(f.damage, h)
	}
	var others []header
	if i == 0 {
		others = f.headers[1:]
	}
	if err := a.unlock(ctx, k, h, others); err != nil {
		return nil, err
	}
	if h.root == 0 {
		return a, a.neverCommitted(h)
	}
	if err := a.readCommit(h); err != nil {
		return nil, err
	}
	if err := a.survey(ctx); err != nil {
		return nil, err
	}
	a.opened = true
	return a, nil
}

// mayBeOlder takes down why h may not be the newest header.
func (a *Archive) mayBeOlder(why string, h *header) {
	a.doubt = why
	a.newer = append(a.newer, fmt.Sprintf("%s: commit %d comes over, and may not be the last one", why, h.sequence))
}

// empty says that nothing would come over.
func (a *Archive) empty() bool { return a.info.Entries == 0 && len(a.info.Lost) == 0 }

func (a *Archive) unlock(ctx context.Context, k *keys, h *header, others []header) error {
	key, proven, err := k.content(ctx, a.pages, h)
	if err != nil {
		return err
	}
	defer clear(key)
	if err := checkKey(key, proven, h, others); err != nil {
		if !errors.Is(err, errOtherHeader) {
			return err
		}
		if !a.allowLoss {
			return lossy(corrupt("header", -1, "%v; commit %d may not be the last one", err, h.sequence))
		}
		a.mayBeOlder(err.Error(), h)
	}
	a.pages.cipher = pageCipher(key)
	if h.version == 1 && h.root != 0 && !proven {
		return a.proveRaw(h)
	}
	return nil
}

// proveRaw tells a wrong raw key from damage in format 1, whose header has no MAC: a key that opens any page is right.
func (a *Archive) proveRaw(h *header) error {
	if _, err := a.pages.read(h.root, maxOtherPage); err == nil || !errors.Is(err, format.ErrCorrupt) {
		return err
	}
	if h.auth != 0 {
		if _, err := a.pages.read(h.auth, maxOtherPage); err == nil {
			return nil
		}
	}
	return failure(format.ErrAuth, "commit root", "the raw key is not this archive's, or the archive is damaged or truncated")
}

// neverCommitted accepts a header without a commit only when nothing but both copies of the key directory is in the
// file.
func (a *Archive) neverCommitted(h *header) error {
	end := h.base()
	for range h.keyDirs {
		end = a.pages.afterClear(end)
	}
	if a.pages.in.Size > end {
		return corrupt("header", h.at, "it says that nothing was ever committed, and the file holds more than it names")
	}
	a.info.Notes = append(a.info.Notes, "nothing was ever committed to the old archive: it is empty")
	return nil
}

func (a *Archive) readCommit(h *header) error {
	var err error
	if a.root, err = a.pages.readRoot(h); err != nil {
		return err
	}
	if a.root.unfinished {
		a.info.Notes = append(a.info.Notes, "the last clean-up of the old archive is not finished: data removed from it may still be in the file")
	}
	a.info.Signer, err = a.pages.readSigner(h, a.root)
	if err == nil {
		return nil
	}
	if !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrAuth) && !errors.Is(err, format.ErrVersion) {
		return err
	}
	if !a.allowLoss {
		return lossy(err)
	}
	a.info.Lost = append(a.info.Lost, "the signature cannot be verified: "+detail(err))
	return nil
}

// survey reads all that is not content: what it finds damaged is known before anything is handed out.
func (a *Archive) survey(ctx context.Context) error {
	var plain, secret int
	if err := a.variables(ctx, func(v variable) error {
		if v.secret {
			secret++
		} else {
			plain++
		}
		return nil
	}); err != nil {
		return err
	}
	what := fmt.Sprintf("%d variables, %d of them secret", plain+secret, secret)
	switch {
	case plain+secret == 0:
	case a.variablesTo.IsZero():
		a.info.Lost = append(a.info.Lost, what+": --variables-to makes files of them")
	default:
		a.info.Notes = append(a.info.Notes, what+": they become files in "+a.variablesTo.String())
	}
	definitions, records, err := a.countForms(ctx)
	if err != nil {
		return err
	}
	if definitions+records > 0 {
		a.info.Lost = append(a.info.Lost, fmt.Sprintf("forms: %d definitions and %d records, which have no place in a lockbox", definitions, records))
	}
	count := func(e *source.Entry) error {
		a.info.Entries++
		a.info.Bytes += e.Entry.DataSize()
		return nil
	}
	if err := a.stored(ctx, func(e *source.Entry) error {
		if plain+secret > 0 && e.Err == nil {
			if err := a.checkVariablesTo(e); err != nil {
				return err
			}
		}
		return count(e)
	}); err != nil || a.variablesTo.IsZero() {
		return err
	}
	return a.variableFiles(ctx, count)
}

// checkVariablesTo refuses a directory for variables that holds something else: an entry of the archive and a variable
// must not become one file.
func (a *Archive) checkVariablesTo(e *source.Entry) error {
	path, to := e.Entry.Path, a.variablesTo
	switch {
	case to.IsZero():
	case path == to, path.IsUnder(to), to.IsUnder(path) && e.Entry.Kind != index.Dir:
		return fmt.Errorf("the old archive has %q: its variables cannot become files in %q, choose another directory", e.Name, to.String())
	case to.IsUnder(path):
		a.prefixDirs[path.String()] = true
	}
	return nil
}

// loseSubtree returns what is done about a node that cannot be read.
func (a *Archive) loseSubtree(k treeKind) func(int64, bounds, error) error {
	return func(off int64, b bounds, err error) error {
		switch {
		case a.lost[off]:
			return nil
		case a.opened || b == bounds{} && k == treeTOC || len(a.lost) == maxLostSubtrees:
			return err
		case !a.allowLoss:
			return lossy(err)
		}
		a.lost[off] = true
		a.info.Lost = append(a.info.Lost, fmt.Sprintf("%s: %s is lost (%s)", k.name, subtree(b), detail(err)))
		return nil
	}
}

// Info returns what is known of the archive.
func (a *Archive) Info() source.Info {
	info := a.info
	info.Lost = slices.Concat(a.newer, info.Lost)
	return info
}

// Close ends the use of the archive. The file is the caller's.
func (a *Archive) Close() error { return nil }

var errStop = errors.New("no more entries are wanted")

// Entries gives the archive's entries, directories that are only implied, and the files that variables become.
func (a *Archive) Entries(ctx context.Context) iter.Seq2[*source.Entry, error] {
	return func(yield func(*source.Entry, error) bool) {
		err := a.each(ctx, func(e *source.Entry) error {
			if !yield(e, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

func (a *Archive) each(ctx context.Context, each func(*source.Entry) error) error {
	if a.root.toc == 0 {
		return nil
	}
	if err := a.stored(ctx, each); err != nil || a.variablesTo.IsZero() {
		return err
	}
	return a.variableFiles(ctx, each)
}

// stored gives what the table of contents has, and each directory that it only implies before what is in it.
func (a *Archive) stored(ctx context.Context, each func(*source.Entry) error) error {
	var above parents
	return a.tableOfContents(ctx, func(r *record) error {
		e := a.entry(r)
		if e.Err != nil {
			return each(e)
		}
		missing, under := above.place(e.Entry.Path, e.Entry.Kind == index.Dir)
		if under != "" {
			e.Err = ofEntry(corrupt("entry", -1, "it stands below %q, which is no directory", under), r.path)
		}
		for _, p := range missing {
			if err := each(&source.Entry{Name: "/" + p.String(), Entry: a.plainEntry(p, index.Dir, defaultDirMode)}); err != nil {
				return err
			}
		}
		return each(e)
	})
}
