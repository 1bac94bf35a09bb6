package lockbox_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
)

// The vectors of signed and encrypted archives: the same archive, content and commit block as in the others, under
// a content key and a signing key that are written into the files.

var vecSeed = bytes.Repeat([]byte{0x5A}, 32)

type vecSuite struct {
	name   string
	suite  format.Suite
	cipher seal.Algorithm
}

var vecSuites = []vecSuite{{"signed", 1, 0}, {"encrypted", 2, seal.AESGCM}, {"encrypted-xchacha20", 2, seal.XChaCha20}, {"both", 3, seal.AESGCM}}

func (k vecSuite) make() seal.Suite {
	if !k.suite.Encrypted() {
		return seal.NewSigned()
	}
	return seal.NewEncrypted(seal.Config{Signed: k.suite.Signed(), Cipher: k.cipher, Archive: vecArchive, Key: &specKey})
}

func (k vecSuite) about(what string) []string {
	about := []string{what, "suite: " + k.suite.String() + ", tag algorithm: " + k.make().Algorithm().String()}
	if k.suite.Encrypted() {
		about = append(about, "content key: the bytes 11 to 30")
	}
	if k.suite.Signed() {
		about = append(about, "signing key: of the seed of 32 bytes 5a, public key "+seal.NewSigner(ed25519.NewKeyFromSeed(vecSeed)).Public().String())
	}
	return about
}

