package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
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

// foreignFailure is the error for a file that is no lockbox archive.
func foreignFailure(name string) error {
	f := &failure{code: exitForeign}
	head := make([]byte, 512)
	n := 0
	if file, err := os.Open(name); err == nil {
		n, _ = io.ReadFull(file, head)
		_ = file.Close()
		if n == 0 {
			f.err = fmt.Errorf("%s is empty: it is not a lockbox archive", quoted(name))
			f.hint = "an archive is made by lockbox add or lockbox create under a name that is not taken"
			return f
		}
	}
	what := recognise(head[:n])
	if what == "" {
		f.err = fmt.Errorf("%s is not a lockbox archive", quoted(name))
		return f
	}
	f.err = fmt.Errorf("%s is not a lockbox archive: it is %s", quoted(name), what)
	f.hint = "this version reads its own format only: unpack the file with the program it was made with and add the result to a new archive"
	return f
}
