package seal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"filippo.io/age/armor"
	"filippo.io/age/plugin"
	"filippo.io/age/tag"
	"golang.org/x/crypto/ssh"
)

// UI is how whoever holds a key is asked for something. Without a function, what needs it fails.
type UI struct {
	Passphrase func(prompt string) ([]byte, error) // of a file of keys; wiped after use
	Secret     func(prompt string) ([]byte, error) // what a plugin asks for, a PIN perhaps; wiped after use
	Value      func(prompt string) (string, error)
	Confirm    func(prompt, yes, no string) (bool, error)
	Message    func(text string)
}

func (u UI) passphrase(prompt string) ([]byte, error) {
	if u.Passphrase == nil {
		return nil, lockedOut("%s: there is nobody to ask", prompt)
	}
	return u.Passphrase(prompt)
}

// plugin is the form in which age's plugins ask.
func (u UI) plugin() *plugin.ClientUI {
	return &plugin.ClientUI{
		DisplayMessage: func(name, message string) error {
			if u.Message != nil {
				u.Message(name + ": " + message)
			}
			return nil
		},
		RequestValue: func(name, prompt string, secret bool) (string, error) {
			if secret {
				// Never the archive's passphrase: it is none of the plugin's business, and a device counts wrong PINs.
				if u.Secret == nil {
					return "", lockedOut("%s: %s: there is nobody to ask", name, prompt)
				}
				p, err := u.Secret(name + ": " + prompt)
				defer clear(p)
				return string(p), err
			}
			if u.Value == nil {
				return "", lockedOut("%s: %s: there is nobody to ask", name, prompt)
			}
			return u.Value(name + ": " + prompt)
		},
		Confirm: func(name, prompt, yes, no string) (bool, error) {
			if u.Confirm == nil {
				return false, lockedOut("%s: %s: there is nobody to ask", name, prompt)
			}
			return u.Confirm(name+": "+prompt, yes, no)
		},
		WaitTimer: func(name string) {
			if u.Message != nil {
				u.Message("waiting for age-plugin-" + name)
			}
		},
	}
}

// PassphraseRecipient locks a slot with a passphrase.
func PassphraseRecipient(p []byte) (Recipient, error) { return age.NewScryptRecipient(string(p)) }

// maxWork bounds what a slot may ask of whoever tries a passphrase on it, as a power of two: 1 GiB of memory and
// some seconds. Slots are made with a quarter of that; what age accepts unasked is four times as much.
const maxWork = 20

// PassphraseIdentity opens such a slot.
func PassphraseIdentity(p []byte) (Identity, error) {
	id, err := age.NewScryptIdentity(string(p))
	if err != nil {
		return nil, err
	}
	id.SetMaxWorkFactor(maxWork)
	return id, nil
}

// ParseRecipient reads an age recipient or an SSH public key.
func ParseRecipient(s string, ui UI) (Recipient, error) {
	s = strings.TrimSpace(s)
	switch {
	case strings.HasPrefix(s, "age1tag1"), strings.HasPrefix(s, "age1tagpq1"):
		return tag.ParseRecipient(s)
	case strings.HasPrefix(s, "age1pq1"):
		return age.ParseHybridRecipient(s)
	case strings.HasPrefix(s, "age1") && strings.Count(s, "1") > 1:
		return plugin.NewRecipient(s, ui.plugin())
	case strings.HasPrefix(s, "age1"):
		return age.ParseX25519Recipient(s)
	case strings.HasPrefix(s, "ssh-"):
		return agessh.ParseRecipient(s)
	case isKeyType(s):
		return nil, fmt.Errorf("a key of type %s; of SSH keys, only ssh-ed25519 and ssh-rsa ones can lock an archive", firstWord(s))
	}
	return nil, errors.New("neither an age recipient (age1…) nor an SSH public key (ssh-ed25519 …, ssh-rsa …)")
}

// lines calls fn for every line that is neither empty nor a comment.
func lines(data []byte, fn func(n int, line string) error) error {
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		if line := strings.TrimSpace(sc.Text()); line != "" && line[0] != '#' {
			if err := fn(n, line); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
	}
	return sc.Err()
}

// ParseRecipients reads a file of recipients, one a line. Each becomes a slot with the recipient as its label.
func ParseRecipients(data []byte, ui UI) (slots []NewSlot, err error) {
	err = lines(data, func(_ int, line string) error {
		r, err := ParseRecipient(line, ui)
		slots = append(slots, NewSlot{r, line})
		return err
	})
	if err == nil && len(slots) == 0 {
		err = errors.New("it holds no recipient")
	}
	return slots, err
}

// maxIdentities bounds an identity file.
const maxIdentities = 1 << 20

// ParseIdentities reads an identity file: age identities one a line, that file encrypted with a passphrase,
// or an SSH private key.
func ParseIdentities(data []byte, ui UI) ([]Identity, error) {
	if len(data) > maxIdentities {
		return nil, errors.New("too long for an identity file")
	}
	trimmed := bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(trimmed, []byte(armor.Header)):
		return decryptIdentities(armor.NewReader(bytes.NewReader(trimmed)), ui)
	case bytes.HasPrefix(data, []byte("age-encryption.org/")):
		return decryptIdentities(bytes.NewReader(data), ui)
	case bytes.HasPrefix(trimmed, []byte("-----BEGIN")):
		id, err := sshIdentity(trimmed, ui)
		return []Identity{id}, err
	}
	return plainIdentities(data, ui)
}

func plainIdentities(data []byte, ui UI) (ids []Identity, err error) {
	err = lines(data, func(_ int, line string) error {
		id, err := parseIdentity(line, ui)
		ids = append(ids, id)
		return err
	})
	if err == nil && len(ids) == 0 {
		err = errors.New("it holds no identity")
	}
	return ids, err
}

// parseIdentity never repeats the line in an error: it is a secret.
func parseIdentity(line string, ui UI) (Identity, error) {
	var id Identity
	var err error
	switch {
	case strings.HasPrefix(line, "AGE-PLUGIN-"):
		return plugin.NewIdentity(line, ui.plugin())
	case strings.HasPrefix(line, "AGE-SECRET-KEY-1"):
		id, err = age.ParseX25519Identity(line)
	case strings.HasPrefix(line, "AGE-SECRET-KEY-PQ-1"):
		id, err = age.ParseHybridIdentity(line)
	default:
		return nil, errors.New("not an age identity (AGE-SECRET-KEY-1…)")
	}
	if err != nil {
		return nil, errors.New("a malformed age identity")
	}
	return id, nil
}

// decryptIdentities reads an identity file that is encrypted with a passphrase.
func decryptIdentities(r io.Reader, ui UI) ([]Identity, error) {
	p, err := ui.passphrase("Passphrase of the identity file")
	if err != nil {
		return nil, err
	}
	id, err := age.NewScryptIdentity(string(p)) // the file is the user's own, so what age accepts will do
	clear(p)
	if err != nil {
		return nil, lockedOut("the identity file: %v", err)
	}
	plain, err := age.Decrypt(r, id)
	if err != nil {
		return nil, lockedOut("the identity file: %v", err)
	}
	data, err := io.ReadAll(io.LimitReader(plain, maxIdentities))
	defer clear(data)
	if err != nil {
		return nil, fmt.Errorf("decrypting the identity file: %w", err)
	}
	return plainIdentities(data, ui)
}

func sshIdentity(pem []byte, ui UI) (Identity, error) {
	id, err := agessh.ParseIdentity(pem)
	missing := (*ssh.PassphraseMissingError)(nil)
	if !errors.As(err, &missing) {
		if _, perr := ssh.ParseRawPrivateKey(pem); err != nil && perr == nil {
			err = errors.New("an SSH key of another type than ssh-ed25519 and ssh-rsa: no archive is locked for such a key")
		}
		return id, err
	}
	if missing.PublicKey == nil {
		return nil, errors.New("an encrypted SSH key in an old format; ssh-keygen -p rewrites it")
	}
	return agessh.NewEncryptedSSHIdentity(missing.PublicKey, pem, func() ([]byte, error) {
		return ui.passphrase("Passphrase of the SSH key " + ssh.FingerprintSHA256(missing.PublicKey))
	})
}

// GenerateIdentity makes a new identity and its recipient, in the form in which age-keygen writes them.
func GenerateIdentity(postQuantum bool) (secret, public string, err error) {
	if postQuantum {
		id, err := age.GenerateHybridIdentity()
		if err != nil {
			return "", "", err
		}
		return id.String(), id.Recipient().String(), nil
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", err
	}
	return id.String(), id.Recipient().String(), nil
}
