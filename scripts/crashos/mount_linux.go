package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// noMountsEnv says that this process has no mount namespace of its own, so that it must not mount anything.
const noMountsEnv = "CRASHOS_NO_MOUNTS"

// canMount says why nothing can be mounted.
func canMount() error {
	if os.Geteuid() != 0 {
		return skipError{"mounting needs root"}
	}
	if os.Getenv(noMountsEnv) != "" {
		return skipError{"this process may not have a mount namespace of its own"}
	}
	return nil
}

// needs says which of some programs are missing.
func needs(programs ...string) error {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return skipError{p + " was not found"}
		}
	}
	return nil
}

// tool runs a system program to its end.
func (r *run) tool(name string, args ...string) error {
	res := r.exec(name, args, args)
	if res.code != 0 {
		return fmt.Errorf("%s %s: exit %d: %s", name, strings.Join(args, " "), res.code, strings.TrimSpace(res.err))
	}
	return nil
}

// mountTmpfs mounts a small file system in memory.
func mountTmpfs(dir string, size int) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", size)); err != nil {
		return skipError{"tmpfs cannot be mounted: " + err.Error()}
	}
	return nil
}

// unmount waits until the file system is no longer busy with processes that are just ending.
func unmount(dir string) error {
	for range 100 {
		err := syscall.Unmount(dir, 0)
		if !errors.Is(err, syscall.EBUSY) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.Join(fmt.Errorf("%s stays busy", filepath.Base(dir)), syscall.Unmount(dir, syscall.MNT_DETACH))
}

// makeImage makes a file with a file system in it.
func (r *run) makeImage(path, kind string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return err
	}
	if kind == "xfs" {
		return r.tool("mkfs.xfs", "-q", "-f", "-m", "reflink=1", path)
	}
	return r.tool("mkfs."+kind, "-q", "-F", path)
}

// mountImage mounts a file system image. The loop device is freed with the mount.
func (r *run) mountImage(image, kind, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return r.tool("mount", "-o", "loop", "-t", kind, image, dir)
}

// tryImage makes and mounts an image, and says it when the system does not go along.
func (r *run) tryImage(image, kind, dir string, size int64) error {
	err := canMount()
	if err == nil {
		err = needs("mount", "losetup", "mkfs."+kind)
	}
	if err != nil {
		return err
	}
	if err := r.makeImage(image, kind, size); err != nil {
		return err
	}
	if err := r.mountImage(image, kind, dir); err != nil {
		return errors.Join(skipError{"a loop device cannot be mounted: " + err.Error()}, os.Remove(image))
	}
	return nil
}

const (
	ioctlShutdown = 0x8004587d // EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN
	noLogFlush    = 2
	ioctlClone    = 0x40049409 // FICLONE
)

// cutPower stops a file system where it is: nothing more reaches the device, not even its own journal.
func cutPower(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return ioctlUint32(d, ioctlShutdown, noLogFlush)
}

// clone copies a file at one moment, by sharing its blocks.
func clone(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dst.Fd(), ioctlClone, src.Fd())
	if errno != 0 {
		return errors.Join(errno, dst.Close(), os.Remove(to))
	}
	return dst.Close()
}
