package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
	"lockbox/internal/store"
)

// newKeys are the options that say who is to be able to open an archive.
type newKeys struct {
	recipients     []string
	passphrase     bool
	passphraseFile string
}

func (n *newKeys) register(f *pflag.FlagSet) {
	f.StringArrayVar(&n.recipients, "recipient", nil, "a slot for this age or SSH public key, or for those in this file (repeatable)")
	f.BoolVar(&n.passphrase, "new-passphrase", false, "a slot for a passphrase, which is asked for twice")
	f.StringVar(&n.passphraseFile, "new-passphrase-file", "", "a slot for the passphrase in the first line of this file")
}

func (n *newKeys) any() bool {
	return len(n.recipients) > 0 || n.passphrase || n.passphraseFile != ""
}

// slots returns the slots that were asked for.
func (n *newKeys) slots(ctx context.Context, a *app, archive string) ([]seal.NewSlot, error) {
	slots, err := a.recipientSlots(ctx, n.recipients)
	if err != nil || !n.passphrase && n.passphraseFile == "" {
		return slots, err
	}
	p, err := a.newPassphrase(ctx, quoted(archive), n.passphraseFile)
	if err != nil {
		return nil, err
	}
	defer clear(p)
	s, err := passphraseSlot(p)
	return append(slots, s), err
}

func newKeyAddCommand(a *app) *cobra.Command {
	var opt newKeys
	cmd := &cobra.Command{
		Use:   "add ARCHIVE --recipient KEY|--new-passphrase [FLAG...]",
		Short: "let another key or passphrase open an archive",
		Long: `Give an encrypted archive another key slot: for a public key, of age or SSH, or for a
passphrase. The archive is opened with a key that it has already; what it holds is not
written again. Each slot is a transaction of its own.`,
		Example: `  lockbox key add private.lbx --recipient alice.pub -i me.key
  lockbox key add private.lbx --new-passphrase -i me.key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, rest, err := archiveOperand(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return &failure{
					code: exitUsage, err: fmt.Errorf("key add takes one archive; %s was given as well", quoted(rest[0])),
					hint: "--recipient KEY names a public key; a passphrase is never given on the command line",
				}
			}
			if !opt.any() {
				return usagef("whom to let in is missing: --recipient KEY, --new-passphrase or --new-passphrase-file FILE")
			}
			return a.keyAdd(cmd.Context(), archive, opt)
		},
	}
	opt.register(cmd.Flags())
	a.registerSignKey(cmd.Flags(), signKeyUsage)
	return cmd
}

func (a *app) keyAdd(ctx context.Context, archive string, opt newKeys) error {
	var added []seal.Slot
	sum, err := a.changeKeys(ctx, archive, func(ar *store.Archive) (sum store.Summary, err error) {
		slots, err := opt.slots(ctx, a, archive)
		if err != nil {
			return sum, err
		}
		have := ar.Slots()
		for _, n := range slots {
			if i := slotFor(have, n.Label); i >= 0 {
				return sum, usagef("%s is for %s already", "key slot "+strconv.Itoa(have[i].Number), quoted(n.Label))
			}
		}
		for _, n := range slots {
			if sum, err = ar.AddSlot(ctx, n); err != nil {
				return sum, err
			}
			have = ar.Slots()
			added = append(added, have[len(have)-1])
		}
		return sum, nil
	})
	if werr := a.tellSlots("added", added); err == nil {
		err = werr
	}
	if err != nil {
		return keyChangeFailure(err, archive, len(added))
	}
	return a.reportKeys(archive, sum)
}

// slotFor returns the index of the slot for a public key, or -1.
func slotFor(slots []seal.Slot, label string) int {
	return slices.IndexFunc(slots, func(s seal.Slot) bool { return label != "" && sameKey(s.Label, label) })
}

// changeKeys opens an encrypted archive for fn, which changes its slots.
func (a *app) changeKeys(ctx context.Context, archive string, fn func(*store.Archive) (store.Summary, error)) (sum store.Summary, err error) {
	ar, err := a.openWrite(ctx, archive, a.storeOptions())
	if err != nil {
		return sum, err
	}
	if len(ar.Slots()) == 0 {
		err = withoutSlots(archive)
	} else {
		sum, err = fn(ar)
	}
	return sum, a.closeWrite(ar, archive, &sum, err)
}

func withoutSlots(archive string) error {
	return &failure{
		code: exitFailed, err: fmt.Errorf("%s is not encrypted: it has no key slots", quoted(archive)),
		hint: "an archive is encrypted from the beginning or never: lockbox create NEW --encrypt",
	}
}

func keyChangeFailure(err error, archive string, done int) error {
	if done > 0 && !errors.Is(err, context.Canceled) && !hasWords(err) {
		return fmt.Errorf("changing the keys of %s failed after %s: %w", quoted(archive), plural(uint64(done), "change", "changes"), err)
	}
	return changeFailure(err, "changing the keys of", archive)
}

// tellSlots says what was done to each slot.
func (a *app) tellSlots(action string, slots []seal.Slot) error {
	var o object
	for _, s := range slots {
		var err error
		switch {
		case a.g.json:
			_, err = a.out.Write(slotJSON(o.begin(), s, false).str("action", action).line())
		case !a.g.quiet:
			_, err = fmt.Fprintf(a.out, "%s key slot %s\n", action, slotText(s))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reportKeys ends the machine output of a change of keys.
func (a *app) reportKeys(archive string, sum store.Summary) error {
	if !a.g.json {
		return nil
	}
	var o object
	o.begin().open("summary").bytes("archive", archive).uint("generation", sum.Generation).str("root", sum.Root.String())
	_, err := a.out.Write(o.close().line())
	return err
}

func newKeyRemoveCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove ARCHIVE SLOT... [FLAG...]",
		Short: "take key slots away",
		Long: `Take key slots away, each by its number, as key list prints it, or by the public key that
it is for. The slots that stay are numbered anew. The last one cannot be removed: nobody
could open the archive any more. The removed slot is overwritten in the file.

That does not make anything secret again. Whoever could open the slot may have kept the
content key, or a copy of the file from before, and can read with it what the archive
holds and what is added later: key rotate encrypts everything under a new content key.`,
		Example: `  lockbox key remove private.lbx 2 -i me.key
  lockbox key remove private.lbx "$(cat alice.pub)" -i me.key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, rest, err := archiveOperand(args)
			if err != nil {
				return err
			}
			if len(rest) == 0 {
				return &failure{code: exitUsage, err: errors.New("which key slot to remove is missing"), hint: "lockbox key list " + pathsafe.Quote(archive) + " prints their numbers"}
			}
			return a.keyRemove(cmd.Context(), archive, rest)
		},
	}
	a.registerSignKey(cmd.Flags(), signKeyUsage)
	return cmd
}

