package lockbox_test

import (
	"crypto"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"lockbox"
)

func TestProtection(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	must(t, err)
	other, err := age.GenerateX25519Identity()
	must(t, err)
	pub, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	wrong, _, err := ed25519.GenerateKey(nil)
	must(t, err)
	o := lockbox.Options{SignKey: key}
	name := create(t, o, lockbox.CreateOptions{Padding: lockbox.PadPadme, Recipients: []lockbox.Recipient{{Key: id.Recipient(), Label: "me"}}}, func(tx *lockbox.Tx) {
		put(t, tx, "secret", "treasure")
	})
	plain := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) { put(t, tx, "a", "1") })

	ids := []age.Identity{id}
	a := open(t, name, lockbox.Options{Identities: ids, Signers: []ed25519.PublicKey{pub}})
	in, err := a.Info()
	must(t, err)
	if !in.Encrypted || !in.Signed || !in.Signer.Equal(pub) || in.Padding != lockbox.PadPadme || len(in.Slots) != 1 || in.Slots[0].Label != "me" {
		t.Errorf("%+v", in)
	}
	b, err := a.ReadFile("secret")
	if err != nil || string(b) != "treasure" {
		t.Fatal(err)
	}
	sound(t, name, lockbox.Options{Identities: ids, Signers: []ed25519.PublicKey{pub}, Root: in.Root})

	for what, o := range map[string]lockbox.Options{
		"no key":       {},
		"wrong key":    {Identities: []age.Identity{other}},
		"wrong signer": {Identities: ids, Signers: []ed25519.PublicKey{wrong}},
		"wrong root":   {Identities: ids, Root: lockbox.Digest{1}},
	} {
		if _, err := lockbox.Open(t.Context(), name, o); !errors.Is(err, lockbox.ErrAuth) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := lockbox.Verify(t.Context(), name, o, lockbox.VerifyOptions{}); !errors.Is(err, lockbox.ErrAuth) {
			t.Errorf("%s: verify: %v", what, err)
		}
	}
	// Somebody may have put another archive in the place of the one that was meant.
	_, err = lockbox.Open(t.Context(), plain, lockbox.Options{Identities: ids})
	is(t, err, lockbox.ErrAuth)
	_, err = lockbox.Verify(t.Context(), plain, lockbox.Options{Identities: ids}, lockbox.VerifyOptions{})
	is(t, err, lockbox.ErrAuth)
	_, err = lockbox.Open(t.Context(), plain, lockbox.Options{Signers: []ed25519.PublicKey{pub}})
	is(t, err, lockbox.ErrAuth)

	w := openWrite(t, name, lockbox.Options{Identities: ids})
	_, err = w.Begin(t.Context())
	is(t, err, lockbox.ErrAuth)
	must(t, w.Close())
	w = openWrite(t, name, lockbox.Options{Identities: ids, SignKey: key})
	change(t, w, func(tx *lockbox.Tx) { put(t, tx, "more", "gold") })
}

