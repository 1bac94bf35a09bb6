package verify

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
)

// States are the states of several archives, by a name of the caller's for each.
type States map[string]*State

const (
	statesMagic = "lockbox verify state 2\r\n"
	sumSize     = 32
	// MaxStates is how long the encoded form may be: enough for passes over 50 TB.
	MaxStates = 1 << 28
)

// Encode returns the form in which states are stored: the magic, for each state in the order of names the length of
// name and state (uvarints) and both, then the BLAKE3-256 of all that. It is nil when that would exceed MaxStates.
func (s States) Encode() []byte {
	b := []byte(statesMagic)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		one := s[name].Append(nil)
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = binary.AppendUvarint(append(b, name...), uint64(len(one)))
		b = append(b, one...)
		if len(b) > MaxStates-sumSize {
			return nil
		}
	}
	sum := blake3.Sum256(b)
	return append(b, sum[:]...)
}

// DecodeStates reads what Encode returned. Its error is of kind ErrCorrupt.
func DecodeStates(b []byte) (States, error) {
	if len(b) > MaxStates || len(b) < len(statesMagic)+sumSize || !bytes.HasPrefix(b, []byte(statesMagic)) {
		return nil, format.Corrupt("state file", -1, "it does not begin or end as one does")
	}
	body := b[:len(b)-sumSize]
	if sum := blake3.Sum256(body); !bytes.Equal(sum[:], b[len(body):]) {
		return nil, format.Corrupt("state file", -1, "its checksum does not fit")
	}
	c := format.NewCursor(body[len(statesMagic):], "state file", -1)
	s := make(States)
	for c.Len() > 0 {
		name := string(c.Bytes(int(c.Uvarint(uint64(c.Len())))))
		one := c.Bytes(int(c.Uvarint(uint64(c.Len()))))
		if c.Err() != nil {
			break
		}
		if s[name] != nil {
			c.Fail("one name twice")
			break
		}
		var err error
		if s[name], err = DecodeState(one); err != nil {
			return nil, err
		}
	}
	if err := c.Done(); err != nil {
		return nil, err
	}
	return s, nil
}
