package main

import (
	"strings"
	"testing"

	"lockbox/internal/seal"
)

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "é": 1, "e\u0301": 1, "日本": 4, "ｱ": 1, "Ａ": 2, "한": 2, "🙂": 2, "±": 1, "\u200d": 0, "\xff": 1,
	} {
		if got := columns([]byte(text)); got != want {
			t.Errorf("%q: %d columns, want %d", text, got, want)
		}
	}
	var c column
	for _, text := range []string{"ab", "日本", "é"} {
		c.measure([]byte(text))
	}
	for text, blanks := range map[string]int{"日本": 0, "é": 3, "ab": 2} {
		if got := string(c.pad([]byte("x "+text), 2)); got != "x "+text+strings.Repeat(" ", blanks) {
			t.Errorf("%q", got)
		}
	}
}

// Slots stand in columns.
func TestSlotTexts(t *testing.T) {
	got := slotTexts([]seal.Slot{
		{Number: 1, Kinds: []string{"X25519"}, Label: "age1abc"}, {Number: 2, Kinds: []string{"scrypt"}}, {Number: 10, Kinds: []string{"ssh-rsa"}, Label: "bob\n"},
	})
	want := []string{"1   age key (X25519)  age1abc", "2   passphrase", `10  SSH key (rsa)     bob\x0a`}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", got, want)
	}
}
