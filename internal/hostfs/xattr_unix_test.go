//go:build linux || darwin

package hostfs

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// attributes is a file that has some; what has the value "denied" cannot be read.
type attributes map[string]string

func (a attributes) read() ([]Xattr, error) {
	answer := func(value string, b []byte) (int, error) {
		if len(b) > 0 && len(b) < len(value) {
			return 0, unix.ERANGE
		}
		copy(b, value)
		return len(value), nil
	}
	return readXattrs(
		func(b []byte) (int, error) {
			names := slices.Backward(slices.Sorted(maps.Keys(a)))
			var list strings.Builder
			for _, name := range names {
				list.WriteString(name + "\x00")
			}
			return answer(list.String(), b)
		},
		func(name string, b []byte) (int, error) {
			if a[name] == "denied" {
				return 0, unix.EACCES
			}
			return answer(a[name], b)
		})
}

// One attribute that cannot be read, or is too much, does not take the others with it: least of all the access control
// list, without which the mode grants more.
func TestReadXattrsKeepsWhatItCan(t *testing.T) {
	acl := xattrACL
	if !storedXattr(acl) {
		acl = "com.apple.first"
	}
	full := strings.Repeat("v", maxXattrs/2)
	for _, c := range []struct {
		name string
		has  attributes
		want []string
		err  error
	}{
		{"nothing", attributes{}, nil, nil},
		{"all", attributes{"user.b": "", "user.a": "1", acl: "list"}, []string{acl, "user.a", "user.b"}, nil},
		{"denied", attributes{"user.a": "denied", "user.b": "1", acl: "list"}, []string{acl, "user.b"}, unix.EACCES},
		{"too much", attributes{"user.a": full, "user.b": full, "user.c": "1", acl: "list"}, []string{acl, "user.a", "user.c"}, errManyXattrs},
		// An archive needs some bytes more than names and values have.
		{"too much by a few", attributes{"user.a": full, "user.b": full[:len(full)-len("user.auser.b")]}, []string{"user.a"}, errManyXattrs},
		{"one that just fits", attributes{"user.a": strings.Repeat("v", maxXattrs-len("user.a")-xattrLengths)}, []string{"user.a"}, nil},
	} {
		xs, err := c.has.read()
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
		var got []string
		for _, x := range xs {
			got = append(got, x.Name)
			if string(x.Value) != c.has[x.Name] {
				t.Errorf("%s: %s has %d bytes", c.name, x.Name, len(x.Value))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
