package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// file is a file of an archive.
type file struct {
	name string
	data []byte
	mode fs.FileMode
}

// packTar makes a tar.gz with everything in one directory.
func packTar(dir string, files []file, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: dir + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: when, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// packZip makes a zip with everything in one directory.
func packZip(dir string, files []file, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: dir + "/" + f.name, Method: zip.Deflate, Modified: when}
		h.SetMode(f.mode)
		to, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// documents are the files that every archive has beside the binary: what comes from the repository, the manual and the
// completions. host is the binary to ask.
func (r *release) documents(host string) ([]file, error) {
	var files []file
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "FORMAT.md", "docs/guide.md", "docs/verify.md", "docs/from-revault.md", "docs/security.md", "docs/durability.md",
		"contrib/cron/lockbox-verify", "contrib/prometheus/lockbox.rules.yml", "contrib/systemd/lockbox-verify.service", "contrib/systemd/lockbox-verify.timer"} {
		b, err := os.ReadFile(filepath.Join(r.src, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, b, 0o644})
	}
	for shell, name := range map[string]string{"bash": "lockbox.bash", "zsh": "_lockbox", "fish": "lockbox.fish", "powershell": "lockbox.ps1"} {
		b, err := output(r.ctx, r.src, nil, host, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{"completions/" + name, b, 0o644})
	}
	pages, err := manual(func(args ...string) (string, error) {
		b, err := output(r.ctx, r.src, nil, host, append([]string{"help"}, args...)...)
		return string(b), err
	})
	if err != nil {
		return nil, fmt.Errorf("the manual: %w", err)
	}
	for _, p := range pages {
		text := fmt.Sprintf(".TH %s %d %q %q %q\n%s", p.title(), p.section, r.time.Format("2006-01-02"), "lockbox "+r.version, "lockbox manual", p.body)
		files = append(files, file{fmt.Sprintf("man/man%d/%s.%d", p.section, p.name, p.section), []byte(text), 0o644})
	}
	sortFiles(files)
	return files, nil
}
