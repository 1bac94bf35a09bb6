package revault

import (
	"errors"
	"strings"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

func variableLeaf(vars ...[]byte) []byte {
	return join(u8(1), u8(1), u32(len(vars)), join(vars...))
}

func variableEntry(stored, value string, secret uint8) []byte {
	return join(text(stored), u8(secret), sized(4, []byte(value)))
}

func TestVariables(t *testing.T) {
	w := newWriter(t, 2)
	w.finish(w.toc([]string{"/d", "/f"}, dirEntry("/d"), zeroFile("/f", 1)), w.page(kindVarLeaf, variableLeaf(
		variableEntry(".plain//A", "1", 0), variableEntry(".plain//A/B", "2", 0), variableEntry(".secret//A", "3", 1), variableEntry(".secret//S", "4", 1), variableEntry("/bare", "5", 1))), 0)
	o := w.options()
	if _, info := w.mustRead(o); len(info.Lost) != 1 || !strings.Contains(info.Lost[0], "5 variables, 3 of them secret") {
		t.Errorf("%v", info)
	}
	parse := func(s string) (p pathsafe.Path) {
		p, err := pathsafe.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	o.VariablesTo = parse("d/vars")
	a, err := w.open(o)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var refused int
	for e, err := range a.Entries(t.Context()) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Err != nil:
			refused++ // /A/B below a file, and the second /A
		case seen[e.Entry.Path.String()]:
			t.Errorf("%s came twice", e.Entry.Path)
		default:
			seen[e.Entry.Path.String()] = true
			if secret := e.Entry.Path.Base() == "S" || e.Entry.Path.Base() == "bare"; e.Secret != secret {
				t.Errorf("%s: secret is %v", e.Entry.Path, e.Secret)
			}
			if e.Entry.Path.IsUnder(o.VariablesTo) && (e.Entry.Kind != index.File || e.Entry.Mode != 0o600) {
				t.Errorf("%+v", e.Entry)
			}
		}
	}
	if refused != 2 || len(seen) != 6 || a.Info().Entries != 8 {
		t.Errorf("%d refused, %v, %+v", refused, seen, a.Info())
	}
	for _, taken := range []string{"d", "f", "f/x"} {
		o.VariablesTo = parse(taken)
		if _, err := w.open(o); err == nil || !strings.Contains(err.Error(), "choose another") {
			t.Errorf("%s: %v", taken, err)
		}
	}
}

func TestBadVariables(t *testing.T) {
	for name, b := range map[string][]byte{
		"flag":     variableLeaf(variableEntry(".plain//A", "1", 1)),
		"secret":   variableLeaf(variableEntry(".secret//A", "1", 0)),
		"unknown":  variableLeaf(variableEntry("/A", "1", 2)),
		"no slash": variableLeaf(variableEntry(".plain/A", "1", 0)),
		"order":    variableLeaf(variableEntry("/B", "1", 0), variableEntry("/A", "1", 0)),
		"utf8":     variableLeaf(variableEntry("/A", "\xff", 0)),
		"count":    join(u8(1), u8(1), u32(1<<30)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWriter(t, 2)
			w.finish(w.page(kindTOCLeaf, leaf(nil)), w.page(kindVarLeaf, b), 0)
			w.wantError(w.options(), format.ErrCorrupt, "variables")
			o := w.options()
			o.AllowLoss = true
			if _, info := w.mustRead(o); len(info.Lost) != 1 || !strings.Contains(info.Lost[0], "variables: all of it") {
				t.Errorf("%v", info.Lost)
			}
		})
	}
}

func formPages(w *writer) int64 {
	id := "0123456789abcdef0123456789abcdef0123"
	field := join(text("f1"), text("Label"), u8(2), u8(1))
	old := join(text("d/"+id+"/0000000001"), u8(1), text(id), text("alias"), u32(1), text("Name"), u32(1), field)
	now := join(text("d/"+id+"/0000000002"), u8(1), text(id), text("alias"), u32(2), text("Name"), u16(0xffff), text("what it is"), u32(2), field, field)
	record := join(text("r/cards/one"), u8(2), text("/cards/one"), text("One"), text(id), text("alias"), u32(2), u32(2),
		text("f1"), text("Label"), u8(2), u8(1), sized(4, []byte("hidden")), text("f2"), text("Label"), u8(1), u8(0), text("shown"))
	one := w.page(kindFormLeaf, join(u8(1), u8(1), u32(2), old, now))
	two := w.page(kindFormLeaf, join(u8(1), u8(1), u32(1), record))
	return w.page(kindFormNode, node([]string{"d/", "r/cards/one"}, []int64{one, two}))
}

func TestForms(t *testing.T) {
	w := newWriter(t, 1)
	w.finish(w.page(kindTOCLeaf, leaf(nil)), 0, formPages(w))
	if _, info := w.mustRead(w.options()); len(info.Lost) != 1 || !strings.Contains(info.Lost[0], "2 definitions and 1 records") {
		t.Errorf("%q", info.Lost)
	}
	w = newWriter(t, 1)
	w.finish(w.page(kindTOCLeaf, leaf(nil)), 0, w.page(kindFormLeaf, join(u8(1), u8(1), u32(1), text("r/x"), u8(3))))
	if _, err := w.open(w.options()); !errors.Is(err, format.ErrCorrupt) {
		t.Error(err)
	}
}
