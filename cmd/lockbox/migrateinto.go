package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockbox/internal/migrate"
)

// several migrates archives into a directory, one after the other: each is worked on by all workers.
func (m *migrator) several(ctx context.Context) error {
	a := m.a
	list, err := m.collect()
	if err != nil {
		return err
	}
	if m.opt.report != "" {
		made, err := makeDirs(m.opt.into) // where the report may belong
		defer removeEmpty(made)
		if err == nil {
			err = preparePlace(&m.opt.report)
		}
		if err != nil {
			return err
		}
	}
	by := make(map[string]string)
	for _, p := range list {
		// Some file systems fold case, and there two of these would be one.
		key := strings.ToLower(p.output)
		if first := by[key]; first != "" {
			return &failure{
				code: exitUsage, err: fmt.Errorf("%s and %s would both become %s", quoted(first), quoted(p.old), quoted(p.output)),
				hint: "migrate one of them by itself, with -o",
			}
		}
		by[key] = p.old
		if err := m.reportApart(p.old, p.output); err != nil {
			return err
		}
	}
	migrated, failed, there := 0, 0, 0
	for _, p := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.opt.skipExisting {
			if _, err := os.Lstat(p.output); err == nil {
				there++
				continue
			}
		}
		made, err := makeDirs(filepath.Dir(p.output))
		if err != nil {
			err = fmt.Errorf("%s was not migrated: %w", quoted(p.old), err)
		} else {
			err = m.one(ctx, p.old, p.output)
		}
		if err == nil {
			migrated++
			continue
		}
		removeEmpty(made)
		if ctx.Err() != nil || errors.Is(err, errReaderGone) {
			return err
		}
		failed++
		a.say.Error(err)
		if codeOf(err) == exitDamaged {
			a.note(exitDamaged)
		} else {
			a.note(exitSkipped)
		}
	}
	if err := m.writeReport(); err != nil {
		return err
	}
	if !a.g.quiet && !a.g.json {
		before := ""
		if m.opt.skipExisting {
			before = fmt.Sprintf(", %d there before", there)
		}
		_, err = fmt.Fprintf(a.out, "%s migrated into %s%s, %d not\n", plural(uint64(migrated), "archive", "archives"), quoted(m.opt.into), before, failed)
	}
	return err
}

// makeDirs makes a directory and what is missing above it, and returns what it made, the innermost first.
func makeDirs(dir string) (made []string, err error) {
	for up := dir; ; up = filepath.Dir(up) {
		if _, err := os.Lstat(up); !errors.Is(err, fs.ErrNotExist) || up == filepath.Dir(up) {
			break
		}
		made = append(made, up)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return made, fmt.Errorf("cannot make the directory %s: %w", quoted(dir), withoutPath(err))
	}
	return made, nil
}

// removeEmpty removes directories, as long as nothing is in them.
func removeEmpty(dirs []string) {
	for _, dir := range dirs {
		_ = os.Remove(dir)
	}
}

// pair is an old archive, and what the new one is called.
type pair struct{ old, output string }

// collect finds the old archives: files that are named, and those below directories that are.
func (m *migrator) collect() (list []pair, err error) {
	into := m.opt.into
	for _, old := range m.opt.old {
		fi, err := os.Stat(old)
		if err != nil {
			return nil, m.failure(old, into, err)
		}
		if !fi.IsDir() {
			list = append(list, pair{old, filepath.Join(into, newArchiveName(filepath.Base(old)))})
			continue
		}
		err = filepath.WalkDir(old, func(name string, d fs.DirEntry, err error) error {
			if err != nil && name == old {
				return err
			}
			if err != nil {
				m.a.say.Error(fmt.Errorf("%s was not searched for old archives: %w", quoted(name), withoutPath(err)))
				m.a.note(exitSkipped)
				return nil
			}
			if d.IsDir() {
				if name != old && same(name, into) { // what was migrated before
					return fs.SkipDir
				}
				return nil
			}
			rel, err := filepath.Rel(old, name)
			if err != nil {
				return err
			}
			list = append(list, pair{name, filepath.Join(into, filepath.Dir(rel), newArchiveName(filepath.Base(name)))})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("looking for old archives in %s: %w", quoted(old), err)
		}
	}
	return list, nil
}

// same reports whether two names stand for one file that exists.
func same(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// newArchiveName is what the archive is called that an old one becomes.
func newArchiveName(old string) string {
	for cut := true; cut; {
		cut = false
		ext := strings.ToLower(filepath.Ext(old))
		if ext != "" && len(ext) < len(old) && migrate.KnownExtension(ext) {
			old, cut = old[:len(old)-len(ext)], true
		}
	}
	return old + ".lbx"
}
