package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// globHelp is part of the help of every command that takes stored paths.
const globHelp = `A name that no entry has is a pattern when it holds *, ? or [: * stays within one
directory, ** crosses them. What matches nothing is named, and the rest is done (exit 12).`

// signedHelp is part of the help of every command that opens an archive.
const signedHelp = `Opening a signed archive checks its signature, which covers all of it through digests. What is read is
checked against these before it is used; what is not read is not checked (verify --full reads
everything). --signer says whose signature it must be: any will do without.`

// helpWidth is how long a line of help may be.
const helpWidth = 80

// fill breaks the lines of paragraphs anew, so that text put together from parts reads like one. What is laid
// out, with blanks that matter, stays as it is.
func fill(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") || strings.Contains(p, "  ") {
			continue
		}
		var b strings.Builder
		column := 0
		for _, word := range strings.Fields(p) {
			n := utf8.RuneCountInString(word)
			switch {
			case column == 0:
			case column+1+n > helpWidth:
				b.WriteByte('\n')
				column = 0
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += n
		}
		if strings.HasSuffix(p, "\n") {
			b.WriteByte('\n')
		}
		paragraphs[i] = b.String()
	}
	return strings.Join(paragraphs, "\n\n")
}

// topic is a page of help that belongs to no command.
type topic struct {
	name  string
	short string
	text  string
}

var topics = []topic{
	{"exit-codes", "what the exit code says", `0    done, all of it
1    failed: input, output, a full disk, refused
2    wrong usage
3    done, but some inputs were skipped or changed while they were read, some
     metadata could not be restored, or "diff" could not compare something; each
     was named
4    "diff" found differences
11   no key or the wrong one, to open an encrypted archive or to change a signed
     one; a signature that is missing, does not verify or is not by a key of
     --signer; not the state given by --expect-root
12   no such archive or entry, or a path to add that does not exist
14   not a lockbox archive, or a version that this program does not know
15   damaged or cut short
16   in use by another writer
130  interrupted; when the change was committed already, the command finishes
     instead and ends in 0

When several apply, 130 comes first, then 15, 11, 16, 14, 2, 1, 12, 3 and 4. A closed pipe
on standard output (lockbox list a.lbx | head) is not a failure.
`},
	{"formats", "what can be read and written", `This program reads and writes one format, version 1, which FORMAT.md specifies down
to every byte. A file of any other kind is refused with exit 14; what other programs
wrote is recognised by its content, and the command that migrates it is named.
"lockbox help migrate" says what that can be; "lockbox export" writes tar and ZIP.

migrate --report writes one object a line for each old archive: "source", "format",
"migrated", then "error" or "archive", "entries", "bytes", "generation" and "root";
"notes", "repeated" (names that came again, the last one counts) and "lost", a list of
"name", "lost" (the reason), "entry" (all of it, not only something of it) and "damage".

An archive written by a later version may hold what this one does not know. It says
itself whether it can be read all the same, and whether it can be changed.

--json prints one object per line. A path that is not UTF-8 appears twice: readable
as "path", exact as "path_base64". The last line of commands that work on entries is
an object with the one key "summary"; a command that failed has none. The lines
before it say what was done to each entry, which counts once the summary is there.

"lockbox list --json" gives of each entry what is stored of it: "uid", "gid", "user" and
"group"; "major" and "minor" of a device; "xattrs", a list of "name" and "value", which
is base64. Of several names of one file that are listed, all but the first have the
type "hardlink" and the first as "target". "sparse" says that a file has holes and its
"digest" covers where they are, so that no other program has the same. A time outside
the years 0 to 9999 is in "mtime_sec" and "mtime_nsec", in place of "mtime"; so with "birth".
`},
	{"durability", "what survives a crash", `A change is one transaction. When the command has ended with exit 0, the change
survives a power cut; when it was killed or the power failed before that, the
archive is exactly as before or exactly as after the change, never a mixture. The
next command needs no repair and no unlocking by hand.

Nothing that the last committed state needs is overwritten. What was replaced is
overwritten after the commit, once no reader needs it. That reaches the bytes of the file; a
solid-state disk, a copy-on-write file system or a snapshot may keep
older copies of them elsewhere.

Readers and one writer can work at the same time: a reader sees the generation that it
opened, whole. A second writer waits for the first (--lock-timeout). When tidying up after
a commit fails, the command warns and ends with 0: the next change finishes it.

All this rests on a disk that keeps what it has acknowledged.
`},
	{"names", "names that a system cannot hold, and what is written instead", `A stored name is any bytes but / and NUL. Not every file system can hold all of them:
Windows reserves CON, NUL, COM1 and others, refuses < > : " | ? * \ and control
characters, and drops dots and blanks at the end; macOS wants UTF-8; most end at 255
bytes or characters. Some take README and readme, or the composed and the decomposed form
of an accented letter, for one name.

"lockbox extract" finds out what the directory can hold by making a few files with
temporary names in it, and looks at all names before it writes anything. What cannot
be is named, and nothing is written (exit 1). A directory below it on another
file system may have other rules; what fails there is named when it does.

With --rename-invalid such names are written as others, and each is reported (with --json,
"renamed_from" has the stored path):

  %3A     a byte in hexadecimal, here a colon; so is the percent sign itself
          (%25) where it would be taken for the beginning of one of these
  %~2     before the extension: nothing; it tells two names apart
  %^...   and 32 digits, before the extension: the name was too long and part of
          it is missing; they are the first of its SHA-256

Replacing the first form and dropping the second gives the stored name back; for the third
"lockbox list -0" has it. Different names never become one. The target of a link stays as
it is stored, even where it was renamed.
`},
	{"protection", "encrypting, signing and padding an archive", `Protection is chosen when an archive is made, with create or the first add, and stays.

Encryption. --encrypt locks the archive with a passphrase, --recipient KEY for a public
key: of age (age1...) or of SSH (ssh-ed25519, ssh-rsa), or a file of such keys. Without a
key neither names nor contents nor counts show. To open it, a passphrase comes from
--passphrase-file FILE (its first line), from the file that LOCKBOX_PASSPHRASE_FILE
names, from LOCKBOX_PASSPHRASE, or from you, at the terminal; a private key from
--identity FILE: an age identity or an SSH key, also one with a passphrase. A passphrase
that is given is used for the archive and for key files alike. It is never taken from the
command line or from standard input. Where a flag names a key for an archive that has no
lock, that is refused: somebody may have put it there. "lockbox help key" has what there
is to do with keys.

Signing. --sign-key FILE signs with an Ed25519 key of SSH or in PEM; when FILE is a public
key, an SSH agent (SSH_AUTH_SOCK) does. Every change needs the same key again; reading
needs none. --signer KEY demands that the archive is signed by that key; KEY is a public
key, or a file of them such as allowed_signers. Without --signer a signature only
shows who signed.

Padding. --padding padme rounds lengths up by a few percent, pow2 to powers of two, so
that the sizes of contents and of the whole tell less.

  lockbox key generate -o me.key > me.pub
  lockbox add private.lbx docs --recipient me.pub
  lockbox list private.lbx -i me.key
  lockbox add signed.lbx docs --sign-key ~/.ssh/id_ed25519
  lockbox verify --full signed.lbx --signer ~/.ssh/id_ed25519.pub
`},
	{"security", "what is protected and what is not", `Every byte is checked after it is read and before it is used. An archive that is
neither signed nor encrypted detects damage, not a forger: whoever can write the file
can make another valid one. Write down the root that "lockbox info" prints and give it
to --expect-root to be sure of one exact state.

In an encrypted archive a forger without a key can put nothing of his own; one who can
open it can also change it. He can put another archive in its place, locked for your
public key or not locked at all: only a signature tells. In a signed archive only the signer can: who can open it,
too, reads and does not forge. Opening checks the signature, which covers the root and
with it, through digests, everything; each part is held against it before it is used:
the index when names are looked up, contents before they are returned. What is not read
is not checked; "verify --full" reads everything. Say with --signer whose signature it
has to be.

A whole file that was put back to an older state is a valid archive of that
state, also a signed one. Only the root, kept elsewhere, shows it.

The size of the file, when it changes, the kinds of keys that open it, the archive's id
and generation show in every archive. docs/security.md has all of it.

An archive from someone you do not trust: extract it with --max-size, --max-entries
and --symlinks inside. Stored paths are relative and never hold "..", nothing is ever written
through a link, setuid and setgid bits are not restored (the sticky bit is). Names are escaped
where they are shown to people; -0 and --json give them as they are.
`},
}

