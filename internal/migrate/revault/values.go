package revault

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/pathsafe"
)

const (
	maxVariables    = 1 << 16
	maxVariableName = 256
	maxFields       = 1 << 20 // of all forms together

	plainPrefix  = ".plain/"
	secretPrefix = ".secret/"
)

// variable is a named value.
type variable struct {
	name   string // begins with a slash
	value  []byte
	secret bool
}

// variables gives each variable to each, in the order of their stored names.
func (a *Archive) variables(ctx context.Context, each func(variable) error) error {
	if a.root.variables == 0 {
		return nil
	}
	n := 0
	w := walker{ps: a.pages, kind: treeVariables, lost: a.loseSubtree(treeVariables)}
	w.leaf = func(c *format.Cursor, b bounds) error {
		whole := *c
		if err := readVariables(&whole, b, func(variable) error { return nil }); err != nil {
			return err
		}
		return readVariables(c, b, func(v variable) error {
			if n++; n > maxVariables {
				return fmt.Errorf("%w: more than %d variables", source.ErrLimit, maxVariables)
			}
			return each(v)
		})
	}
	return w.walk(ctx, a.root.variables)
}

func readVariables(c *format.Cursor, b bounds, each func(variable) error) error {
	n := c.U32()
	if uint64(n) > uint64(c.Len())/7 {
		c.Fail("variables do not fit")
	}
	previous := ""
	for i := range n {
		stored, flag, value := str16(c), c.U8(), bytes32(c)
		v := variable{value: value, secret: flag == 1}
		name, plain := strings.CutPrefix(stored, plainPrefix)
		if !plain {
			name, _ = strings.CutPrefix(stored, secretPrefix)
		}
		v.name = name
		switch {
		case c.Err() != nil:
		case flag > 1:
			c.Fail("the flag of a variable is unknown")
		case i > 0 && stored <= previous || !b.hold(stored):
			c.Fail("variables are not in order")
		case plain && v.secret || !plain && name != stored && !v.secret:
			c.Fail("the name of a variable says otherwise than its flag whether it is secret")
		case len(name) > maxVariableName || !strings.HasPrefix(name, "/"):
			c.Fail("the name of a variable is too long or does not begin with a slash")
		case !utf8.Valid(value):
			c.Fail("the value of a variable is not UTF-8")
		}
		if err := c.Err(); err != nil {
			return err
		}
		previous = stored
		if err := each(v); err != nil {
			return err
		}
	}
	return c.Done()
}

// variableFiles gives the files that variables become, and the directories above them that the archive has not.
func (a *Archive) variableFiles(ctx context.Context, each func(*source.Entry) error) error {
	const dir, file = 1, 2
	made := map[string]int{}
	for p := range a.prefixDirs {
		made[p] = dir
	}
	return a.variables(ctx, func(v variable) error {
		e := &source.Entry{Name: v.name, Secret: v.secret}
		path, err := variablePath(a.variablesTo, v.name)
		if err != nil {
			e.Err = err
			return each(e)
		}
		var missing []pathsafe.Path
		for p := path; !p.IsZero() && e.Err == nil; p = p.Parent() {
			switch at := made[p.String()]; {
			case at == file || at == dir && p == path:
				e.Err = fmt.Errorf("the variable %q cannot become a file beside the one for %q", v.name, p.String())
			case at == 0 && p != path:
				missing = append(missing, p)
			}
		}
		if e.Err != nil {
			return each(e)
		}
		for i := len(missing) - 1; i >= 0; i-- {
			made[missing[i].String()] = dir
			if err := each(&source.Entry{Name: missing[i].String(), Entry: a.plainEntry(missing[i], index.Dir, defaultDirMode)}); err != nil {
				return err
			}
		}
		made[path.String()] = file
		e.Entry = a.plainEntry(path, index.File, defaultFileMode)
		e.Entry.Size = int64(len(v.value))
		e.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(v.value)), nil }
		return each(e)
	})
}

func variablePath(to pathsafe.Path, name string) (pathsafe.Path, error) {
	p, err := archivePath(name)
	if err != nil {
		return pathsafe.Path{}, err
	}
	return to.JoinPath(p)
}

// countForms returns how many definitions and records of forms there are. Their entries have no lengths, so that
// counting takes reading each field.
func (a *Archive) countForms(ctx context.Context) (definitions, records int, err error) {
	if a.root.forms == 0 {
		return 0, 0, nil
	}
	fields := 0
	w := walker{ps: a.pages, kind: treeForms, lost: a.loseSubtree(treeForms)}
	w.leaf = func(c *format.Cursor, b bounds) error {
		d, r, f, err := readForms(c, b)
		if err != nil {
			return err
		}
		definitions, records = definitions+d, records+r
		if fields += f; fields > maxFields {
			return fmt.Errorf("%w: more than %d fields of forms", source.ErrLimit, maxFields)
		}
		return nil
	}
	err = w.walk(ctx, a.root.forms)
	return definitions, records, err
}

func readForms(c *format.Cursor, b bounds) (definitions, records, fields int, err error) {
	n := c.U32()
	if uint64(n) > uint64(c.Len())/3 {
		c.Fail("forms do not fit")
	}
	previous := ""
	for i := range n {
		key, kind := str16(c), c.U8()
		if c.Err() == nil && (!b.hold(key) || i > 0 && key <= previous) {
			c.Fail("forms are not in order")
		}
		previous = key
		switch kind {
		case 1:
			definitions++
			fields += readDefinition(c)
		case 2:
			records++
			fields += readFormRecord(c)
		default:
			c.Fail("the type of a form is unknown")
		}
		if err := c.Err(); err != nil {
			return 0, 0, 0, err
		}
	}
	return definitions, records, fields, c.Done()
}

func readDefinition(c *format.Cursor) (fields int) {
	str16(c) // id
	str16(c) // alias
	c.U32()  // revision
	str16(c) // name
	described := *c
	if described.U16() == 0xffff {
		*c = described
		str16(c) // description
	}
	n := c.U32()
	if uint64(n) > uint64(c.Len())/6 {
		c.Fail("fields of a form do not fit")
	}
	for range n {
		str16(c) // id
		str16(c) // label
		fieldKind(c)
		if c.U8() > 1 {
			c.Fail("the flag of a form's field is unknown")
		}
		if c.Err() != nil {
			return 0
		}
	}
	return int(n)
}

func readFormRecord(c *format.Cursor) (fields int) {
	for range 4 { // path, name, id and alias of the form
		str16(c)
	}
	c.U32() // revision
	n := c.U32()
	if uint64(n) > uint64(c.Len())/8 {
		c.Fail("values of a form do not fit")
	}
	for range n {
		str16(c) // id of the field
		str16(c) // label
		switch kind, secret := fieldKind(c), c.U8(); {
		case secret > 1 || (secret == 1) != (kind == 2):
			c.Fail("the flag of a form's value is unknown")
		case secret == 1:
			bytes32(c)
		default:
			str16(c)
		}
		if c.Err() != nil {
			return 0
		}
	}
	return int(n)
}

// fieldKind reads what a field is, from text to number.
func fieldKind(c *format.Cursor) uint8 {
	k := c.U8()
	if k < 1 || k > 8 {
		c.Fail("the kind of a form's field is unknown")
	}
	return k
}
