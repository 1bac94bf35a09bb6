package lockbox_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestNothingInternalShows goes through the exported API as a compiler sees it.
func TestNothingInternalShows(t *testing.T) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[name] = file
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) { return os.Open(files[name]) })
	pkg, err := compiled.Import("lockbox")
	must(t, err)
	w := &apiWalk{t: t, pkg: pkg, seen: map[types.Type]bool{}}
	for _, name := range pkg.Scope().Names() {
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			w.count++
			w.typ(name, obj.Type())
		}
	}
	if w.count < 40 {
		t.Errorf("only %d exported names were found", w.count)
	}
	// What it would find: the engine's own signatures.
	engine, err := compiled.Import("lockbox/internal/store")
	must(t, err)
	bad := &apiWalk{t: t, pkg: pkg, seen: map[types.Type]bool{}, quiet: true}
	bad.typ("Open", engine.Scope().Lookup("Open").Type())
	if bad.found == 0 {
		t.Error("an internal type is not found")
	}
}

type apiWalk struct {
	t            *testing.T
	pkg          *types.Package
	seen         map[types.Type]bool
	quiet        bool
	count, found int
}

func (w *apiWalk) fail(where string, what types.Type) {
	if w.found++; !w.quiet {
		w.t.Errorf("%s shows %v", where, what)
	}
}

func (w *apiWalk) typ(where string, typ types.Type) {
	if typ = types.Unalias(typ); w.seen[typ] {
		return
	}
	w.seen[typ] = true
	switch typ := typ.(type) {
	case *types.Named:
		if p := typ.Obj().Pkg(); p != nil && p != w.pkg {
			if strings.HasPrefix(p.Path(), w.pkg.Path()+"/internal/") {
				w.fail(where, typ)
			}
			return // of other packages nothing of ours can show
		}
		if !typ.Obj().Exported() && typ.Obj().Pkg() != nil {
			w.fail(where, typ) // a caller could not name it
		}
		for i := range typ.TypeArgs().Len() {
			w.typ(where, typ.TypeArgs().At(i))
		}
		for m := range types.NewMethodSet(types.NewPointer(typ)).Methods() {
			if m.Obj().Exported() {
				w.typ(where+"."+m.Obj().Name(), m.Type())
			}
		}
		w.typ(where, typ.Underlying())
	case *types.Struct:
		for f := range typ.Fields() {
			if f.Exported() {
				w.typ(where+"."+f.Name(), f.Type())
			}
		}
	case *types.Signature:
		for v := range typ.Params().Variables() {
			w.typ(where, v.Type())
		}
		for v := range typ.Results().Variables() {
			w.typ(where, v.Type())
		}
	case *types.Interface:
		for m := range typ.Methods() {
			w.typ(where+"."+m.Name(), m.Type())
		}
	case *types.Pointer:
		w.typ(where, typ.Elem())
	case *types.Slice:
		w.typ(where, typ.Elem())
	case *types.Array:
		w.typ(where, typ.Elem())
	case *types.Chan:
		w.typ(where, typ.Elem())
	case *types.Map:
		w.typ(where, typ.Key())
		w.typ(where, typ.Elem())
	}
}
