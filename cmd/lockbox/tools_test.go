package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"github.com/zeebo/blake3"
)

// b3sum stands in for the program of that name.
func b3sum() {
	raw := flag.Bool("raw", false, "")
	flag.Bool("no-names", false, "")
	check := flag.Bool("check", false, "")
	keyed := flag.Bool("keyed", false, "")
	context := flag.String("derive-key", "", "")
	flag.Parse()
	if *check {
		checkSums(os.Stdin)
		return
	}
	h := blake3.New()
	if *context != "" {
		h = blake3.NewDeriveKey(*context)
	}
	in := io.Reader(os.Stdin)
	if *keyed {
		key, err := io.ReadAll(os.Stdin)
		orExit(err)
		h, err = blake3.NewKeyed(key)
		orExit(err)
		in, err = os.Open(flag.Arg(0))
		orExit(err)
	}
	_, err := io.Copy(h, in)
	orExit(err)
	if sum := h.Sum(nil); *raw {
		_, _ = os.Stdout.Write(sum)
	} else {
		fmt.Printf("%x\n", sum)
	}
}

// checkSums holds files against lines of their digests.
func checkSums(lines io.Reader) {
	for in := bufio.NewScanner(lines); in.Scan(); {
		sum, name, _ := strings.Cut(in.Text(), "  ")
		b, err := os.ReadFile(name)
		orExit(err)
		if got := blake3.Sum256(b); fmt.Sprintf("%x", got) != sum {
			orExit(fmt.Errorf("%s: FAILED", name))
		}
		fmt.Println(name + ": OK")
	}
}

// openAge stands in for age -d -i IDENTITY FILE.
func openAge() {
	flag.Bool("d", false, "")
	identity := flag.String("i", "", "")
	flag.Parse()
	key, err := os.Open(*identity)
	orExit(err)
	ids, err := age.ParseIdentities(key)
	orExit(err)
	in, err := os.Open(flag.Arg(0))
	orExit(err)
	plain, err := age.Decrypt(in, ids...)
	orExit(err)
	_, err = io.Copy(os.Stdout, plain)
	orExit(err)
}

func orExit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
