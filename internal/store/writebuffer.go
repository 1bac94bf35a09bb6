package store

// writeBuffer gathers neighbouring writes into large ones.
type writeBuffer struct {
	a   *Archive
	off int64
	b   []byte

	begun bool // something was written
}

// writeAt makes sure before the first write that the archive is still what the handle knows: a source may
// have kept the transaction waiting since Begin.
func (w *writeBuffer) writeAt(b []byte, off int64) error {
	if !w.begun {
		if err := w.a.unchanged(); err != nil && !skip(noChangeCheck) {
			return err
		}
		w.begun = true
	}
	return w.a.writeAt(b, off)
}

func (w *writeBuffer) write(b []byte, off int64) error {
	if len(w.b) > 0 && (w.off+int64(len(w.b)) != off || len(w.b)+len(b) > 1<<20) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(b) >= 1<<18 {
		return w.writeAt(b, off)
	}
	if len(w.b) == 0 {
		w.off = off
	}
	w.b = append(w.b, b...)
	return nil
}

func (w *writeBuffer) flush() error {
	if len(w.b) == 0 {
		return nil
	}
	err := w.writeAt(w.b, w.off)
	w.b = w.b[:0]
	return err
}
