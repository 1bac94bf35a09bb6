package revault

import (
	"bytes"
	"crypto/ecdh"
	"crypto/mlkem"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/argon2"

	"lockbox/internal/format"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
)

func wrap(wrapping, key []byte) []byte {
	return newCipher(wrapping).Seal(nil, make([]byte, nonceSize), key, nil)
}

func (w *writer) passphraseSlot(passphrase string) []byte {
	salt := bytes.Repeat([]byte{9}, 16)
	return join(u8(slotPassphrase), u64(1), sized(4, salt), sized(4, wrap(argon2.IDKey([]byte(passphrase), salt, 3, 64<<10, 1, 32), w.key)))
}

// recipientSlot returns a slot and the private record that opens it.
func (w *writer) recipientSlot() (slot, private []byte) {
	scalar, seed := bytes.Repeat([]byte{5}, 32), bytes.Repeat([]byte{6}, mlkem.SeedSize)
	own, err := ecdh.X25519().NewPrivateKey(scalar)
	if err != nil {
		w.t.Fatal(err)
	}
	ephemeral, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		w.t.Fatal(err)
	}
	one, err := ephemeral.ECDH(own.PublicKey())
	if err != nil {
		w.t.Fatal(err)
	}
	kem, err := mlkem.NewDecapsulationKey768(seed)
	if err != nil {
		w.t.Fatal(err)
	}
	two, sent := kem.EncapsulationKey().Encapsulate()
	wrapping, err := recipientKey(one, two)
	if err != nil {
		w.t.Fatal(err)
	}
	slot = join(u8(slotRecipient), u64(2), sized(4, ephemeral.PublicKey().Bytes()), sized(4, sent), sized(4, wrap(wrapping, w.key)))
	return slot, join([]byte(magicPrivate), u16(1), u16(1), scalar, sized(4, seed))
}

// locked makes an archive with these key slots.
func locked(t *testing.T, version int, slots func(w *writer) [][]byte) *writer {
	w := newWriter(t, version)
	w.keyDirectory(slots(w)...)
	w.finish(w.page(kindTOCLeaf, leaf(nil, zeroFile("/f", 3))), 0, 0)
	return w
}

func asks(passphrase string, asked *int) func() ([]byte, error) {
	return func() ([]byte, error) { *asked++; return []byte(passphrase), nil }
}

func TestPassphrase(t *testing.T) {
	for _, version := range []int{1, 2} {
		w := locked(t, version, func(w *writer) [][]byte { return [][]byte{w.passphraseSlot("other"), w.passphraseSlot("right")} })
		asked := 0
		right := source.Options{Passphrase: asks("right", &asked)}
		if all, _ := w.mustRead(right); len(all) != 1 || asked != 1 {
			t.Errorf("format %d: %v, asked %d times", version, all, asked)
		}
		w.wantError(source.Options{}, format.ErrAuth, "no passphrase is")
		w.wantError(source.Options{Passphrase: asks("right", &asked), MaxKDFTime: 3}, format.ErrAuth, "1 more were not")
		before := asked
		w.wantError(source.Options{Passphrase: asks("right", &asked), MaxKDFTime: 2}, format.ErrAuth, "limit of 2")
		w.wantError(source.Options{Passphrase: asks("right", &asked), MaxKDFMemory: 1 << 20}, format.ErrAuth, "limit of 1048576")
		if asked != before {
			t.Error("a passphrase was asked for that could not be tried")
		}
		w.buf[w.dirs[0]+pageHeader+40] ^= 1
		w.mustRead(right) // the second copy, which format 1 has to search for
		w.buf[w.dirs[1]+pageHeader+40] ^= 1
		w.wantError(right, format.ErrCorrupt, "checksum")
		w.mustRead(w.options()) // the raw key needs no directory
	}
	w := locked(t, 2, func(w *writer) [][]byte { return [][]byte{w.passphraseSlot("right")} })
	asked := 0
	w.wantError(source.Options{Passphrase: asks("wrong", &asked)}, format.ErrAuth, "wrong")
	w.buf[slotV2+sumFrom-1] ^= 1 // the code of the newest header, and its checksum
	sum := checksum(w.buf[slotV2 : slotV2+sumFrom])
	copy(w.buf[slotV2+sumFrom:], sum[:])
	w.wantError(source.Options{Passphrase: asks("right", &asked)}, format.ErrCorrupt, "altered")
}

