package seal

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"lockbox/internal/format"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Literal keys, so that what age-keygen and ssh-keygen once wrote stays readable.
const (
	ageSecret = `# created: 2026-11-30T17:30:00Z
# public key: age123eeurkma85rvl8mrgxavvkzncwap6d42sus23n2k7ml0plyx5yqqux9qh
AGE-SECRET-KEY-1NNCPUJWKXCKDHYGU2ERKD6RGKQV3J9Q4ES24HNXA6QP48YWJ48YSHLLWF9
`
	agePublic = "age123eeurkma85rvl8mrgxavvkzncwap6d42sus23n2k7ml0plyx5yqqux9qh"
)

func slot(t testing.TB, k *ContentKey, r Recipient) []byte {
	t.Helper()
	b, err := k.Lock(NewSlot{Recipient: r})
	must(t, err)
	return b
}

func TestSlots(t *testing.T) {
	k, err := NewContentKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	must(t, err)
	recipient, err := ParseRecipient(agePublic, UI{})
	must(t, err)
	ids, err := ParseIdentities([]byte(ageSecret), UI{})
	must(t, err)
	pqSecret, pqPublic, err := GenerateIdentity(true)
	must(t, err)
	pqRecipient, err := ParseRecipient(pqPublic, UI{})
	must(t, err)
	pq, err := ParseIdentities([]byte(pqSecret), UI{})
	must(t, err)
	pass, err := age.NewScryptRecipient("open sesame")
	must(t, err)
	pass.SetWorkFactor(10)
	right, err := PassphraseIdentity([]byte("open sesame"))
	must(t, err)
	wrong, err := PassphraseIdentity([]byte("open sesamE"))
	must(t, err)
	slots := [][]byte{slot(t, k, recipient), slot(t, k, pqRecipient), slot(t, k, pass)}
	for i, want := range []string{"X25519", "mlkem768x25519", "scrypt"} {
		if kinds := SlotKinds(slots[i]); len(kinds) != 1 || kinds[0] != want {
			t.Errorf("slot %d is of kinds %q", i, kinds)
		}
	}
	for name, id := range map[string][]Identity{"age": ids, "post-quantum": pq, "passphrase": {right}, "several": {wrong, pq[0], right}} {
		if got, err := OpenSlots(t.Context(), slots, id); err != nil || *got != *k {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, id := range map[string][]Identity{"none": nil, "wrong passphrase": {wrong}} {
		if _, err := OpenSlots(t.Context(), slots, id); !errors.Is(err, format.ErrAuth) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenSlots(t.Context(), slots[2:], ids); !errors.Is(err, format.ErrAuth) {
		t.Errorf("another kind of key: %v", err)
	}
	// A damaged slot that the key fits is damage; one that is not asked for is passed over.
	for n := range slots[0] {
		bad := bytes.Clone(slots[0])
		bad[n] ^= 1
		got, err := OpenSlots(t.Context(), [][]byte{bad}, ids)
		if err == nil && *got != *k {
			t.Fatalf("byte %d: another key", n)
		}
		if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrAuth) {
			t.Fatalf("byte %d: %v", n, err)
		}
		if strings.Contains(ageSecret, "SECRET") && err != nil && strings.Contains(err.Error(), "NNCPUJW") {
			t.Fatal("a secret in an error")
		}
		if got, err := OpenSlots(t.Context(), [][]byte{bad, slots[2]}, []Identity{right}); err != nil || *got != *k {
			t.Fatalf("byte %d: the other slot does not open: %v", n, err)
		}
	}
	if _, err := NewContentKey(bytes.NewReader(make([]byte, 32))); err == nil {
		t.Error("a key of zeros")
	}
	if _, err := NewContentKey(bytes.NewReader(make([]byte, 31))); err == nil {
		t.Error("a key of too few bytes")
	}
	if _, err := k.Lock(NewSlot{Recipient: recipient, Label: strings.Repeat("x", MaxLabel+1)}); err == nil {
		t.Error("a label that is too long")
	}
}

func TestParseKeys(t *testing.T) {
	for _, s := range []string{"", "age1", "age1qqq", "github:someone", "ssh-dss AAAA", "ssh-ed25519 AAAA", "-----BEGIN", "age1pq1xx", "AGE-SECRET-KEY-1"} {
		if r, err := ParseRecipient(s, UI{}); err == nil {
			t.Errorf("%q is a recipient: %v", s, r)
		}
	}
	slots, err := ParseRecipients([]byte("# a comment\n\n"+agePublic+"\r\n"+testPublic+" me@here\n"), UI{})
	if err != nil || len(slots) != 2 || slots[0].Label != agePublic || !strings.HasSuffix(slots[1].Label, "me@here") {
		t.Errorf("%+v, %v", slots, err)
	}
	for _, s := range []string{"", "# nothing", "AGE-SECRET-KEY-1XYZ", agePublic, "age-encryption.org/v1\n-> X", "-----BEGIN AGE ENCRYPTED FILE-----\n", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"} {
		if ids, err := ParseIdentities([]byte(s), UI{}); err == nil {
			t.Errorf("%q is an identity: %v", s, ids)
		}
	}
	_, err = ParseIdentities([]byte("AGE-SECRET-KEY-1SECRETSECRET"), UI{})
	if err == nil || strings.Contains(err.Error(), "SECRETSECRET") {
		t.Errorf("a secret in an error: %v", err)
	}
	// An identity file under a passphrase.
	var b bytes.Buffer
	pass, err := age.NewScryptRecipient("pass")
	must(t, err)
	pass.SetWorkFactor(10)
	w, err := age.Encrypt(&b, pass)
	must(t, err)
	_, err = w.Write([]byte(ageSecret))
	must(t, errors.Join(err, w.Close()))
	asked := 0
	ui := func(p string) UI {
		return UI{Passphrase: func(string) ([]byte, error) { asked++; return []byte(p), nil }}
	}
	if ids, err := ParseIdentities(b.Bytes(), ui("pass")); err != nil || len(ids) != 1 || asked != 1 {
		t.Errorf("%v, %v, asked %d times", ids, err, asked)
	}
	if _, err := ParseIdentities(b.Bytes(), ui("other")); !errors.Is(err, format.ErrAuth) {
		t.Error(err)
	}
	if _, err := ParseIdentities(b.Bytes(), UI{}); !errors.Is(err, format.ErrAuth) {
		t.Error(err)
	}
}

var (
	testSecret = ed25519.NewKeyFromSeed(bytes.Repeat([]byte("k"), 32))
	testPublic = NewSigner(testSecret).Public().String()
	someRoot   = format.Digest(bytes.Repeat([]byte{0xAB}, 32))
)

func TestSignatures(t *testing.T) {
	s := NewSigner(testSecret)
	sig, err := SignRoot(t.Context(), s, someRoot)
	must(t, err)
	if k, ok := VerifyRoot(sig, someRoot); !ok || k != s.Public() {
		t.Error("a signature that does not verify")
	}
	for i := range 8 * len(sig) {
		bad := bytes.Clone(sig)
		bad[i/8] ^= 1 << (i % 8)
		if k, ok := VerifyRoot(bad, someRoot); ok {
			t.Errorf("bit %d: verifies for %v", i, k)
		}
	}
	other := someRoot
	other[0] ^= 1
	if _, ok := VerifyRoot(sig, other); ok {
		t.Error("it verifies for another root")
	}
	for _, n := range []int{0, 1, len(sig) - 1} {
		if _, ok := VerifyRoot(sig[:n], someRoot); ok {
			t.Errorf("%d bytes of it verify", n)
		}
	}
	if _, err := SignRoot(t.Context(), lyingSigner{s}, someRoot); err == nil {
		t.Error("a signer that signs something else")
	}
}

// Keys of small order, for which anybody can find signatures: none ever verifies.
func TestSmallOrderKeys(t *testing.T) {
	verified := 0
	for _, key := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"0000000000000000000000000000000000000000000000000000000000000080",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	} {
		k, err := hex.DecodeString(key)
		must(t, err)
		if PublicKey(k).sound() {
			t.Errorf("%s is taken for a key", key)
		}
		if _, err := ParsePins([]byte(PublicKey(k).String())); err == nil {
			t.Errorf("%s is taken for a pin", key)
		}
		for n := range 64 {
			root := format.Digest{byte(n)}
			for _, r := range [][]byte{k, make([]byte, 32), append([]byte{1}, make([]byte, 31)...)} {
				sig := append(append(bytes.Clone(k), r...), make([]byte, 32)...)
				if ed25519.Verify(k, signedBytes(root), sig[32:]) {
					verified++
				}
				if _, ok := VerifyRoot(sig, root); ok {
					t.Fatalf("a signature of nobody verifies for %s", key)
				}
			}
		}
	}
	if verified == 0 {
		t.Error("no forgery was tried that would have passed")
	}
	if !NewSigner(testSecret).Public().sound() {
		t.Error("an ordinary key is refused")
	}
}

type lyingSigner struct{ Signer }

func (l lyingSigner) Sign(ctx context.Context, _ []byte) ([]byte, error) {
	return l.Signer.Sign(ctx, []byte("something else"))
}

func TestPins(t *testing.T) {
	key := NewSigner(testSecret).Public()
	for text, want := range map[string]int{
		testPublic: 1, testPublic + " a comment": 1, "# only a comment": -1, "": -1, "ssh-ed25519": -1, "ssh-ed25519 AAAA": -1,
		"me@example.org " + testPublic: 1, "a,b " + testPublic + "\nc " + testPublic: 2,
		`me namespaces="file,lockbox-*" ` + testPublic: 1, `me namespaces="git" ` + testPublic: -1,
		`me namespaces="git" ` + testPublic + "\nyou " + testPublic:           1,
		`me namespaces="*,!lockbox-root" ` + testPublic:                       -1,
		`me namespaces="!lockbox-*,lockbox-root" ` + testPublic:               -1,
		`me namespaces="!git,*" ` + testPublic:                                1,
		`me namespaces="[l]ockbox-root" ` + testPublic:                        -1,
		`me namespaces="git",namespaces="*" ` + testPublic:                    -1,
		"me cert-authority " + testPublic:                                     -1,
		`me valid-before="20300101" ` + testPublic:                            -1,
		`"me and you" namespaces="lockbox-root" ` + testPublic + " a comment": 1,
		"me ssh-rsa AAAA": -1, "me " + strings.Replace(testPublic, "ssh-ed25519", "ssh-rsa", 1): -1, "garbage": -1,
	} {
		keys, err := ParsePins([]byte(text))
		if (err != nil) != (want < 0) || err == nil && (len(keys) != want || keys[0] != key) {
			t.Errorf("%q: %v, %v", text, keys, err)
		}
	}
	if !strings.HasPrefix(key.Fingerprint(), "SHA256:") || key.IsZero() {
		t.Error(key.Fingerprint())
	}
}

func TestAgent(t *testing.T) {
	ring := agent.NewKeyring()
	must(t, ring.Add(agent.AddedKey{PrivateKey: testSecret}))
	dial := func() net.Conn {
		here, there := net.Pipe()
		t.Cleanup(func() { here.Close() })
		go func() { _ = agent.ServeAgent(ring, there) }()
		return here
	}
	s, err := AgentSigner(t.Context(), dial(), NewSigner(testSecret).Public())
	must(t, err)
	sig, err := SignRoot(t.Context(), s, someRoot)
	must(t, err)
	if k, ok := VerifyRoot(sig, someRoot); !ok || k.String() != testPublic {
		t.Error("the agent's signature does not verify")
	}
	if _, err := AgentSigner(t.Context(), dial(), PublicKey{1}); !errors.Is(err, format.ErrAuth) {
		t.Error(err)
	}
}

// What OpenSSH's tools make can be used here, and what is signed here they verify.
func TestSSHKeygen(t *testing.T) {
	tool, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	dir := t.TempDir()
	run := func(stdin []byte, args ...string) {
		t.Helper()
		cmd := exec.Command(tool, args...)
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen %q: %v\n%s", args, err, out)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		return b
	}
	k, err := NewContentKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	must(t, err)
	for name, pass := range map[string]string{"plain": "", "locked": "secret words"} {
		run(nil, "-q", "-t", "ed25519", "-N", pass, "-C", "test", "-f", name)
		ui := UI{Passphrase: func(string) ([]byte, error) { return []byte(pass), nil }}
		s, err := ParseSigner(read(name), ui)
		must(t, err)
		pins, err := ParsePins(read(name + ".pub"))
		if err != nil || len(pins) != 1 || pins[0] != s.Public() {
			t.Fatalf("%v, %v", pins, err)
		}
		sig, err := SignRoot(t.Context(), s, someRoot)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "sig"), sshSignature(sig), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "allowed"), append([]byte("me "), read(name+".pub")...), 0o600))
		run([]byte(someRoot.String()), "-Y", "verify", "-f", "allowed", "-I", "me", "-n", Namespace, "-s", "sig")

		// The same key as a recipient.
		r, err := ParseRecipient(string(read(name+".pub")), UI{})
		must(t, err)
		ids, err := ParseIdentities(read(name), ui)
		must(t, err)
		if got, err := OpenSlots(t.Context(), [][]byte{slot(t, k, r)}, ids); err != nil || *got != *k {
			t.Errorf("%s: %v", name, err)
		}
		if pass == "" {
			continue
		}
		if _, err := ParseSigner(read(name), UI{Passphrase: func(string) ([]byte, error) { return []byte("wrong"), nil }}); !errors.Is(err, format.ErrAuth) {
			t.Errorf("a wrong passphrase: %v", err)
		}
		if _, err := ParseSigner(read(name), UI{}); !errors.Is(err, format.ErrAuth) {
			t.Errorf("nobody to ask: %v", err)
		}
	}
	run(nil, "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", "rsa")
	if _, err := ParseSigner(read("rsa"), UI{}); err == nil {
		t.Error("an RSA key signs")
	}
	r, err := ParseRecipient(string(read("rsa.pub")), UI{})
	must(t, err)
	ids, err := ParseIdentities(read("rsa"), UI{})
	must(t, err)
	if got, err := OpenSlots(t.Context(), [][]byte{slot(t, k, r)}, ids); err != nil || *got != *k {
		t.Error(err)
	}
}

