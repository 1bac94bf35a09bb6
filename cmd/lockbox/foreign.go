package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"lockbox/internal/migrate"
	"lockbox/internal/pathsafe"
	"lockbox/internal/vfs"
)

// signature says by which bytes at which offset a format is known.
type signature struct {
	off   int
	magic string
	what  string
}

// signatures are those of files that people try to open, the longer ones before their beginnings.
var signatures = []signature{
	{0, "PK\x03\x04", "a ZIP archive"},
	{0, "PK\x05\x06", "an empty ZIP archive"},
	{0, "PK\x07\x08", "a part of a ZIP archive"},
	{0, "7z\xbc\xaf\x27\x1c", "a 7z archive"},
	{0, "Rar!\x1a\x07", "a RAR archive"},
	{0, "LBX2HDR\x00", "a reVault lockbox (format 2)"},
	{160, "LBX2HDR\x00", "a reVault lockbox (format 2)"},
	{0, "LBX1HDR\x00", "a reVault lockbox (format 1)"},
	{320, "LBX1PAG\x00", "a reVault lockbox with a damaged header"},
	{96, "LBX1PAG\x00", "a reVault lockbox with a damaged header"},
	{257, "ustar", "a tar archive"},
	{0, "\x1f\x8b", "gzip data, perhaps a compressed tar archive"},
	{0, "\xfd7zXZ\x00", "xz data, perhaps a compressed tar archive"},
	{0, "\x28\xb5\x2f\xfd", "zstd data, perhaps a compressed tar archive"},
	{0, "BZh", "bzip2 data, perhaps a compressed tar archive"},
	{0, "\x04\x22\x4d\x18", "lz4 data, perhaps a compressed tar archive"},
	{0, "LZIP", "lzip data, perhaps a compressed tar archive"},
	{0, "hsqs", "a SquashFS image"},
	{0, "MSWIM\x00\x00\x00", "a WIM image"},
	{0, "!<arch>\n", "an ar archive"},
	{0, "070701", "a cpio archive"},
	{0, "070707", "a cpio archive"},
	{0, "MSCF", "a cabinet file"},
	{0, "age-encryption.org/", "a file encrypted with age"},
	{0, "SQLite format 3\x00", "an SQLite database"},
}

// recognise says what the first bytes of a file that is not a lockbox look like, or "".
func recognise(head []byte) string {
	for _, s := range signatures {
		if len(head) >= s.off && bytes.HasPrefix(head[s.off:], []byte(s.magic)) {
			return s.what
		}
	}
	return ""
}

// foreignFailure is the error for a file that is no lockbox archive. Its hint is unknown when it is nothing else either.
func foreignFailure(name, unknown string) error {
	f := &failure{code: exitForeign}
	head, err := beginning(name)
	if err == nil && len(head) == 0 {
		f.err = fmt.Errorf("%s is empty: it is not a lockbox archive", quoted(name))
		f.hint = "an archive is made by lockbox add or lockbox create under a name that is not taken"
		return f
	}
	what := recognise(head)
	hint := migrateHint(name)
	if what == "" && hint != "" {
		what = "an archive of another format"
	}
	if what == "" {
		f.err, f.hint = fmt.Errorf("%s is not a lockbox archive", quoted(name)), unknown
		return f
	}
	f.err = fmt.Errorf("%s is not a lockbox archive: it is %s", quoted(name), what)
	if f.hint = hint; hint == "" {
		f.hint = "it cannot be migrated: unpack the file with the program it was made with and add the result to a new archive"
	}
	return f
}

// overwrittenHint is for what is called an archive, and does not begin like one.
func overwrittenHint(name string) string {
	if !strings.EqualFold(filepath.Ext(name), ".lbx") {
		return ""
	}
	return fmt.Sprintf("if it was one, its beginning is damaged: lockbox recover %s --dry-run looks for what is left", shellWord(name))
}

// migrateHint is the command that makes an archive of a file of another format, "" where there is none.
func migrateHint(name string) string {
	in, err := migrate.OpenInput(vfs.OS(), name)
	if err != nil {
		return ""
	}
	defer in.Close()
	if v := migrate.Probe(in.Input); !v.Supported {
		return ""
	}
	output := newArchiveName(name)
	if output == name || !missingFile(output) {
		output = strings.TrimSuffix(output, ".lbx") + "-new.lbx"
	}
	return fmt.Sprintf("lockbox migrate %s -o %s makes a lockbox of it", shellWord(name), shellWord(output))
}

// shellWord is a name as it can be put into a command line.
func shellWord(s string) string {
	q := pathsafe.Quote(s)
	if strings.HasPrefix(q, "-") {
		q = "./" + q
	}
	if strings.ContainsAny(q, " \t'\"$`\\!*?[](){}<>|&;#~") {
		return "'" + strings.ReplaceAll(q, "'", `'\''`) + "'"
	}
	return q
}

// foreignKind says what a file looks like by its first bytes, or "".
func foreignKind(name string) string {
	head, _ := beginning(name) // what cannot be opened looks like nothing
	return recognise(head)
}

// beginning reads what a file is recognised by. Its error is that of opening the file.
func beginning(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head) // fewer are fine
	return head[:n], nil
}
