package lockbox_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/binary"
	"regexp"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/zeebo/blake3"
	"golang.org/x/crypto/chacha20"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
)

// What FORMAT.md says of signed and encrypted archives, computed from its tables with the primitives alone and
// held against what the code writes. Tags have 16 bytes here: the archives are encrypted and not signed.

var (
	specKey     = seal.ContentKey(seq[format.Digest](0x11))
	specArchive = seq[format.ID](0x10)
)

func specSuite(s format.Suite) seal.Suite {
	return seal.NewEncrypted(seal.Config{Signed: s.Signed(), Cipher: seal.AESGCM, Archive: specArchive, Key: &specKey})
}

// specDerive makes a key by the row of the table of keys whose use begins with use.
func specDerive(t *testing.T, use string, attempt format.ID) []byte {
	t.Helper()
	for _, r := range section(t, "## Keys").rows("") {
		if !strings.HasPrefix(r[2], use) {
			continue
		}
		material := bytes.Clone(specKey[:])
		for part := range strings.SplitSeq(r[1], ", ") {
			switch part {
			case "archive id":
				material = append(material, specArchive[:]...)
			case "tag algorithm (1)":
				material = append(material, 3)
			case "attempt id":
				material = append(material, attempt[:]...)
			case "nothing":
			default:
				t.Fatalf("FORMAT.md: %q", part)
			}
		}
		key := make([]byte, 32)
		blake3.DeriveKey(strings.Trim(r[0], "`"), material, key)
		return key
	}
	t.Fatalf("FORMAT.md has no key %q", use)
	return nil
}

func specKeyed(t *testing.T, use string, b []byte) []byte {
	t.Helper()
	h, err := blake3.NewKeyed(specDerive(t, use, format.ID{}))
	if err != nil {
		t.Fatal(err)
	}
	h.Write(b)
	return h.Sum(nil)
}

// specSeal seals b and returns tag and sealed bytes.
func specSeal(t *testing.T, c seal.Context, kind seal.Kind, block uint32, b []byte) (tag, out []byte) {
	t.Helper()
	ws := section(t, "## Keys").widths("**Nonce** of the AEAD:")
	if len(ws) != 3 || sum(ws) != 12 {
		t.Fatalf("nonce: widths %v", ws)
	}
	nonce := append(append(le(ws[0], c.Number), le(ws[1], uint64(kind))...), le(8, uint64(block))[:ws[2]]...)
	k, err := aes.NewCipher(specDerive(t, "of the AEAD", c.Attempt))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(k)
	if err != nil {
		t.Fatal(err)
	}
	var ctx []byte
	for _, r := range section(t, "## Tags").rows("**Context**") {
		v, n := uint64(0), evaluate(t, r[1])
		switch {
		case r[2] == "archive id":
			ctx = append(ctx, c.Archive[:]...)
			continue
		case r[2] == "attempt id":
			ctx = append(ctx, c.Attempt[:]...)
			continue
		case strings.HasPrefix(r[2], "number"):
			v = c.Number
		case strings.HasPrefix(r[2], "plain length"):
			v = uint64(c.Plain)
		case strings.HasPrefix(r[2], "stored length"):
			v = uint64(c.Stored)
		case strings.HasPrefix(r[2], "codec"):
			v = uint64(c.Codec)
		case strings.HasPrefix(r[2], "kind"):
			v = uint64(kind)
		case strings.HasPrefix(r[2], "block number"):
			v = uint64(block)
		default:
			t.Fatalf("FORMAT.md: %q", r[2])
		}
		ctx = append(ctx, le(8, v)[:n]...)
	}
	x := aead.Seal(nil, nonce, b, ctx)
	return x[len(b):], x[:len(b)]
}

// specHide returns the hidden form of fields: IV and enciphered fields.
func specHide(t *testing.T, kind byte, fields []byte) []byte {
	t.Helper()
	iv := specKeyed(t, "of IVs", append([]byte{kind}, fields...))[:24]
	return append(bytes.Clone(iv), specStream(t, iv, 0, fields)...)
}

func specStream(t *testing.T, iv []byte, block uint32, b []byte) []byte {
	t.Helper()
	c, err := chacha20.NewUnauthenticatedCipher(specDerive(t, "of the stream", format.ID{}), iv)
	if err != nil {
		t.Fatal(err)
	}
	c.SetCounter(block)
	out := make([]byte, len(b))
	c.XORKeyStream(out, b)
	return out
}

