package lockbox

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"

	"filippo.io/age"
	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/seal"
)

// Digest is a BLAKE3-256 value.
type Digest [32]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads what String writes.
func ParseDigest(s string) (d Digest, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(d) {
		return d, invalid("%q is not a digest of 64 hexadecimal digits", s)
	}
	return Digest(b), nil
}

// ParseIdentities reads a file of private keys: age identities one a line, that file encrypted with a passphrase, or
// an SSH private key. passphrase is asked when the file is locked; nil: such a file is an error. What it returns is
// overwritten after use.
func ParseIdentities(file []byte, passphrase func(prompt string) ([]byte, error)) ([]age.Identity, error) {
	return seal.ParseIdentities(file, seal.UI{Passphrase: passphrase})
}

// ParseRecipients reads a file of public keys, age recipients or SSH keys, one a line. Each becomes a recipient with
// its line as the label.
func ParseRecipients(file []byte) (rs []Recipient, err error) {
	slots, err := seal.ParseRecipients(file, seal.UI{})
	for _, s := range slots {
		rs = append(rs, Recipient{Key: s.Recipient, Label: s.Label})
	}
	return rs, err
}

// ParseSigners reads the public keys that an archive may be signed by: lines of an SSH public key file or of an
// allowed_signers file.
func ParseSigners(file []byte) (keys []ed25519.PublicKey, err error) {
	pins, err := seal.ParsePins(file)
	for _, p := range pins {
		keys = append(keys, p[:])
	}
	return keys, err
}

// ParseSignKey reads an Ed25519 private key in OpenSSH's format or PKCS#8, in PEM. passphrase is as in
// ParseIdentities.
func ParseSignKey(file []byte, passphrase func(prompt string) ([]byte, error)) (crypto.Signer, error) {
	s, err := seal.ParseSigner(file, seal.UI{Passphrase: passphrase})
	if err != nil {
		return nil, err
	}
	return stdSigner{s}, nil
}

// signer lets the engine use a key of the standard library.
type signer struct{ key crypto.Signer }

func (s signer) Public() seal.PublicKey {
	return seal.PublicKey(s.key.Public().(ed25519.PublicKey)) // validate has looked
}

func (s signer) Sign(ctx context.Context, message []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.key.Sign(nil, message, crypto.Hash(0)) // Ed25519 draws nothing at random
}

// stdSigner is the reverse.
type stdSigner struct{ s seal.Signer }

func (s stdSigner) Public() crypto.PublicKey {
	k := s.s.Public()
	return ed25519.PublicKey(k[:])
}

// Sign implements crypto.Signer. The message is not hashed before.
func (s stdSigner) Sign(_ io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts != nil && opts.HashFunc() != 0 {
		return nil, invalid("this key signs messages, not digests made with %v", opts.HashFunc())
	}
	return s.s.Sign(context.Background(), message)
}

// keyring is what unlocks an archive. It remembers what each key opened, for a passphrase takes a second each time.
type keyring struct {
	ids        []seal.Identity
	remembered []*seal.Remembering
}

func (o *Options) keyring() (*keyring, error) {
	k := new(keyring)
	add := func(id seal.Identity) {
		r := seal.Remember(id)
		k.ids, k.remembered = append(k.ids, r), append(k.remembered, r)
	}
	for _, id := range o.Identities {
		if id == nil {
			return nil, invalid("an identity is nil")
		}
		add(id)
	}
	if o.Passphrase != nil {
		id, err := seal.PassphraseIdentity(o.Passphrase)
		if err != nil {
			return nil, invalid("passphrase: %v", err)
		}
		add(id)
	}
	return k, nil
}

func (k *keyring) unlock(context.Context, []seal.Slot) ([]seal.Identity, error) { return k.ids, nil }

func (k *keyring) wipe() {
	for _, r := range k.remembered {
		r.Wipe()
	}
}

// fits refuses an archive that is not encrypted when there are keys for it.
func (k *keyring) fits(s format.Suite) error {
	if len(k.ids) == 0 || s.Encrypted() {
		return nil
	}
	return &format.Error{Kind: ErrAuth, Offset: -1, Detail: "it is not encrypted, but there are keys to unlock it: it may not be the archive that was meant"}
}

// slots are the key slots of a new archive.
func (c *CreateOptions) slots() (slots []seal.NewSlot, err error) {
	for _, r := range c.Recipients {
		slots = append(slots, seal.NewSlot{Recipient: r.Key, Label: r.Label})
	}
	if c.Passphrase != nil {
		r, err := seal.PassphraseRecipient(c.Passphrase)
		if err != nil {
			return nil, invalid("passphrase: %v", err)
		}
		slots = append(slots, seal.NewSlot{Recipient: r})
	}
	return slots, nil
}

// seedContext keeps the ids that are made here apart from those of the command.
const seedContext = "lockbox 2026-11-30 reproducible Go API v1"

// ids is the stream that the ids of a handle come from: it follows from the seed and the state it starts from.
func (o *Options) ids(root format.Digest, c CreateOptions) io.Reader {
	h := blake3.NewDeriveKey(seedContext)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(o.Seed)))
	b = append(append(b, o.Seed...), root[:]...)
	b = fmt.Appendf(b, "%d %d %d", c.Compression, c.Padding, c.Sector)
	_, _ = h.Write(b) // a hash has no errors
	return h.Digest()
}
