package seal

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// A key of a type that is of no use here is refused with words that name the ones that are.
func TestKeysOfOtherTypes(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	private := pem.EncodeToMemory(block)
	pub, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	_, identity := ParseIdentities(private, UI{})
	_, recipient := ParseRecipient(string(ssh.MarshalAuthorizedKey(pub)), UI{})
	_, signer := ParseSigner(private, UI{})
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"identity":  {identity, "ssh-ed25519"},
		"recipient": {recipient, "a key of type ecdsa-sha2-nistp256; of SSH keys, only ssh-ed25519"},
		"signer":    {signer, "Ed25519"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) || strings.Contains(c.err.Error(), "ecdsa.P") {
			t.Errorf("%s: %v, want %q", what, c.err, c.want)
		}
	}
}