func (a *app) keyRemove(ctx context.Context, archive string, which []string) error {
	var removed []seal.Slot
	sum, err := a.changeKeys(ctx, archive, func(ar *store.Archive) (sum store.Summary, err error) {
		slots, err := pickSlots(ar.Slots(), which)
		if err != nil {
			return sum, err
		}
		for _, s := range slots { // the highest number first, so that the others keep theirs
			if sum, err = ar.RemoveSlot(ctx, s.Number); err != nil {
				return sum, err
			}
			removed = append(removed, s)
		}
		return sum, nil
	})
	if werr := a.tellSlots("removed", removed); err == nil {
		err = werr
	}
	if len(removed) > 0 {
		a.out.flush()
		a.say.Warnf("whoever could open a removed slot of %s may have kept the content key, and can go on reading with it", quoted(archive))
		a.say.Hintf("lockbox key rotate %s encrypts everything under a new content key", pathsafe.Quote(archive))
	}
	if err != nil {
		return keyChangeFailure(err, archive, len(removed))
	}
	return a.reportKeys(archive, sum)
}

// pickSlots finds the slots that operands name, and returns them in descending order.
func pickSlots(slots []seal.Slot, which []string) (picked []seal.Slot, err error) {
	for _, w := range which {
		i := slotFor(slots, w)
		if n, err := strconv.Atoi(w); err == nil {
			i = slices.IndexFunc(slots, func(s seal.Slot) bool { return s.Number == n })
		}
		if i < 0 {
			return nil, &failure{code: exitMissing, err: fmt.Errorf("there is no key slot %s", quoted(w)), hint: fmt.Sprintf("the archive has %s", plural(uint64(len(slots)), "slot", "slots"))}
		}
		if !slices.ContainsFunc(picked, func(s seal.Slot) bool { return s.Number == slots[i].Number }) {
			picked = append(picked, slots[i])
		}
	}
	if len(picked) == len(slots) {
		return nil, &failure{
			code: exitFailed, err: errors.New("the last key slot cannot be removed: nobody could open the archive any more; nothing was changed"),
			hint: "add another one before that: lockbox key add",
		}
	}
	slices.SortFunc(picked, func(x, y seal.Slot) int { return y.Number - x.Number })
	return picked, nil
}
