package seal

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/crypto/ssh"
)

// ParsePins reads the public keys that an archive may be signed by: lines of a public key file or of an
// allowed_signers file of OpenSSH. A line whose options restrict its key in a way that is not understood
// here is an error, and one whose namespaces leave ours out is passed over.
func ParsePins(data []byte) (keys []PublicKey, err error) {
	err = lines(data, func(_ int, line string) error {
		k, use, err := parsePin(line)
		if use && err == nil {
			keys = append(keys, k)
		}
		return err
	})
	if err == nil && len(keys) == 0 {
		err = errors.New("it holds no public key that could sign an archive")
	}
	return keys, err
}

func parsePin(line string) (k PublicKey, use bool, err error) {
	rest, use := line, true
	if !isKeyType(firstWord(line)) {
		// allowed_signers: principals [options] key
		_, rest = cutWord(line)
		if !isKeyType(firstWord(rest)) {
			var options string
			options, rest = cutWord(rest)
			if use, err = pinOptions(options); err != nil {
				return k, false, err
			}
		}
	}
	kind := firstWord(rest)
	if !isKeyType(kind) {
		return k, false, errors.New("not an SSH public key")
	}
	if kind != sshEd25519 {
		return k, false, fmt.Errorf("a key of type %s; only Ed25519 keys can sign an archive", kind)
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil {
		return k, false, errors.New("not an SSH public key")
	}
	c, ok := pub.(ssh.CryptoPublicKey)
	if ok {
		var e ed25519.PublicKey
		if e, ok = c.CryptoPublicKey().(ed25519.PublicKey); ok {
			k = PublicKey(e)
		}
	}
	if !ok || !k.sound() {
		return k, false, errors.New("not an Ed25519 public key")
	}
	return k, use, nil
}

func isKeyType(s string) bool {
	return strings.HasPrefix(s, "ssh-") || strings.HasPrefix(s, "ecdsa-") || strings.HasPrefix(s, "sk-")
}

func firstWord(s string) string {
	w, _ := cutWord(s)
	return w
}

// cutWord splits off the first word; what stands between double quotes belongs to one.
func cutWord(s string) (word, rest string) {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case !quoted && (s[i] == ' ' || s[i] == '\t'):
			return s[:i], strings.TrimLeft(s[i:], " \t")
		}
	}
	return s, ""
}

// literal keeps path.Match from seeing more in a pattern than OpenSSH, which knows * and ? only.
var literal = strings.NewReplacer(`\`, `\\`, "[", `\[`)

// pinOptions reports whether the options of a line let its key sign an archive.
func pinOptions(options string) (use bool, err error) {
	use = true
	seen := false
	for options != "" {
		var o string
		o, options = cutOption(options)
		name, value, _ := strings.Cut(o, "=")
		if !strings.EqualFold(name, "namespaces") {
			return false, fmt.Errorf("the option %q is not supported here", name)
		}
		if seen {
			return false, errors.New("the option namespaces stands there twice")
		}
		seen, use = true, false
		for pattern := range strings.SplitSeq(strings.Trim(value, `"`), ",") {
			pattern, not := strings.CutPrefix(pattern, "!")
			if ok, err := path.Match(literal.Replace(pattern), Namespace); err != nil || !ok {
				continue
			}
			if use = !not; not {
				break // whatever else matches
			}
		}
	}
	return use, nil
}

func cutOption(s string) (option, rest string) {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case !quoted && s[i] == ',':
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
