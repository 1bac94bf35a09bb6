package recover

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// pending is what has to be said once everything before it is done: of a source that the sink has, or of
// something that no source was made of.
type pending struct {
	sink   bool
	entry  index.Entry
	blob   *blob
	item   Item
	reason string // why the entry is recovered in part only, "" when it is not
	loss   *Loss
}

var errStop = errors.New("the sink wants no more")

// add has a pass's sources stored, and reports what becomes of each in their order.
func (s *salvage) add(pass func(yield func(store.Source) bool) error) error {
	var passErr error
	err := s.sink.Add(s.ctx, func(yield func(store.Source) bool) { passErr = pass(yield) }, s.done)
	s.flush()
	if err == nil && passErr != errStop {
		err = passErr
	}
	return err
}

// give hands a source on, with what is to be said of it.
func (s *salvage) give(yield func(store.Source) bool, src store.Source, p pending) error {
	p.sink = true
	s.mu.Lock()
	s.queue = append(s.queue, p)
	s.mu.Unlock()
	if !yield(src) {
		return errStop
	}
	return nil
}

// lose reports a loss in its turn.
func (s *salvage) lose(l Loss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		s.queue = append(s.queue, pending{loss: &l})
		return
	}
	s.report(l)
}

// report counts a loss and passes it on; mu is held.
func (s *salvage) report(l Loss) {
	if l.Path != "" || l.Content != 0 {
		s.rep.Lost++
	}
	if s.o.Lost != nil {
		s.o.Lost(l)
	}
}

// flushLocked reports what waits at the head of the queue and needs no answer of the sink; mu is held.
func (s *salvage) flushLocked() {
	for len(s.queue) > 0 && !s.queue[0].sink {
		s.report(*s.queue[0].loss)
		s.queue = s.queue[1:]
	}
}

func (s *salvage) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushLocked()
}

