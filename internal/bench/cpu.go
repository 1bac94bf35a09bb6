package bench

import (
	"bufio"
	"os"
	"strings"
)

// cpuModel is what the system calls the processor, where it says so in a file.
func cpuModel() string {
	const unknown = "unknown CPU"
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return unknown
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if k, v, ok := strings.Cut(sc.Text(), ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return unknown
}
