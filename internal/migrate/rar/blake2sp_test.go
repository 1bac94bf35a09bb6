package rar

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// blakeABC is the sum of "abc".
const blakeABC = "70f75b58f1fecab821db43c88ad84edde5a52600616cd22517b7bb14d440a7d5"

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The sums are of bytes that count from 0 to 250 again and again, made by an independent BLAKE2s that takes a tree's
// parameters.
func TestBlake2sp(t *testing.T) {
	for n, want := range map[int]string{
		0:    "dd0e891776933f43c7d032b08a917e25741f8aa9a12c12e1cac8801500f2ca4f",
		1:    "a6b9eecc25227ad788c99d3f236debc8da408849e9a5178978727a81457f7239",
		64:   "52603b6cbfad4966cb044cb267568385cf35f21e6c45cf30aed19832cb51e9f5",
		65:   "fff24d3cc729d395daf978b0157306cb495797e6c8dca1731d2f6f81b849baae",
		511:  "8e1e8ee1ffa0a01028fff3bff0ae9df2565a82e55a04e9541bb78b9c4778336f",
		512:  "8d9e357863298dd8364b7caf4234317f8a49f180d788b7abffb521925f1e1ff1",
		513:  "8a4bc3330497e681f15daf24fc496044a1c32bf0a837a210399e1ae4af7e92be",
		1000: "611f1af6610cdaf674ec2c9178f6376ebe234ef50998a3be3f1fa698fb779274",
		4099: "646fed2f5fbb8165c3f08f2a27eb8a2a40752fabdb11b26ef9738a6db16025cb",
	} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i % 251)
		}
		for _, step := range []int{1, 7, 64, 100, 5000} {
			h := newBlake2sp()
			for p := b; len(p) > 0; p = p[min(step, len(p)):] {
				h.write(p[:min(step, len(p))])
			}
			if got := h.sum(); !bytes.Equal(got[:], unhex(t, want)) {
				t.Errorf("%d bytes by %d: %x", n, step, got)
			}
		}
	}
	h := newBlake2sp()
	h.write([]byte("abc"))
	if got := h.sum(); !bytes.Equal(got[:], unhex(t, blakeABC)) {
		t.Errorf("abc: %x", got)
	}
}
