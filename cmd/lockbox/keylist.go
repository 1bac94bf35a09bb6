package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
	"lockbox/internal/store"
)

func newKeyListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list ARCHIVE [FLAG...]",
		Short: "print the key slots of an archive",
		Long: `Print the key slots of an archive: their numbers, what kind of key opens them, and for
which public key each was made. Kinds and numbers show without a key; for whom a slot
was made shows only to who can open the archive. Without a key, and without a terminal
to ask at, what shows is printed (exit 0).`,
		Example: "  lockbox key list private.lbx\n  lockbox key list private.lbx -i me.key --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, err := onlyArchive("key list", args)
			if err != nil {
				return err
			}
			return a.keyList(cmd.Context(), archive)
		},
	}
}

func (a *app) keyList(ctx context.Context, archive string) error {
	defer leaveWhenStuck(ctx)()
	in, err := a.look(ctx, archive)
	if err != nil {
		return err
	}
	if a.g.json {
		return a.keyListJSON(archive, &in)
	}
	if !in.Suite.Encrypted() {
		_, err = fmt.Fprintf(a.out, "%s is not encrypted: it has no key slots\n", pathsafe.Quote(archive))
		return err
	}
	for _, text := range slotTexts(in.Slots) {
		if _, err = fmt.Fprintln(a.out, text); err != nil {
			return err
		}
	}
	if in.Locked {
		a.out.flush()
		a.say.Hintf("with a key (--identity, --passphrase-file) it shows for whom the slots were made")
	}
	return nil
}

func (a *app) keyListJSON(archive string, in *store.Info) error {
	var o object
	for _, s := range in.Slots {
		slotJSON(o.begin(), s, in.Locked)
		if _, err := a.out.Write(o.line()); err != nil {
			return err
		}
	}
	o.begin().open("summary").bytes("archive", archive).int("slots", int64(len(in.Slots))).bool("locked", in.Locked)
	_, err := a.out.Write(o.close().line())
	return err
}

// look describes an archive as far as keys allow: those that were given, or a passphrase that a person is asked for.
// Without any, of an encrypted archive only what shows to everybody is known, which must be all that was asked for.
func (a *app) look(ctx context.Context, archive string) (store.Info, error) {
	if !a.mustOpen() {
		in, err := store.Peek(ctx, archive, a.storeOptions())
		if err != nil {
			return in, a.openFailure(archive, err)
		}
		if in.Locked && !canAsk(in.Slots) {
			return in, nil
		}
	}
	ar, err := a.openRead(ctx, archive)
	if err != nil {
		return store.Info{}, err
	}
	in, err := ar.Info()
	if err = a.closeRead(ar, archive, err); err != nil {
		return in, readingFailure(archive, err)
	}
	return in, nil
}

// slotKind is what opens a slot, in words.
func slotKind(kind string) string {
	switch kind {
	case kindPassphrase:
		return "passphrase"
	case "X25519":
		return "age key (X25519)"
	case "mlkem768x25519":
		return "age key (post-quantum)"
	case "ssh-ed25519", "ssh-rsa":
		return "SSH key (" + strings.TrimPrefix(kind, "ssh-") + ")"
	}
	return "age key (" + pathsafe.Quote(kind) + ")"
}

// slotKinds is what opens a slot, and slotText a slot in words.
func slotKinds(s seal.Slot) string {
	kinds := make([]string, len(s.Kinds))
	for i, k := range s.Kinds {
		kinds[i] = slotKind(k)
	}
	return strings.Join(kinds, ", ")
}

func slotText(s seal.Slot) string { return slotTexts([]seal.Slot{s})[0] }

// slotTexts are slots as a table, with what stands at the end of a line one below the other.
func slotTexts(slots []seal.Slot) []string {
	var number, kinds column
	for _, s := range slots {
		number.measure(strconv.AppendInt(nil, int64(s.Number), 10))
		kinds.measure([]byte(slotKinds(s)))
	}
	texts := make([]string, len(slots))
	for i, s := range slots {
		b := number.pad(strconv.AppendInt(nil, int64(s.Number), 10), 0)
		b = append(b, "  "...)
		start := len(b)
		b = append(b, slotKinds(s)...)
		if s.Label != "" {
			b = append(kinds.pad(b, start), "  "+pathsafe.Quote(s.Label)...)
		}
		texts[i] = string(b)
	}
	return texts
}

// slotJSON writes a slot's keys. Whom it is for is not known of a locked archive, and nothing of a passphrase.
func slotJSON(o *object, s seal.Slot, locked bool) *object {
	o.int("number", int64(s.Number)).texts("kinds", s.Kinds)
	if locked || s.Label == "" {
		return o.null("recipient")
	}
	return o.str("recipient", s.Label)
}