func TestOptions(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	must(t, err)
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	pub, _, err := ed25519.GenerateKey(nil)
	must(t, err)
	to := []lockbox.Recipient{{Key: id.Recipient()}}
	name := filepath.Join(t.TempDir(), "a.lbx")
	for i, c := range []struct {
		o lockbox.Options
		c lockbox.CreateOptions
	}{
		{o: lockbox.Options{Jobs: -1}},
		{o: lockbox.Options{CacheBytes: -1}},
		{o: lockbox.Options{Trust: 9}},
		{o: lockbox.Options{Passphrase: []byte("x")}},
		{o: lockbox.Options{Identities: []age.Identity{id}}},
		{o: lockbox.Options{Root: lockbox.Digest{1}}},
		{o: lockbox.Options{Signers: []ed25519.PublicKey{pub}}},
		{o: lockbox.Options{Signers: []ed25519.PublicKey{pub}, SignKey: key}},
		{o: lockbox.Options{Signers: []ed25519.PublicKey{{1}}}},
		{o: lockbox.Options{Seed: []byte{}}, c: lockbox.CreateOptions{Recipients: to}},
		{c: lockbox.CreateOptions{Compression: 9}},
		{c: lockbox.CreateOptions{Padding: 9}},
		{c: lockbox.CreateOptions{Sector: 1000}},
		{c: lockbox.CreateOptions{Passphrase: []byte{}}},
		{c: lockbox.CreateOptions{Recipients: []lockbox.Recipient{{}}}},
	} {
		a, err := lockbox.Create(t.Context(), name, c.o, c.c)
		if !errors.Is(err, fs.ErrInvalid) || a != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	for _, o := range []lockbox.Options{{SignKey: key}, {Seed: []byte{}}, {Jobs: -1}} {
		_, err := lockbox.Open(t.Context(), name, o)
		is(t, err, fs.ErrInvalid)
	}
	_, err = lockbox.Open(t.Context(), name, lockbox.Options{})
	is(t, err, fs.ErrNotExist)
	_, err = lockbox.Verify(t.Context(), name, lockbox.Options{}, lockbox.VerifyOptions{})
	is(t, err, fs.ErrNotExist)
	must(t, os.WriteFile(name, noise(100_000), 0o666))
	_, err = lockbox.Open(t.Context(), name, lockbox.Options{})
	is(t, err, lockbox.ErrNotLockbox)
	_, err = lockbox.Create(t.Context(), name, lockbox.Options{}, lockbox.CreateOptions{})
	is(t, err, fs.ErrExist)
	var where *lockbox.Error
	if !errors.As(err, &where) || where.Archive != name || where.Op != "create" {
		t.Errorf("%+v", where)
	}
}

func TestPassphrase(t *testing.T) {
	if testing.Short() {
		t.Skip("a passphrase takes a second")
	}
	p := []byte("correct horse")
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{Passphrase: p}, func(tx *lockbox.Tx) { put(t, tx, "a", "1") })
	a := open(t, name, lockbox.Options{Passphrase: p})
	if b, err := a.ReadFile("a"); err != nil || string(b) != "1" {
		t.Error(err)
	}
	_, err := lockbox.Open(t.Context(), name, lockbox.Options{Passphrase: []byte("battery staple")})
	is(t, err, lockbox.ErrAuth)
}

// TestKeyFiles reads keys in the forms that other programs write.
func TestKeyFiles(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	must(t, err)
	ids, err := lockbox.ParseIdentities([]byte("# a comment\n"+id.String()+"\n"), nil)
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	to, err := lockbox.ParseRecipients([]byte(id.Recipient().String() + "\n"))
	if err != nil || len(to) != 1 || to[0].Label != id.Recipient().String() {
		t.Fatal(to, err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	phrase := func(string) ([]byte, error) { return []byte("phrase"), nil }
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("phrase"))
	must(t, err)
	key, err := lockbox.ParseSignKey(pem.EncodeToMemory(block), phrase)
	must(t, err)
	sshPublic, err := ssh.NewPublicKey(public)
	must(t, err)
	pins, err := lockbox.ParseSigners(ssh.MarshalAuthorizedKey(sshPublic))
	if err != nil || len(pins) != 1 || !pins[0].Equal(public) || !public.Equal(key.Public()) {
		t.Fatal(pins, err)
	}
	_, err = key.Sign(nil, make([]byte, 64), crypto.SHA512)
	is(t, err, fs.ErrInvalid)

	name := create(t, lockbox.Options{SignKey: key, Signers: pins}, lockbox.CreateOptions{Recipients: to}, func(tx *lockbox.Tx) { put(t, tx, "a", "1") })
	a := open(t, name, lockbox.Options{Identities: ids, Signers: pins})
	root, err := a.Root()
	must(t, err)
	if d, err := lockbox.ParseDigest(root.String()); err != nil || d != root {
		t.Error(d, err)
	}
	_, err = lockbox.ParseDigest("12")
	is(t, err, fs.ErrInvalid)
	for what, err := range map[string]error{
		"identities": second(lockbox.ParseIdentities([]byte("nonsense"), nil)), "recipients": second(lockbox.ParseRecipients([]byte("nonsense"))),
		"signers": second(lockbox.ParseSigners([]byte("nonsense"))), "signing key": second(lockbox.ParseSignKey([]byte("nonsense"), nil)),
		"locked key": second(lockbox.ParseSignKey(pem.EncodeToMemory(block), nil)),
	} {
		if err == nil {
			t.Errorf("%s: nonsense is taken", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }
