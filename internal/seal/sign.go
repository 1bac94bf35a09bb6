package seal

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"filippo.io/edwards25519"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"lockbox/internal/format"
)

// SignatureAlgorithm is how an archive is signed.
type SignatureAlgorithm uint8

const (
	Unsigned SignatureAlgorithm = 0
	Ed25519  SignatureAlgorithm = 1
)

// SignatureSize is the length of an Ed25519 signature as it is stored: public key and signature.
const SignatureSize = ed25519.PublicKeySize + ed25519.SignatureSize

// Namespace is what ssh-keygen -Y verify must be told that a signature is for.
const Namespace = "lockbox-root"

const sshEd25519 = "ssh-ed25519"

// PublicKey is an Ed25519 public key.
type PublicKey [ed25519.PublicKeySize]byte

// IsZero reports the absence of a key.
func (k PublicKey) IsZero() bool { return k == PublicKey{} }

// sound reports whether k is a point of large order. For the few others everybody can make signatures that
// verify, all zeros among them.
func (k PublicKey) sound() bool {
	p, err := new(edwards25519.Point).SetBytes(k[:])
	return err == nil && p.MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) == 0
}

func (k PublicKey) wire() []byte {
	return appendString(appendString(nil, []byte(sshEd25519)), k[:])
}

// String is the key as OpenSSH writes it.
func (k PublicKey) String() string {
	return sshEd25519 + " " + base64.StdEncoding.EncodeToString(k.wire())
}

// Fingerprint is the short form that OpenSSH shows to people.
func (k PublicKey) Fingerprint() string {
	d := sha256.Sum256(k.wire())
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(d[:])
}

// Signer signs with an Ed25519 key.
type Signer interface {
	Public() PublicKey
	Sign(ctx context.Context, message []byte) ([]byte, error) // may wait for a person, and ends with ctx
}

func appendString(b, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// signedBytes is what is signed of a root: what ssh-keygen -Y sign would sign for a file that holds the root
// in hexadecimal, so that it can be checked without this program. No other use of an SSH key signs this.
func signedBytes(root format.Digest) []byte {
	h := sha512.Sum512([]byte(root.String()))
	b := append([]byte(nil), "SSHSIG"...)
	b = appendString(b, []byte(Namespace))
	b = appendString(b, nil)
	b = appendString(b, []byte("sha512"))
	return appendString(b, h[:])
}

// SignRoot returns a signature as it is stored.
func SignRoot(ctx context.Context, s Signer, root format.Digest) ([]byte, error) {
	key := s.Public()
	sig, err := s.Sign(ctx, signedBytes(root))
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	b := append(key[:], sig...)
	if _, ok := VerifyRoot(b, root); !ok {
		return nil, errors.New("signing: the signature does not verify")
	}
	return b, nil
}

// VerifyRoot returns who signed a root, and whether the stored signature is right.
func VerifyRoot(b []byte, root format.Digest) (PublicKey, bool) {
	if len(b) != SignatureSize {
		return PublicKey{}, false
	}
	key := PublicKey(b[:ed25519.PublicKeySize])
	return key, key.sound() && ed25519.Verify(key[:], signedBytes(root), b[ed25519.PublicKeySize:])
}

// keySigner signs with a private key in memory.
type keySigner struct{ key ed25519.PrivateKey }

func (s keySigner) Public() PublicKey { return PublicKey(s.key.Public().(ed25519.PublicKey)) }

func (s keySigner) Sign(_ context.Context, message []byte) ([]byte, error) {
	return ed25519.Sign(s.key, message), nil
}

// NewSigner signs with a private key.
func NewSigner(key ed25519.PrivateKey) Signer { return keySigner{key} }

// ParseSigner reads an Ed25519 private key in OpenSSH's format or PKCS#8, in PEM.
func ParseSigner(data []byte, ui UI) (Signer, error) {
	key, err := ssh.ParseRawPrivateKey(data)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		p, perr := ui.passphrase("Passphrase of the signing key")
		if perr != nil {
			return nil, perr
		}
		key, err = ssh.ParseRawPrivateKeyWithPassphrase(data, p)
		clear(p)
		if errors.Is(err, x509.IncorrectPasswordError) {
			return nil, lockedOut("the signing key: wrong passphrase")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the signing key cannot be read: %w", err)
	}
	switch k := key.(type) {
	case *ed25519.PrivateKey:
		return keySigner{*k}, nil
	case ed25519.PrivateKey:
		return keySigner{k}, nil
	}
	return nil, errors.New("the signing key is of another type; only Ed25519 keys can sign an archive")
}

// agentSigner has an SSH agent sign.
type agentSigner struct {
	conn  io.Closer
	agent agent.Agent
	key   PublicKey
	ssh   ssh.PublicKey
}

// AgentSigner signs with a key that the SSH agent at the other end of conn holds. It takes conn over: nothing
// else may use it. An agent may take its time; whoever ends ctx meanwhile, here or in Sign, closes conn.
func AgentSigner(ctx context.Context, conn io.ReadWriteCloser, key PublicKey) (Signer, error) {
	pub, err := ssh.NewPublicKey(ed25519.PublicKey(key[:]))
	if err != nil {
		return nil, err
	}
	s := agentSigner{conn, agent.NewClient(conn), key, pub}
	var held []*agent.Key
	err = s.ask(ctx, func() (err error) {
		held, err = s.agent.List()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking the SSH agent for its keys: %w", err)
	}
	for _, k := range held {
		if bytes.Equal(k.Blob, key.wire()) {
			return s, nil
		}
	}
	return nil, lockedOut("the SSH agent does not hold the key %s", key.Fingerprint())
}

// ask calls fn, which waits for the agent's answer.
func (s agentSigner) ask(ctx context.Context, fn func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	err := fn()
	if !stop() && err != nil {
		return ctx.Err()
	}
	return err
}

func (s agentSigner) Public() PublicKey { return s.key }

func (s agentSigner) Sign(ctx context.Context, message []byte) ([]byte, error) {
	var sig *ssh.Signature
	err := s.ask(ctx, func() (err error) {
		sig, err = s.agent.Sign(s.ssh, message)
		return err
	})
	if err != nil {
		return nil, err
	}
	if sig.Format != sshEd25519 {
		return nil, fmt.Errorf("the SSH agent made a signature of kind %q", sig.Format)
	}
	return sig.Blob, nil
}