func findTopic(name string) *topic {
	for i := range topics {
		if topics[i].name == name {
			return &topics[i]
		}
	}
	return nil
}

// topicList is the list of topics at the end of the general help.
func topicList() string {
	var b strings.Builder
	for _, t := range topics {
		fmt.Fprintf(&b, "  %-12s %s\n", t.name, t.short)
	}
	return strings.TrimRight(b.String(), "\n")
}

func newHelpCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND|TOPIC]",
		Short:   "explain a command or a topic",
		Long:    "Explain a command or a topic. The topics are\n" + topicList(),
		Example: "  lockbox help add\n  lockbox help key rotate\n  lockbox help exit-codes",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return helpNames(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.noJSON(cmd); err != nil {
				return err
			}
			return a.help(cmd.Root(), args)
		},
	}
}

func helpNames(root *cobra.Command) []string {
	names := commandNames(root)
	for _, t := range topics {
		names = append(names, t.name)
	}
	return names
}

// findCommand follows names down from a command, as far as they lead.
func findCommand(cmd *cobra.Command, names []string) (*cobra.Command, []string) {
	for len(names) > 0 {
		i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == names[0] || c.HasAlias(names[0]) })
		if i < 0 {
			break
		}
		cmd, names = cmd.Commands()[i], names[1:]
	}
	return cmd, names
}

func (a *app) help(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return root.Help()
	}
	if cmd, rest := findCommand(root, args); cmd != root {
		if len(rest) > 0 {
			return usagef("help explains one thing at a time; %s was asked for as well", quoted(rest[0]))
		}
		cmd.InitDefaultHelpFlag()
		return cmd.Help()
	}
	if len(args) > 1 {
		return usagef("help explains one thing at a time; %s was asked for as well", quoted(args[1]))
	}
	if t := findTopic(args[0]); t != nil {
		_, err := a.out.WriteString(fill(t.text))
		return err
	}
	f := &failure{code: exitUsage, err: fmt.Errorf("there is no help on %s", quoted(args[0])), hint: "lockbox help lists the commands and topics"}
	if near := nearest(args[0], helpNames(root)); near != "" {
		f.hint = "did you mean lockbox help " + near + "?"
	}
	return f
}
