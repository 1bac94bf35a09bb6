package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// reproducible removes from entries what differs between two copies of one tree. nil changes nothing.
type reproducible struct {
	latest int64 // no time is later than this, in seconds since 1970
}

// newReproducible reads SOURCE_DATE_EPOCH.
func newReproducible(getenv func(string) string) (*reproducible, error) {
	v := getenv("SOURCE_DATE_EPOCH")
	if v == "" {
		return &reproducible{}, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return nil, usagef("SOURCE_DATE_EPOCH is %s, which is not a number of seconds since 1970", quoted(v))
	}
	return &reproducible{latest: n}, nil
}

func (r *reproducible) normalise(e *index.Entry) {
	if r == nil {
		return
	}
	e.HasOwner, e.UID, e.GID, e.User, e.Group, e.Xattrs = false, 0, 0, "", "", nil
	e.HasBirth, e.BirthSec, e.BirthNsec = false, 0, 0
	e.HasWinAttrs, e.WinAttrs, e.HasBSDFlags, e.BSDFlags = false, 0, false, 0
	switch {
	case e.Kind == index.Symlink:
		e.Mode = 0o777 // systems disagree on the modes of links, and ignore them
	case e.Kind == index.Dir || e.Mode&0o100 != 0:
		e.Mode = 0o755
	default:
		e.Mode = 0o644
	}
	if !e.HasMtime || e.MtimeSec >= r.latest {
		e.HasMtime, e.MtimeSec, e.MtimeNsec = true, r.latest, 0
	}
}

// Contexts keep the streams of add and create apart.
const (
	planContext   = "lockbox 2026-11-30 reproducible plan v1"
	createContext = "lockbox 2026-11-30 reproducible create v1"
)

// fixed is how contents are stored, as one number.
func (c *creation) fixed() uint64 { return uint64(c.level()) | uint64(c.pad())<<8 }

// seed returns the stream that the ids of an empty archive come from.
func (c *creation) seed() io.Reader {
	h := blake3.NewDeriveKey(createContext)
	w := planWriter{h: h}
	w.number(c.fixed())
	w.text(c.sector.value)
	return h.Digest()
}

// seed returns the stream that the engine draws ids from: it follows from what is going to be stored
// (paths, metadata, sizes), how, and into which state of the archive. Nothing secret depends on it.
func (r *adder) seed(ctx context.Context, so store.Options, exists bool) (io.Reader, error) {
	h := blake3.NewDeriveKey(planContext)
	w := planWriter{h: h}
	var root format.Digest
	if exists {
		// Opening for writing first would draw from the stream that this is to make. Whoever changes the archive
		// in between changes the seed's worth only: the ids are those of a state that is gone.
		ar, err := r.a.openRead(ctx, r.opt.archive)
		if err != nil {
			return nil, err
		}
		in, err := ar.Info()
		if err = r.a.closeRead(ar, r.opt.archive, err); err != nil {
			return nil, err
		}
		if in.Suite.Encrypted() {
			return nil, usagef("%s is encrypted: --reproducible cannot be used with it, as its keys are random", quoted(r.opt.archive))
		}
		root = in.Root
	}
	w.bytes(root[:])
	w.number(r.opt.create.fixed())
	w.text(r.opt.create.sector.value)
	for it := range r.items(ctx) {
		if it.Err != nil {
			continue // it is not stored, or the command fails
		}
		e := r.entry(it)
		w.text(e.Path.String())
		w.number(uint64(e.Kind))
		w.number(uint64(e.Mode))
		w.number(uint64(e.MtimeSec))
		w.number(uint64(e.MtimeNsec))
		w.number(uint64(e.Size))
		w.text(e.Target)
		if e.HasDevice {
			w.number(e.Major)
			w.number(e.Minor)
		}
	}
	w.text(r.stdin.String())
	return h.Digest(), ctx.Err()
}

// planWriter feeds a digest with values that cannot run into each other.
type planWriter struct {
	h *blake3.Hasher
}

func (w *planWriter) number(n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	_, _ = w.h.Write(b[:]) // a hash has no errors
}

func (w *planWriter) bytes(b []byte) {
	w.number(uint64(len(b)))
	_, _ = w.h.Write(b)
}

func (w *planWriter) text(s string) { w.bytes([]byte(s)) }