func TestRecipient(t *testing.T) {
	var private []byte
	w := locked(t, 2, func(w *writer) [][]byte {
		slot, p := w.recipientSlot()
		private = p
		return [][]byte{slot}
	})
	other := bytes.Clone(private)
	other[20] ^= 1
	for _, identities := range [][]byte{private, join(other, private), []byte(" " + strings.ToUpper(hex.EncodeToString(private)) + "\n"),
		pem.EncodeToMemory(&pem.Block{Type: "LOCKBOX PRIVATE KEY", Bytes: private})} {
		if all, _ := w.mustRead(source.Options{Identities: identities}); len(all) != 1 {
			t.Errorf("%v", all)
		}
	}
	w.wantError(source.Options{Identities: other}, format.ErrAuth, "none is for a passphrase")
	w.wantError(source.Options{}, format.ErrAuth, "no key slot")
	for _, bad := range [][]byte{private[:50], join(private, []byte("x")), []byte("not a key"), bytes.Replace(private, []byte{64, 0, 0, 0}, []byte{63, 0, 0, 0}, 1)} {
		w.wantError(source.Options{Identities: bad}, format.ErrAuth, "identity")
	}
}

func TestRawKey(t *testing.T) {
	for _, version := range []int{1, 2} {
		w := newWriter(t, version)
		w.finish(w.page(kindTOCLeaf, leaf(nil, zeroFile("/f", 3))), 0, 0)
		w.mustRead(w.options())
		w.wantError(source.Options{RawKey: []byte("another")}, format.ErrAuth, "raw key is not")
		asked := 0
		w.wantError(source.Options{Passphrase: asks("x", &asked)}, format.ErrAuth, "made with a raw key")
	}
}

func TestKeyDirectory(t *testing.T) {
	for name, slots := range map[string][][]byte{
		"salt": {join(u8(slotPassphrase), u64(1), sized(4, make([]byte, 15)), sized(4, make([]byte, 48)))},
		"cut":  {join(u8(slotRecipient), u64(1), u32(1<<30))},
		"left": {join(u8(slotPassphrase), u64(1), sized(4, make([]byte, 16)), sized(4, make([]byte, 48)), make([]byte, 17))},
	} {
		w := locked(t, 2, func(*writer) [][]byte { return slots })
		asked := 0
		if _, err := w.open(source.Options{Passphrase: asks("x", &asked)}); !errors.Is(err, format.ErrCorrupt) || asked != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := locked(t, 2, func(*writer) [][]byte { return [][]byte{join(u8(3), make([]byte, 40))} })
	w.wantError(source.Options{Identities: nil}, format.ErrVersion, "unknown type 3")
}

// TestSignatures changes what is signed, and by whom.
func TestSignatures(t *testing.T) {
	make2 := func(change func(payload []byte) []byte) *writer {
		w := newWriter(t, 2)
		root, auth := w.commit(w.page(kindTOCLeaf, leaf(nil, zeroFile("/f", 3))), 0, 0, false)
		ps := &pages{in: sourcetest.Input(w.buf), base: frontV2, id: w.id, sequence: w.seq, cipher: pageCipher(w.key)}
		p, err := ps.read(auth, maxOtherPage)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := p.first(kindAuth)
		if err != nil {
			t.Fatal(err)
		}
		auth = w.page(kindAuth, change(payload))
		w.header(1, root, auth, w.seq)
		w.header(2, root, auth, w.seq)
		return w
	}
	w := make2(func(p []byte) []byte { return p })
	if _, info := w.mustRead(w.options()); !info.Signed || !strings.Contains(info.Signer, "Ed25519 3b6a27bc") || !strings.Contains(info.Signer, "ML-DSA-65") {
		t.Errorf("%+v", info)
	}
	const keys = 132
	for name, c := range map[string]struct {
		change func(p []byte) []byte
		kind   error
	}{
		"Ed25519":         {func(p []byte) []byte { p[keys+2+4+32+2+4+1952+4+2+4+32+4] ^= 1; return p }, format.ErrAuth},
		"ML-DSA-65":       {func(p []byte) []byte { p[len(p)-1000] ^= 1; return p }, format.ErrAuth},
		"what was signed": {func(p []byte) []byte { p[90] ^= 1; return p }, format.ErrAuth},
		"another root":    {func(p []byte) []byte { p[50] ^= 1; return p }, format.ErrCorrupt},
		"no signers":      {func(p []byte) []byte { return join(p[:128], u32(0), u32(0)) }, format.ErrAuth},
		"many signers":    {func(p []byte) []byte { return join(p[:128], u32(1<<30), p[132:]) }, format.ErrCorrupt},
		"one signer": {func(p []byte) []byte {
			k := p[keys : keys+6+32]
			at := keys + 6 + 32 + 6 + 1952 + 4
			return join(p[:128], u32(1), k, u32(1), p[at:at+6+32+4+64])
		}, format.ErrAuth},
		"left over": {func(p []byte) []byte { return append(p, 0) }, format.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			w := make2(c.change)
			w.wantError(w.options(), c.kind, "signature")
			o := w.options()
			o.AllowLoss = true
			if all, info := w.mustRead(o); len(all) != 1 || !info.Signed || info.Signer != "" || len(info.Lost) != 1 {
				t.Errorf("%v, %+v", all, info)
			}
		})
	}
}
