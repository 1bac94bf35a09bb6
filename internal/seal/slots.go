package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"

	"lockbox/internal/format"
)

// Identity unlocks a key slot, Recipient is what one is locked for.
type (
	Identity  = age.Identity
	Recipient = age.Recipient
)

// NewSlot is a key slot to be made. Who can open the archive can read the label.
type NewSlot struct {
	Recipient Recipient
	Label     string
}

// Slot describes a key slot: its number, the kinds of recipients that its age file shows to everyone, and
// its label, "" while the archive is locked.
type Slot struct {
	Number int
	Kinds  []string
	Label  string
}

// Unlock is asked for identities when an archive is encrypted. An error ends the opening as it is.
type Unlock func(ctx context.Context, slots []Slot) ([]Identity, error)

// Limits of a slot.
const (
	MaxLabel = 4096
	MaxSlot  = 64 << 10 // of its age file
)

// lockedOut is an error of kind format.ErrAuth.
func lockedOut(detail string, args ...any) error {
	return &format.Error{Kind: format.ErrAuth, Offset: -1, Detail: fmt.Sprintf(detail, args...)}
}

// Lock returns the age file of a slot: the content key for a recipient.
func (k *ContentKey) Lock(n NewSlot) ([]byte, error) {
	if len(n.Label) > MaxLabel {
		return nil, fmt.Errorf("a key slot's label has %d bytes, at most %d are possible", len(n.Label), MaxLabel)
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, n.Recipient)
	if err == nil {
		_, err = w.Write(k[:])
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("making a key slot: %w", err)
	}
	if b.Len() > MaxSlot {
		return nil, fmt.Errorf("a key slot of %d bytes is too large", b.Len())
	}
	return b.Bytes(), nil
}

// watched is an identity whose own failures are told apart from those of the file.
type watched struct {
	age.Identity
	err *error
}

func (w watched) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	key, err := w.Identity.Unwrap(stanzas)
	if err != nil && !errors.Is(err, age.ErrIncorrectIdentity) {
		*w.err = err
	}
	return key, err
}

// OpenSlots returns the content key by the first slot that one of the identities opens. Its errors are of
// kind format.ErrAuth when none does, and format.ErrCorrupt when one should but the slot is damaged. A slot may take
// seconds, so it ends with ctx between them.
func OpenSlots(ctx context.Context, slots [][]byte, ids []Identity) (*ContentKey, error) {
	if len(ids) == 0 {
		return nil, lockedOut("the archive is encrypted and no key was given")
	}
	var failures, damaged error
	mine := make([]age.Identity, len(ids))
	for i, s := range slots {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var failed error
		for i, id := range ids {
			mine[i] = watched{id, &failed}
		}
		// Not age.Decrypt, which makes buffers of 136 KB for these few bytes.
		r, size, err := age.DecryptReaderAt(bytes.NewReader(s), int64(len(s)), mine...)
		var k ContentKey
		if err == nil && size != KeySize {
			err = errors.New("it holds no content key")
		}
		if err == nil {
			_, err = io.ReadFull(io.NewSectionReader(r, 0, size), k[:])
		}
		if err == nil {
			return &k, nil
		}
		none := (*age.NoIdentityMatchError)(nil)
		if failed != nil {
			failures = errors.Join(failures, failed)
		} else if !errors.As(err, &none) {
			damaged = errors.Join(damaged, format.Corrupt(fmt.Sprintf("key slot %d", i+1), -1, "%v", err))
		}
	}
	switch {
	case failures != nil:
		return nil, lockedOut("unlocking: %v", failures)
	case damaged != nil:
		return nil, damaged
	}
	return nil, lockedOut("no key slot of the archive is opened by what was given")
}

// SlotKinds lists the types of an age file's stanzas.
func SlotKinds(file []byte) (kinds []string) {
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "---") {
			break
		}
		rest, ok := strings.CutPrefix(line, "-> ")
		if !ok {
			continue
		}
		kind, _, _ := strings.Cut(rest, " ")
		if !strings.HasSuffix(kind, "-grease") {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
