package hostfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// maxName bounds one name of a list; no system opens a longer path, and an endless line must not
// fill the memory.
const maxName = 64 << 10

// ReadNames yields the names in r, one a line, or, with nul, each ended by a zero byte. Empty names are
// passed over; the last one needs no end. After an error nothing more comes.
func ReadNames(r io.Reader, nul bool) iter.Seq2[string, error] {
	sep := byte('\n')
	if nul {
		sep = 0
	}
	return func(yield func(string, error) bool) {
		br := bufio.NewReaderSize(r, maxName+1)
		for number := 1; ; number++ {
			line, err := br.ReadSlice(sep)
			if errors.Is(err, bufio.ErrBufferFull) {
				yield("", fmt.Errorf("name %d of the list is longer than %d bytes", number, maxName))
				return
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield("", fmt.Errorf("cannot read name %d of the list: %w", number, err))
				return
			}
			name := bytes.TrimSuffix(line, []byte{sep})
			if !nul && bytes.IndexByte(name, 0) >= 0 {
				yield("", fmt.Errorf("name %d of the list has a zero byte; the list may be one of NUL-terminated names", number))
				return
			}
			if len(name) > 0 && !yield(string(name), nil) {
				return
			}
			if err != nil {
				return
			}
		}
	}
}
