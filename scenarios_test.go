package lockbox_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// situations are those in which other archivers were seen to fail, by number, with the tests of each: a script of
// cmd/lockbox, or a Go test by its package's directory and name. A script whose name begins with numbers belongs
// to them without being listed.
var situations = []struct {
	what  string
	tests []string
}{
	1:  {"no free space at all", []string{"cmd/lockbox.TestNoSpaceLeft", "internal/store.TestFullDisk"}},
	2:  {"a writer was killed", []string{"cmd/lockbox.TestKilledWriter"}},
	3:  {"a reader streams while a writer commits and cleans up", []string{"cmd/lockbox.TestReaderDuringChange"}},
	4:  {"the archive is truncated", nil},
	5:  {"the last bytes are zeros", nil},
	6:  {"one bit is flipped", nil},
	7:  {"a recovery loses something", []string{"recover.txtar", "protected-recover.txtar"}},
	8:  {"whoever reads the output goes away", nil},
	9:  {"an entry of --files-from does not exist", nil},
	10: {"FIFO, socket, device in the tree", []string{"internal/hostfs.TestSpecialFilesAreNotOpened"}},
	11: {"the archive lies in the tree that it stores", nil},
	12: {"names that begin with a dash or hold a newline", nil},
	13: {"a dangling link", nil},
	14: {"a link named on the command line", nil},
	15: {"read-only directories, extracted by an ordinary user", []string{"internal/hostfs.TestReadOnlyDirectories"}},
	16: {"empty directories, a dotfile named explicitly", nil},
	17: {"a sparse file of 1 TiB", nil},
	18: {"the same tree from another machine, reproducible", nil},
	19: {"a foreign archive that leads outside", []string{"migrate.txtar", "internal/migrate/tar.TestRefusedEntries", "internal/migrate/zip.TestRefused"}},
	20: {"a link in the destination where a directory is expected", []string{"internal/hostfs.TestPlantedLink", "internal/hostfs.TestHostileExtraction"}},
	21: {"names that the system cannot tell apart or cannot store", []string{"internal/hostfs.TestCheckNames", "internal/hostfs.TestRenamingProperties"}},
	22: {"a gigabyte in a few bytes", []string{"cmd/lockbox.TestMemoryOfABomb"}},
	23: {"a ZIP file that contradicts itself", []string{"internal/migrate/zip.TestRefused", "internal/migrate/zip.TestSharedBytes"}},
	24: {"a ZIP file with old names, many entries, over 4 GiB", []string{"internal/migrate/zip.TestNames", "internal/migrate/zip.TestManyAndLarge"}},
	25: {"a read-only archive in a read-only directory", nil},
	26: {"verify in cron", nil},
	27: {"long paths, long names, deep trees", []string{"internal/hostfs.TestDeepTree"}},
	28: {"a file changes size while it is read", []string{"cmd/lockbox.TestSourceThatGrows", "cmd/lockbox.TestSourcesThatMisbehave"}},
	29: {"the destination file exists", []string{"internal/hostfs.TestExtractExisting"}},
	30: {"interrupted at any time", []string{
		"cmd/lockbox.TestInterruptedAdd", "cmd/lockbox.TestInterruptedCreation", "cmd/lockbox.TestInterruptedExtract",
		"cmd/lockbox.TestInterruptedStuckReader", "cmd/lockbox.TestDeadMount", "cmd/lockbox.TestInterruptedExtraction",
	}},
}

func TestEverySituationHasATest(t *testing.T) {
	scripts, err := filepath.Glob("cmd/lockbox/testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	has := make([]bool, len(situations))
	numbers := regexp.MustCompile(`^(\d\d-)+`)
	for i, name := range scripts {
		scripts[i] = filepath.Base(name)
		for digits := range strings.SplitSeq(strings.TrimSuffix(numbers.FindString(scripts[i]), "-"), "-") {
			if n, _ := strconv.Atoi(digits); n > 0 && n < len(has) {
				has[n] = true
			} else if digits != "" {
				t.Errorf("%s: there is no situation %s", scripts[i], digits)
			}
		}
	}
	declared := make(map[string][]string) // by directory
	for n, s := range situations {
		for _, test := range s.tests {
			dir, name, isGo := strings.Cut(test, ".Test")
			if isGo && declared[dir] == nil {
				declared[dir] = testsOf(t, dir)
			}
			if isGo && slices.Contains(declared[dir], "Test"+name) || slices.Contains(scripts, test) {
				has[n] = true
			} else {
				t.Errorf("situation %d, %s: there is no test %s", n, s.what, test)
			}
		}
	}
	for n := 1; n < len(situations); n++ {
		switch {
		case situations[n].what == "":
			t.Errorf("situation %d is not described", n)
		case !has[n]:
			t.Errorf("situation %d, %s: nothing tests it", n, situations[n].what)
		}
	}
}

// testsOf are the names of the tests in a directory, on every system.
func testsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}