func TestFormatSealedCommit(t *testing.T) {
	s := someSuper()
	s.Suite, s.Cipher, s.Archive, s.Sector = format.SuiteEncrypted, seal.AESGCM, specArchive, 512
	plain := (&journal.Commit{}).Encode(s.Generation)
	got := journal.SealCommit(plain, s, specSuite(format.SuiteEncrypted))
	rows := section(t, "### Sealed commit block").rows("")
	fields := append(append(append(s.Attempt[:], le(8, s.Generation)...), le(4, uint64(len(plain)))...), make([]byte, 4)...)
	root := s.RootHash(plain)
	fields = append(fields, root[:]...)
	head := specHide(t, byte(seal.KindCommit), fields)
	body := make([]byte, len(got)-len(head)-tagWidth)
	copy(body, plain)
	n := uint32(len(body))
	tag, sealed := specSeal(t, seal.Context{Archive: s.Archive, Attempt: s.Attempt, Number: s.Generation, Plain: n, Stored: n}, seal.KindCommit, seal.NoBlock, body)
	end := checkTable(t, rows, got, []want{
		{prefix: "IV", bytes: head[:24]}, {prefix: "attempt id", bytes: head[24:40]}, {prefix: "generation", bytes: head[40:48]},
		{prefix: "length of the plain form", bytes: head[48:52]}, {prefix: "root hash", bytes: head[56:88]}, {prefix: "tag", bytes: tag},
	}, head[52:56])
	if !bytes.Equal(got[end:], sealed) || len(got)%512 != 0 {
		t.Error("the sealed part is not what FORMAT.md says")
	}
}

// clearKey is a key slot that costs nothing to open.
type clearKey struct{}

func (clearKey) Wrap(k []byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{Type: "test", Body: k}}, nil
}

func (clearKey) Unwrap(s []*age.Stanza) ([]byte, error) { return s[0].Body, nil }

func TestFormatKeyDirectory(t *testing.T) {
	s := someSuper()
	s.Suite, s.Cipher, s.Archive, s.Sector = format.SuiteEncrypted, seal.AESGCM, specArchive, 512
	d := &journal.KeyDir{Attempt: seq[format.ID](0x70), Generation: 0x0102030405060708}
	for _, label := range []string{"first", "the second"} {
		file, err := specKey.Lock(seal.NewSlot{Recipient: clearKey{}, Label: label})
		if err != nil {
			t.Fatal(err)
		}
		d.Slots = append(d.Slots, journal.KeySlot{File: file, Label: label})
	}
	got, err := d.Encode(s, specSuite(format.SuiteEncrypted), &specKey)
	if err != nil {
		t.Fatal(err)
	}
	sec := section(t, "## Key directory")
	front := make(disk, format.DataStart)
	if err := journal.WriteCopy(front, s, 0, 0); err != nil {
		t.Fatal(err)
	}
	labels := make([]byte, 256)
	copy(labels, "\x05first\x0athe second")
	tag, sealed := specSeal(t, seal.Context{Archive: s.Archive, Attempt: d.Attempt, Number: d.Generation, Plain: 256, Stored: 256}, seal.KindKeys, seal.NoBlock, labels)
	r := sec.find(`of the directory without it: bytes 0 to (\d+), then from (\d+) on`)
	check := specKeyed(t, "of the key check value", append(bytes.Clone(got[:r[0]+1]), got[r[1]:]...))
	end := checkTable(t, sec.rows(""), got, []want{
		{prefix: "magic", bytes: []byte("LBXK")}, {prefix: "version", bytes: le(2, 1)}, {prefix: "number of slots", bytes: le(2, 2)},
		{prefix: "superblock bytes 8 to 31", bytes: front[8:32]}, {prefix: "attempt id", bytes: d.Attempt[:]}, {prefix: "generation", bytes: le(8, d.Generation)},
		{prefix: "key check value", bytes: check}, {prefix: "length of the labels", bytes: le(4, 256)}, {prefix: "tag of the labels", bytes: tag},
	})
	rest := bytes.Clone(sealed)
	for _, x := range d.Slots {
		rest = append(append(rest, le(4, uint64(len(x.File)))...), x.File...)
	}
	if !bytes.Equal(got[end:], rest) {
		t.Error("labels and slots are not what FORMAT.md says")
	}
	ext := journal.PutKeyDir(s, got, 20480)
	half := len(ext) / 2
	if half%512 != 0 || !bytes.Equal(ext[:half], ext[half:]) || !bytes.Equal(ext[:len(got)], got) || len(bytes.Trim(ext[len(got):half], "\x00")) != 0 {
		t.Error("the extent does not hold the directory twice")
	}
	if _, keys, err := (journal.Opening{Unlock: func(context.Context, []seal.Slot) ([]seal.Identity, error) { return []seal.Identity{clearKey{}}, nil }}).With(context.Background(), s, d0(t, got, s)); err != nil || *keys.Key != specKey {
		t.Error(err)
	}
}

