package main

import (
	"context"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/store"
)

// probe is what was read of a source, for comparing it with what is stored.
type probe struct {
	entry index.Entry
	sum   *blake3.Hasher
}

// newProbe returns what takes note of a source, when that is of use: machines are told which entries are
// unchanged, people only how many, which the engine knows.
func (r *adder) newProbe(e *index.Entry, p *pending) *probe {
	if p.old == nil || !r.a.g.json {
		return nil
	}
	if e.Kind == index.File && e.Size >= 0 && e.Size != p.old.Size {
		return nil
	}
	return &probe{entry: *e}
}

// begin is called when the source is opened, perhaps not for the first time.
func (p *probe) begin(e *index.Entry) {
	if p != nil {
		p.entry, p.sum = *e, blake3.New()
	}
}

func (p *probe) write(b []byte) {
	if p != nil {
		_, _ = p.sum.Write(b) // a hash has no errors
	}
}

func (p *probe) digest() (d format.Digest) {
	if p.sum != nil {
		p.sum.Sum(d[:0])
	}
	return d
}

// unchanged reports whether exactly what was added is stored already. The engine compares too; this is for
// saying of which entries it is so.
func (r *adder) unchanged(ctx context.Context, p *pending, got *store.Added) bool {
	if p.keep {
		return got.Unchanged
	}
	if p.old == nil || p.probe == nil || r.opt.noDedup {
		return false
	}
	now := p.probe.entry
	if now.Kind == index.File {
		// Where the stored content is damaged it is stored anew.
		if got.Bytes > 0 && !got.Deduplicated {
			return false
		}
		if now.Sparse == nil {
			now.Size = got.Bytes
		}
		data := *p.old
		data.Sparse = nil // what was read is the data alone
		d, err := r.ar.Digest(&data)
		if err != nil || d != p.probe.digest() {
			return false
		}
	}
	now.Content = p.old.Content
	return r.sameRecord(ctx, now, p.old)
}
