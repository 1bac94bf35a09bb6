package source

import "lockbox/internal/format"

// NoPassphrase is the error of an encrypted archive when no passphrase can be had.
func NoPassphrase(record string) error {
	return &format.Error{Kind: format.ErrAuth, Record: record, Offset: -1, Detail: "it is encrypted, and no passphrase was given"}
}

// Undecided is the error of what a passphrase does not open in a format that cannot tell a wrong one from damage.
func Undecided(record string, err error) error {
	return &format.Error{Kind: format.ErrAuth, Record: record, Offset: -1,
		Detail: "it does not open with this passphrase, or it is damaged: " + err.Error()}
}
