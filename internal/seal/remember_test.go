package seal

import (
	"bytes"
	"testing"
)

func TestRememberedIsWiped(t *testing.T) {
	k, err := NewContentKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	must(t, err)
	secret, public, err := GenerateIdentity(false)
	must(t, err)
	to, err := ParseRecipient(public, UI{})
	must(t, err)
	ids, err := ParseIdentities([]byte(secret), UI{})
	must(t, err)
	r, file := Remember(ids[0]), slot(t, k, to)
	for range 2 {
		if got, err := OpenSlots(t.Context(), [][]byte{file}, []Identity{r}); err != nil || *got != *k {
			t.Fatalf("%v", err)
		}
		if len(r.opened) != 1 {
			t.Fatalf("%d slots are remembered", len(r.opened))
		}
	}
	r.Wipe()
	for _, key := range r.opened {
		if len(key) == 0 || bytes.Count(key, []byte{0}) != len(key) {
			t.Error("a key was not wiped")
		}
	}
}