// dryRun says what add would do. It reads no file and changes nothing.
func (r *adder) dryRun(ctx context.Context) error {
	if !r.made {
		ar, err := r.a.openRead(ctx, r.opt.archive)
		if err != nil {
			return err
		}
		r.ar = ar
		in, err := ar.Info()
		if err == nil {
			err = r.agree(ctx, in)
		}
		if err == nil {
			err = r.predict(ctx)
		}
		if err = r.a.closeRead(ar, r.opt.archive, err); err != nil {
			return err
		}
		return r.report(store.Summary{Generation: in.Generation, Root: in.Root})
	}
	if _, err := r.a.recipientSlots(ctx, r.opt.create.recipients); err != nil {
		return err
	}
	// Whether it could be made shows by beginning to; what is not committed leaves nothing behind.
	ar, err := r.a.openCreate(ctx, r.opt.archive, r.a.storeOptions(), r.opt.create.options(false))
	if err != nil {
		return err
	}
	r.a.meter.take(ar)
	if err := ar.Close(); err != nil {
		return createFailure(r.opt.archive, err)
	}
	if err := r.predict(ctx); err != nil {
		return err
	}
	return r.report(store.Summary{})
}

// predict goes through the sources as add does.
func (r *adder) predict(ctx context.Context) error {
	if err := r.checkParents(); err != nil {
		return err
	}
	r.startMirror()
	defer r.mirror.close()
	for it, unlisted := range r.items(ctx) {
		p := pending{host: it.Host(), kind: index.Kind(it.Kind), unlisted: unlisted, noXattrs: it.XattrErr}
		if tooManyOpen(it.Err) || tooManyOpen(unlisted) {
			return exhausted(p.host, errors.Join(it.Err, unlisted))
		}
		if it.Err != nil {
			r.leftOut(it.Path, p, it.Err)
			continue
		}
		if err := r.clash(it); err != nil {
			return err
		}
		e := r.entry(it)
		keep, err := r.meet(&e, &p)
		if err != nil {
			return err
		}
		if keep {
			continue
		}
		r.remove = append(r.remove, p.remove...)
		if p.keep = r.stays(ctx, it, e, &p); p.keep {
			r.kept++
			r.count(e.Path, p, e.Size, "unchanged")
			continue
		}
		r.count(e.Path, p, e.Size, predicted(&p))
		if err := r.predictLine(e.Path, p.kind, predicted(&p)); err != nil {
			return err
		}
	}
	if !r.stdin.IsZero() {
		p := pending{host: "-", kind: index.File}
		if _, err := r.meet(&index.Entry{Path: r.stdin, Kind: index.File}, &p); err != nil {
			return err
		}
		if err := r.checkAbove(r.stdin); err != nil {
			return err
		}
		r.remove = append(r.remove, p.remove...)
		r.count(r.stdin, p, 0, predicted(&p))
		if err := r.predictLine(r.stdin, p.kind, predicted(&p)); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.predictGone(ctx)
}

// stays reports whether an item is certain to be what is stored already. Of a file that shows without reading it
// only where --update trusts its size and time; what is no file has nothing to read.
func (r *adder) stays(ctx context.Context, it *hostfs.Item, e index.Entry, p *pending) (same bool) {
	old, file := p.old, e.Kind == index.File
	if r.links.several(it) {
		f := r.links.other(it)
		if f == nil {
			e.LinkGroup = math.MaxUint64 // a new one, which may turn out to be the stored one
			defer func() {
				group := uint64(0)
				if same {
					group = old.LinkGroup
				}
				r.links.begin(it, group)
			}()
		} else if f.group == 0 || old == nil || old.LinkGroup != f.group {
			return false
		} else {
			e.LinkGroup = f.group
		}
	}
	if old == nil || file && !(r.opt.update && upToDate(&it.Meta, old)) || !file && r.opt.noDedup {
		return false
	}
	e.Content = old.Content
	if file {
		e.Sparse, e.Unknown = old.Sparse, old.Unknown
		r.loadXattrs(it, &e, p)
	}
	if e.LinkGroup != 0 && e.LinkGroup == old.LinkGroup {
		return bytes.Equal(index.AppendEntry(nil, &e), index.AppendEntry(nil, old))
	}
	return r.sameRecord(ctx, e, old)
}

// predicted is what would be done to an entry. Whether a file is unchanged shows only when it is read.
func predicted(p *pending) string {
	if p.replaces {
		return "replace"
	}
	return "add"
}

// predictLine tells people what would be done to one entry.
func (r *adder) predictLine(path pathsafe.Path, kind index.Kind, action string) error {
	if r.a.g.json || r.a.g.quiet {
		return nil
	}
	name := pathsafe.Quote(path.String())
	if kind == index.Dir {
		name += "/"
	}
	_, err := fmt.Fprintf(r.a.out, "%-7s %s\n", action, name)
	return err
}