// done hears from the sink what became of the oldest source that waits.
func (s *salvage) done(a store.Added) {
	s.mu.Lock()
	s.flushLocked()
	if len(s.queue) == 0 {
		s.mu.Unlock()
		return
	}
	p := s.queue[0] // it stays at the head, so that what is lost meanwhile is reported after it
	s.mu.Unlock()

	var loss *Loss
	switch {
	case a.Err != nil:
		l := s.lossOf(&p.entry, p.blob, reasonOf(a.Err))
		if p.item.Status == StatusFound {
			l.Path = "" // lost+found is no name it ever had
		}
		loss = &l
	case p.reason != "":
		loss = &Loss{Path: p.entry.Path.String(), Status: StatusPartial, Reason: p.reason, Size: p.entry.Size}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = s.queue[1:]
	switch {
	case loss != nil:
		s.report(*loss)
	default:
		p.item.Bytes = a.Bytes
		s.rep.Bytes += a.Bytes
		if p.item.Status == StatusFound {
			s.rep.Found++
		} else {
			s.rep.Recovered++
		}
		if s.o.Found != nil {
			s.o.Found(p.item)
		}
	}
	s.flushLocked()
}

// lossOf says what is left of an entry that is not recovered.
func (s *salvage) lossOf(e *index.Entry, b *blob, reason string) Loss {
	l := Loss{Path: e.Path.String(), Status: StatusLost, Reason: reason, Size: e.Size, Content: e.Content}
	if b != nil {
		l.Content = b.number
		if l.Intact = inFile(e.Sparse, b.intact()); len(l.Intact) > 0 {
			l.Status = StatusPartial
		}
	}
	return l
}

// reasonOf is an error's text for a report, where everything is damage.
func reasonOf(err error) string {
	e := (*format.Error)(nil)
	if !errors.As(err, &e) {
		return err.Error()
	}
	if e.Offset >= 0 {
		return fmt.Sprintf("%s (at offset %d)", e.Detail, e.Offset)
	}
	return e.Detail
}

// entries goes through the entries tree and hands on what is whole.
func (s *salvage) entries(yield func(store.Source) bool) error {
	var under []byte // key of the last entry that is not a directory, with a separator
	return s.walk(index.Entries, func(key, value []byte) error {
		s.seen++
		e, err := index.DecodeEntry(key, value)
		if err != nil {
			s.lostNames = true
			s.lose(Loss{Path: pathsafe.Quote(string(bytes.ReplaceAll(key, []byte{0}, []byte{'/'}))), Status: StatusLost, Reason: reasonOf(err)})
			return nil
		}
		for _, n := range e.Contents() {
			if n != 0 {
				s.claimed = append(s.claimed, n)
			}
		}
		s.noteTop(&e)
		if len(under) > 0 && bytes.HasPrefix(key, under) {
			s.lose(s.lossOf(&e, nil, "it lies below what is not a directory"))
			return nil
		}
		p := pending{entry: e, item: Item{Path: e.Path, Status: StatusOK, Kind: e.Kind}}
		if e.Content != 0 {
			if p.blob, err = s.named(e.Content, e.DataSize()); err != nil {
				if d := (*disownedError)(nil); errors.As(err, &d) {
					s.nameless = append(s.nameless, d.number)
				}
				s.lose(s.lossOf(&e, p.blob, reasonOf(err)))
				return nil
			}
			switch {
			case len(p.blob.rec.Runs) == 0 && p.blob.digest.known == 0:
				p.item.Reason = "its digest is lost; its bytes are verified by the tags of its frames only"
			case len(p.blob.rec.Runs) == 0:
				p.item.Reason = "its record is lost; its bytes match what is left of its digest"
			}
		}
		if e.Kind != index.Dir {
			under = append(append(under[:0], key...), 0)
		}
		if e.XattrsContent != 0 {
			if e.Xattrs, err = s.xattrs(e.XattrsContent); err != nil {
				p.reason = "all of it is recovered but its extended attributes: " + reasonOf(err)
				// Beside an access control list the group's bits are not the group's, and others may be people whom it shut out.
				if open := e.Mode & 0o077; open != 0 && e.Kind != index.Symlink {
					e.Mode &^= open
					p.reason += "; there may have been an access control list among them, so that its mode is its owner's alone"
				}
			}
		}
		to, note := s.link(&e, &p.entry)
		if note != "" {
			p.item.Reason = note
		}
		src := source(e, p.blob)
		src.LinkTo = to
		return s.give(yield, src, p)
	}, func(lower, upper []byte, reason string) {
		s.lostNames = true
		s.mu.Lock()
		s.ranges++
		s.mu.Unlock()
		s.lose(Loss{Status: StatusLost, Reason: reason + ": the names " + nameRange(lower, upper) + " are lost"})
	})
}

// nameRange names a range of paths.
func nameRange(lower, upper []byte) string {
	show := func(key []byte) string { return index.Entries.KeyText(key, "") }
	switch {
	case len(lower) == 0 && len(upper) == 0:
		return "of all entries"
	case len(lower) == 0:
		return "before " + show(upper)
	case len(upper) == 0:
		return "from " + show(lower) + " on"
	}
	return "from " + show(lower) + " to before " + show(upper)
}

const lostFound = "lost+found"

// lostFoundName is compiled when it is first needed: every start of the program would pay for it.
var lostFoundName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^lost\+found(-[1-9][0-9]*)?$`) })

// noteTop remembers the names at the top that lost+found would run into.
func (s *salvage) noteTop(e *index.Entry) {
	if e.Path.String()[0] != 'l' {
		return
	}
	top := e.Path.Components()[0]
	if lostFoundName().MatchString(top) {
		if s.topNames == nil {
			s.topNames = make(map[string]bool)
		}
		s.topNames[top] = true
	}
}

// lostAndFound hands on the contents whose entries are lost.
func (s *salvage) lostAndFound(yield func(store.Source) bool) error {
	dir := lostFound
	for k := 1; s.topNames[dir]; k++ {
		dir = fmt.Sprintf("%s-%d", lostFound, k)
	}
	slices.Sort(s.claimed)
	slices.Sort(s.nameless)
	isClaimed := func(n uint64) bool {
		_, ok := slices.BinarySearch(s.claimed, n)
		return ok
	}
	if s.lostNames {
		err := s.walk(index.Contents, func(key, value []byte) error {
			n, err := index.DecodeNumKey(key)
			if err != nil || isClaimed(n) {
				return nil
			}
			rec, err := index.DecodeContent(value)
			if err != nil {
				return nil // its number is among the lost ones
			}
			b := &blob{s: s, number: n, size: rec.Size, rec: rec, digest: digestOf{known: len(rec.Digest), sum: rec.Digest}}
			b.settle()
			return s.find(yield, dir, "", b, "its name is lost")
		}, func([]byte, []byte, string) {})
		if err != nil {
			return err
		}
	}
	sh := s.parts.shares
	for len(sh) > 0 {
		n := sh[0].content
		mine := s.parts.of(n)
		sh = sh[len(mine):]
		if _, disowned := slices.BinarySearch(s.nameless, n); !disowned && (!s.lostNames || isClaimed(n)) {
			continue
		}
		if err := s.findParts(yield, dir, n, mine); err != nil {
			return err
		}
	}
	return nil
}

// find hands on a content without a name.
func (s *salvage) find(yield func(store.Source) bool, dir, suffix string, b *blob, reason string) error {
	path, err := pathsafe.Parse(fmt.Sprintf("%s/content-%d%s", dir, b.number, suffix))
	if err != nil {
		return err
	}
	e := index.Entry{Path: path, Kind: index.File, Mode: 0o600, Size: b.size}
	p := pending{entry: e, blob: b, item: Item{Path: path, Status: StatusFound, Kind: index.File, Content: b.number, Reason: reason}}
	return s.give(yield, source(e, b), p)
}

// findParts hands on a content that has neither name nor record, as frames have it.
func (s *salvage) findParts(yield func(store.Source) bool, dir string, n uint64, shares []share) error {
	chains, live := s.parts.chains(shares)
	reason := "its name and its record are lost"
	if !live {
		reason = "found by scanning, may have been deleted or never committed"
		if s.suite.ID().Signed() {
			reason += "; no signature covers it any more, so that anybody may have put it there"
		}
	}
	prefix, sure := s.parts.prefix(n)
	given := 0
	var sums []format.Digest
	for _, c := range chains {
		b := &blob{s: s, number: n, size: c[len(c)-1].end(), shares: c}
		if sure {
			b.digest = s.partOf(prefix)
		} else if !s.ended(c) {
			continue
		}
		suffix := ""
		if len(chains) > 1 {
			// Only whole and different readings count.
			d, err := b.sum(s.ctx)
			if err != nil || !b.digest.matches(&d) || slices.Contains(sums, d) {
				continue
			}
			sums = append(sums, d)
			if given > 0 {
				suffix = fmt.Sprintf("-%d", given+1)
			}
		}
		if err := s.find(yield, dir, suffix, b, reason); err != nil {
			return err
		}
		given++
	}
	if given == 0 {
		s.lose(Loss{Status: StatusLost, Content: n, Reason: fmt.Sprintf("content %d, whose name and record are lost: its frames are not all there", n)})
	}
	return s.ctx.Err()
}