func d0(t *testing.T, b []byte, s *journal.Super) *journal.KeyDir {
	d, err := journal.DecodeKeyDir(b, s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestFormatHiddenFrame(t *testing.T) {
	suite := specSuite(format.SuiteEncrypted)
	e, err := frames.NewEncoder(suite, specArchive, frames.LevelNone, 9, 512, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	e.Pad(format.PadPow2)
	i := frames.Info{Number: 0x0102030405060708, Attempt: seq[format.ID](0x50), Class: 3}
	plain := bytes.Repeat([]byte("plain "), 300)
	ext := e.Encode(nil, &i, plain, []frames.Member{{Content: 5, Len: int64(len(plain))}})
	ctx := seal.Context{Archive: specArchive, Attempt: i.Attempt, Number: i.Number, Plain: i.Plain, Stored: i.Stored}
	var stored, table []byte
	for k := 0; k*512 < len(plain); k++ {
		tag, b := specSeal(t, ctx, seal.KindBlock, uint32(k), plain[k*512:min(len(plain), (k+1)*512)])
		stored, table = append(stored, b...), append(table, tag...)
	}
	commitment, table := specSeal(t, ctx, seal.KindTable, seal.NoBlock, table)
	members := append([]byte{1, 10, 0}, binary.AppendUvarint(nil, uint64(len(plain)))...)
	memberTag, sealedMembers := specSeal(t, ctx, seal.KindHeader, seal.NoBlock, members)
	fields := append(append(i.Attempt[:], le(8, i.Number)...), le(4, uint64(i.Plain))...)
	fields = append(append(fields, le(4, uint64(i.Stored))...), 0, 9, 3, 0)
	fields = append(append(fields, le(4, uint64(len(members)))...), commitment...)
	want := append(specHide(t, byte(seal.KindHeader), fields), memberTag...)
	iv := bytes.Clone(want[:24])
	want = append(append(append(want, stored...), table...), sealedMembers...)
	fill := make([]byte, len(ext)-len(want))
	block := section(t, "## Frame extent").find(`enciphered with the header's IV, from block (\d+) of the stream on`)[0]
	want = append(want, specStream(t, iv, uint32(block), fill)...)
	if !bytes.Equal(ext, want) || len(ext) != 2048 {
		t.Errorf("a frame of %d bytes is not what FORMAT.md says", len(ext))
	}
}

func TestFormatSealedNode(t *testing.T) {
	suite := specSuite(format.SuiteEncrypted)
	node := make([]byte, 512)
	copy(node, "a node")
	ref := index.Ref{Len: 6, Seq: 77, Attempt: seq[format.ID](0x50)}
	b := bytes.Clone(node)
	index.SealNode(suite, specArchive, index.Frames, &ref, b, 512)
	tag, sealed := specSeal(t, seal.Context{Archive: specArchive, Attempt: ref.Attempt, Number: 77, Plain: 6, Stored: 512, Codec: byte(index.Frames)}, seal.KindNode, seal.NoBlock, node)
	if !bytes.Equal(b, sealed) || !bytes.Equal(ref.Tag[:16], tag) {
		t.Error("a sealed node is not what FORMAT.md says")
	}
	d := seq[format.Digest](9)
	if p := suite.Prefix(&d); !bytes.Equal(p[:], specKeyed(t, "of prefixes", d[:])[:8]) {
		t.Error("a digest's prefix is not what FORMAT.md says")
	}
}

func TestFormatSignature(t *testing.T) {
	key := ed25519.NewKeyFromSeed(specKey[:])
	root := seq[format.Digest](0xA0)
	sig, err := seal.SignRoot(t.Context(), seal.NewSigner(key), root)
	if err != nil {
		t.Fatal(err)
	}
	sec := section(t, "## Commit block")
	ns := regexp.MustCompile("the namespace `([^`]+)`").FindStringSubmatch(strings.ReplaceAll(sec.text, "\n", " "))
	if ns == nil {
		t.Fatal("FORMAT.md names no namespace")
	}
	h := sha512.Sum512([]byte(root.String()))
	msg := []byte("SSHSIG")
	for _, s := range [][]byte{[]byte(ns[1]), nil, []byte("sha512"), h[:]} {
		msg = append(binary.BigEndian.AppendUint32(msg, uint32(len(s))), s...)
	}
	pub := key.Public().(ed25519.PublicKey)
	if !bytes.Equal(sig, append(bytes.Clone(pub), ed25519.Sign(key, msg)...)) {
		t.Error("a signature is not what FORMAT.md says")
	}
	block := (&journal.Commit{}).Encode(1)
	field := append(append(le(2, 65535), le(2, 1)...), le(4, uint64(4+len(sig)))...)
	if got := journal.AppendSignature(bytes.Clone(block), sig); !bytes.Equal(got, append(append(append(bytes.Clone(block), field...), 1, 0, 0, 0), sig...)) {
		t.Error("its field is not what FORMAT.md says")
	}
}

// The padded lengths of the examples of the paper, and the bounds that FORMAT.md promises.
func TestFormatPadding(t *testing.T) {
	for n, want := range map[int64]int64{1: 1, 2: 2, 8: 8, 9: 10, 1000: 1024, 1025: 1088, 100_000: 100_352, 1_000_000: 1_015_808} {
		if got := format.PadPadme.Size(n, 1); got != want {
			t.Errorf("padmé: %d becomes %d, want %d", n, got, want)
		}
	}
	for n := int64(1); n < 1<<40; n += n/7 + 1 {
		p, q := format.PadPadme.Size(n, 1), format.PadPow2.Size(n, 1)
		if p < n || p > n+n*12/100+1 || q < n || q >= 2*n || q&(q-1) != 0 || format.PadPadme.Size(p, 1) != p || format.PadPow2.Size(q, 1) != q || format.PadNone.Size(n, 1) != n {
			t.Errorf("%d becomes %d and %d", n, p, q)
		}
	}
}
