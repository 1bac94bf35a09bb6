//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cronLine is a line of a crontab: five fields for the time, and a command.
var cronLine = regexp.MustCompile(`^(?:[-*/,0-9]+ +){5}(.+)$`)

// cronCommands returns the commands of a crontab, as cron gives them to a shell. In the table of a system a user's name stands before.
func cronCommands(t *testing.T, text, user string) (commands []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		m := cronLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case m != nil && strings.HasPrefix(m[1], user):
			command := strings.ReplaceAll(m[1][len(user):], `\%`, "\x00")
			if strings.Contains(command, "%") {
				t.Errorf("a %% that cron takes for a line's end: %s", line)
			}
			commands = append(commands, strings.ReplaceAll(command, "\x00", "%"))
		case m != nil || !regexp.MustCompile(`^([A-Z]+=.*|#.*)?\n?$`).MatchString(line):
			t.Errorf("no line for cron: %s", line)
		}
	}
	return commands
}

// toolPath is a PATH with the program, first and dir if there is one, then what the system has, and last what stands in for programs that
// the system does not have.
func toolPath(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	place := func(names ...string) string {
		to := t.TempDir()
		for _, name := range names {
			if err := os.Symlink(self, filepath.Join(to, name)); err != nil {
				t.Fatal(err)
			}
		}
		return to
	}
	path := []string{place("lockbox"), dir, "/usr/local/bin", "/usr/bin", "/bin", place("b3sum", "age")}
	return strings.Join(path, ":")
}

// What the documents tell people to type works, in the order in which they stand there, in an empty home directory and an
// environment that has nothing of the one in which the tests run.
func TestDocuments(t *testing.T) {
	shell, err := exec.LookPath("bash")
	pipefail := "set -o pipefail\n"
	if err != nil {
		shell, pipefail = "/bin/sh", ""
	}
	for _, name := range documents(t) {
		blocks := blocksOf(t, name)
		if len(blocks) == 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(name), ".md"), func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			keys := filepath.Join(t.TempDir(), "keys")
			if err := copyKeys(keys); err != nil {
				t.Fatal(err)
			}
			samples, err := filepath.Abs("../../internal/migrate")
			if err != nil {
				t.Fatal(err)
			}
			path := toolPath(t, filepath.Join(home, "bin"))
			script := "set -u\n" + pipefail
			var needs []string
			for _, b := range blocks {
				script += docScript(t, b, path)
				needs = append(needs, b.needs...)
			}
			if tool := missingTool(script, path, needs); tool != "" {
				t.Skipf("not run, as %s uses %s, which is not there", name, tool)
			}
			cmd := exec.CommandContext(t.Context(), shell, "-c", script)
			cmd.Dir = home
			cmd.Env = []string{
				"HOME=" + home, "PATH=" + path, "TMPDIR=" + t.TempDir(), "TZ=UTC", "LC_ALL=C", "GORACE=" + quickExit,
				"KEYS=" + keys, "SAMPLES=" + samples, "COPY=" + t.TempDir(),
			}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
		})
	}
}

// docScript is what a shell has to do for a block.
func docScript(t *testing.T, b docBlock, path string) string {
	t.Helper()
	run := func(i int, before, text string) string {
		want := "0"
		if len(b.exit) > 0 {
			want = b.exit[min(i, len(b.exit)-1)]
		}
		return fmt.Sprintf("echo '== line %d' >&2\n(%sset -e\n%s\n)\ncode=$?\ntest $code = %s || { echo \"line %d, command %d: exit $code, not %s\" >&2; exit 99; }\n",
			b.line, before, text, want, b.line, i+1, want)
	}
	for _, tool := range b.needs {
		if !hasTool(path, tool) {
			t.Logf("line %d: not run, as %s is not there", b.line, tool)
			return ""
		}
	}
	switch {
	case b.why != "":
		return ""
	case b.lang == "setup":
		return fmt.Sprintf("set -e\n%s\nset +e\n", b.text)
	case b.file != "":
		return fmt.Sprintf("cat > %s <<'END OF THE FILE'\n%sEND OF THE FILE\n", b.file, b.text)
	case b.lang == "crontab":
		var script strings.Builder
		for i, line := range cronCommands(t, b.text, "") {
			script.WriteString(run(i, "", line))
		}
		return script.String()
	case b.lang == "examples", b.lang == "table":
		lines := tableCommands(b.text)
		if b.lang == "examples" {
			lines = helpExamples(t, strings.TrimSpace(b.text))
		}
		if len(lines) == 0 {
			t.Errorf("line %d: no commands", b.line)
		}
		var script strings.Builder
		for i, line := range lines {
			before := "rm -rf \"$COPY/home\" && cp -a ~ \"$COPY/home\" && export HOME=\"$COPY/home\" && cd\n"
			if m := regexp.MustCompile(`(?: -o |lockbox create )([\w.]+)`).FindStringSubmatch(line); m != nil {
				before += "rm -f " + m[1] + "\n" // what it makes
			}
			script.WriteString(run(i, before, line))
		}
		return script.String()
	}
	return run(0, "", b.text)
}

// toolCall is the call of a program that a small system may not have. What is not among these and not there fails the test.
var toolCall = regexp.MustCompile(`(?:^|[\n|;&({]|\$\(|\bthen|\bdo|\bexec|\bxargs -0)\s*(age|age-keygen|bash|b3sum|cmp|curl|dd|diff|find|git|gzip|jq|make|openssl|ssh|ssh-keygen|tar|unzip|xargs|zip)\s`)

// missingTool returns the first of such programs that a script calls and path does not have. Those that blocks say they need are not among
// them: the blocks are left out, and what follows does without.
func missingTool(script, path string, needs []string) string {
	for _, m := range toolCall.FindAllStringSubmatch(script, -1) {
		if !slices.Contains(needs, m[1]) && !hasTool(path, m[1]) && !regexp.MustCompile(`for program in [^;]*\b`+m[1]+`\b`).MatchString(script) {
			return m[1]
		}
	}
	return ""
}

func TestMissingTool(t *testing.T) {
	has := t.TempDir()
	for script, want := range map[string]string{
		"lockbox list a.lbx\ncp a b\n":                                      "",
		"lockbox export a.lbx --format tar | tar tf -\n":                    "tar",
		"find . -print0 | lockbox add a.lbx --files-from0 -\n":              "find",
		"printf x | dd of=a\n":                                              "dd",
		"openssl rand 24\n":                                                 "",
		"x=$(git status)\n":                                                 "git",
		"lockbox list a.lbx -0 | xargs -0 cat\n":                            "xargs",
		"for program in git jq; do cp x bin/$program; done\ngit ls-files\n": "",
	} {
		if got := missingTool(script, has, []string{"openssl"}); got != want {
			t.Errorf("%q: %q, want %q", script, got, want)
		}
	}
}

// helpExamples returns the examples of a page.
func helpExamples(t *testing.T, name string) []string {
	t.Helper()
	lines := helpPages()[strings.TrimPrefix(name, "lockbox")].examples
	if len(lines) == 0 {
		t.Errorf("there are no examples in the help on %q", name)
	}
	return lines
}

// tableCommands returns the command lines in the cells of a table that name an archive.
func tableCommands(text string) (lines []string) {
	for _, m := range regexp.MustCompile("`([^`]*lockbox [^`]*\\.lbx[^`]*)`").FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.ReplaceAll(m[1], `\|`, "|"))
	}
	return lines
}

func hasTool(path, name string) bool {
	for _, dir := range filepath.SplitList(path) {
		if fi, err := os.Stat(filepath.Join(dir, name)); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}