func TestVectorSuiteFrames(t *testing.T) {
	for _, k := range vecSuites {
		s := k.make()
		tag := s.TagSize()
		e, err := frames.NewEncoder(s, vecArchive, frames.LevelNone, 9, 512, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		e.Pad(format.PadPadme)
		i := frames.Info{Number: 3, Attempt: vecAttempt, Class: frames.NoPack}
		ms := []frames.Member{{Content: 1, Off: 1 << 20, Len: 700}}
		v := newVector(t, e.Encode(nil, &i, vecBytes(), ms), k.about("The extent of the raw frame of frame-raw.txt.")...)
		v.heading("header")
		if k.suite.Encrypted() {
			v.part(24, "IV of the hidden head")
			v.part(40+tag, "hidden: attempt id, frame number, lengths, codec, block shift, class, commitment")
			v.part(tag, "header tag: of the sealed member table")
		} else {
			v.part(64, "as in frame-raw.txt")
			v.part(tag, "commitment")
			v.part(tag, "header tag: of what stands before it and the member table")
		}
		v.heading("stored bytes")
		v.part(512, "block 0")
		v.part(188, "block 1")
		v.heading("tag table; the commitment is its tag")
		v.part(tag, "tag of block 0")
		v.part(tag, "tag of block 1")
		v.heading("member table and fill")
		v.part(int(i.MemberTable), "one member")
		v.part(len(v.bytes)-v.at, "fill")
		ext := v.done(k.name + "-frame.txt")
		if got, err := frames.CheckHeader(ext, s, vecArchive, &i, 0); err != nil || len(got) != 1 || got[0] != ms[0] {
			t.Errorf("%s: header: %v, %v", k.name, got, err)
		}
		h := frames.HeaderSize(tag)
		table, err := frames.CheckTable(s, vecArchive, &i, bytes.Clone(ext[h+700:][:2*tag]))
		if err != nil || table.Open(0, ext[h:h+700]) != nil || !bytes.Equal(ext[h:h+700], vecBytes()) {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

func TestVectorSuiteNodes(t *testing.T) {
	for _, k := range vecSuites {
		s := k.make()
		node := make([]byte, 512)
		n := copy(node, readVectorFile(t, "node-leaf.txt"))
		ref := index.Ref{Off: 20480, Len: uint32(n), Seq: 5, Attempt: vecAttempt}
		index.SealNode(s, vecArchive, index.Entries, &ref, node, 512)
		v := newVector(t, append(ref.Append(nil, s.TagSize()), node...), k.about("A node reference, and the extent of the node that it names: that of node-leaf.txt as one of the tree entries.")...)
		v.part(8, "offset 20480")
		v.part(4, "%d bytes", n)
		v.part(4, "number 5 in its attempt")
		v.part(16, "attempt id")
		v.part(s.TagSize(), "tag")
		v.part(512, "the extent")
		b := v.done(k.name + "-node.txt")[index.RefSize(s.TagSize()):]
		if got, ok := index.OpenNode(s, vecArchive, index.Entries, &ref, b[:index.StoredLen(s, ref.Len, 512)]); !ok || !bytes.Equal(got, readVectorFile(t, "node-leaf.txt")) {
			t.Errorf("%s: the node does not open", k.name)
		}
	}
}

func TestVectorSuiteCommitBlocks(t *testing.T) {
	for _, k := range vecSuites {
		s, suite := *vecSuper(), k.make()
		s.Suite, s.Cipher = k.suite, k.cipher
		m := vecCommit()
		m.Trees = nil
		for range 5 {
			m.Trees = index.Root{}.Append(m.Trees, suite.TagSize())
		}
		if k.suite.Encrypted() {
			journal.PutKeyDir(&s, vecKeyDir(t, k), 25600)
			m.Salt = bytes.Repeat([]byte{0x5A}, journal.SaltSize)
		}
		block := m.Encode(s.Generation)
		s.CommitLen = uint32(m.EncodedLen(suite, 512))
		root := s.RootHash(block)
		what := "The commit block of commit-block.txt with five empty trees, as it is stored, at 31232."
		if k.suite.Encrypted() {
			what += " Its salt is 32 times 5a."
		}
		about := append(k.about(what), "root hash: "+root.String())
		signed := 0
		if k.suite.Signed() {
			sig, err := seal.SignRoot(t.Context(), seal.NewSigner(ed25519.NewKeyFromSeed(vecSeed)), root)
			if err != nil {
				t.Fatal(err)
			}
			signed = 12 + len(sig)
			block = journal.AppendSignature(block, sig)
		}
		stored := journal.SealCommit(bytes.Clone(block), &s, suite)
		s.CommitHash = journal.Sum(stored)
		v := newVector(t, stored, about...)
		if k.suite.Encrypted() {
			v.part(24, "IV of the hidden head")
			v.part(64, "hidden: attempt id, generation, length of the plain form, root hash")
			v.part(suite.TagSize(), "tag")
			v.part(len(stored)-v.at, "sealed: the plain form, zeros")
		} else {
			v.part(len(stored)-signed, "fields as in commit-block.txt")
			v.part(8, "signature: tag, flags, length")
			v.part(4, "algorithm: Ed25519, reserved")
			v.part(32, "public key")
			v.part(64, "signature")
		}
		file := v.done(k.name + "-commit.txt")
		got, raw, err := journal.ReadCommit(bytes.NewReader(append(make([]byte, s.CommitOff), file...)), &s, suite)
		if err != nil || !bytes.Equal(raw, block) || got.Counters != m.Counters {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

// vecKeyDir is a key directory whose slot is no age file: these are never twice the same.
func vecKeyDir(t *testing.T, k vecSuite) []byte {
	t.Helper()
	s := *vecSuper()
	s.Suite, s.Cipher = k.suite, k.cipher
	d := &journal.KeyDir{Attempt: vecAttempt, Generation: 7, Slots: []journal.KeySlot{{File: []byte("an age file stands here"), Label: "label"}}}
	b, err := d.Encode(&s, k.make(), &specKey)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestVectorKeyDirectory(t *testing.T) {
	for _, k := range vecSuites[1:] {
		v := newVector(t, vecKeyDir(t, k), k.about("One copy of a key directory.")...)
		v.part(4, "magic")
		v.part(2, "version 1")
		v.part(2, "1 slot")
		v.part(24, "superblock bytes 8 to 31")
		v.part(16, "attempt id")
		v.part(8, "generation 7")
		v.part(32, "key check value")
		v.part(4, "256 bytes of labels")
		v.part(k.make().TagSize(), "tag of the labels")
		v.part(256, "sealed labels: one of 5 bytes")
		v.part(4, "slot of 23 bytes")
		v.part(23, "slot: here an age file stands")
		b := v.done(k.name + "-key-directory.txt")
		s := *vecSuper()
		s.Suite, s.Cipher = k.suite, k.cipher
		if d, err := journal.DecodeKeyDir(b, &s); err != nil || len(d.Slots) != 1 {
			t.Error(err)
		}
	}
}

// readVectorFile returns the bytes of a vector.
func readVectorFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := vectorFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return readVector(t, b)
}

func vectorFile(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	return strings.ReplaceAll(string(b), "\r\n", "\n"), err
}