// A PKCS#8 key, as openssl genpkey -algorithm ed25519 writes it.
func TestPKCS8(t *testing.T) {
	der := append([]byte{0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20}, testSecret.Seed()...)
	pem := "-----BEGIN PRIVATE KEY-----\n" + base64.StdEncoding.EncodeToString(der) + "\n-----END PRIVATE KEY-----\n"
	s, err := ParseSigner([]byte(pem), UI{})
	if err != nil || s.Public().String() != testPublic {
		t.Errorf("%v", err)
	}
}

func FuzzParsePins(f *testing.F) {
	f.Add("me namespaces=\"a,b\" " + testPublic)
	f.Fuzz(func(t *testing.T, s string) {
		keys, err := ParsePins([]byte(s))
		if err == nil && len(keys) == 0 {
			t.Fatal("neither keys nor an error")
		}
	})
}

// sshSignature is a stored signature in the form that ssh-keygen -Y verify reads. The script in the documentation on
// security makes the same.
func sshSignature(stored []byte) []byte {
	key := PublicKey(stored[:ed25519.PublicKeySize])
	b := binary.BigEndian.AppendUint32([]byte("SSHSIG"), 1)
	b = appendString(b, key.wire())
	b = appendString(b, []byte(Namespace))
	b = appendString(b, nil)
	b = appendString(b, []byte("sha512"))
	b = appendString(b, appendString(appendString(nil, []byte(sshEd25519)), stored[ed25519.PublicKeySize:]))
	text := base64.StdEncoding.EncodeToString(b)
	var out bytes.Buffer
	out.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	for len(text) > 0 {
		n := min(len(text), 70)
		out.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	out.WriteString("-----END SSH SIGNATURE-----\n")
	return out.Bytes()
}

// An agent that does not answer is waited for until the caller has enough of it.
func TestAgentThatWaits(t *testing.T) {
	ring := agent.NewKeyring()
	must(t, ring.Add(agent.AddedKey{PrivateKey: testSecret}))
	here, there := net.Pipe()
	asked := make(chan struct{})
	go func() {
		_ = agent.ServeAgent(slowAgent{ring, asked}, there)
		there.Close()
	}()
	s, err := AgentSigner(t.Context(), here, NewSigner(testSecret).Public())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := SignRoot(ctx, s, someRoot); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted while the agent waits: %v", err)
	}
	if _, err := AgentSigner(ctx, here, NewSigner(testSecret).Public()); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted before it was asked: %v", err)
	}
}

// slowAgent says when it was asked to sign, and never answers.
type slowAgent struct {
	agent.Agent
	asked chan struct{}
}

func (s slowAgent) Sign(ssh.PublicKey, []byte) (*ssh.Signature, error) {
	close(s.asked)
	select {}
}
