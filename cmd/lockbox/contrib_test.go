//go:build linux || darwin

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// asShell has a shell run a command line, with the program in its path.
func asShell(t *testing.T, dir, line string, env ...string) (code int, output string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + toolPath(t, dir)}, env...)
	out, err := cmd.CombinedOutput()
	return exitStatus(t, err), string(out)
}

// nightly makes a directory with two archives and one for the state.
func nightly(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, filepath.Join(dir, "tree", "letter"), noise(50_000, "letter"))
	for _, name := range []string{"archives/a.lbx", "archives/b c.lbx"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		mustRun(t, dir, "add", name, "tree", "--compression", "none")
	}
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// damage flips a bit of the file that nightly has stored.
func damage(t *testing.T, archive string) {
	t.Helper()
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(b), string(noise(50_000, "letter")[20_000:20_032]))
	if i < 0 {
		t.Fatal("the file is not stored as it is")
	}
	b[i] ^= 1
	write(t, archive, b)
}

// The line for cron says nothing while all is well, and names what is damaged.
func TestCronLine(t *testing.T) {
	text, err := os.ReadFile("../../contrib/cron/lockbox-verify")
	if err != nil {
		t.Fatal(err)
	}
	lines := cronCommands(t, string(text), "lockbox ")
	if len(lines) != 1 {
		t.Fatalf("%d lines for cron", len(lines))
	}
	dir := nightly(t)
	env := []string{"ARCHIVES=" + filepath.Join(dir, "archives"), "STATE=" + filepath.Join(dir, "state")}
	for range 2 {
		if code, out := asShell(t, dir, lines[0], env...); code != 0 || out != "" {
			t.Fatalf("exit %d: %s", code, out)
		}
	}
	for _, name := range []string{"verify.state", "verify.json"} {
		if fi, err := os.Stat(filepath.Join(dir, "state", name)); err != nil || fi.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	damage(t, filepath.Join(dir, "archives", "b c.lbx"))
	if code, out := asShell(t, dir, lines[0], env...); code != 15 || !strings.Contains(out, "tree/letter") || strings.Contains(out, "a.lbx") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// The service's command does what it should, and the units are units.
func TestSystemdUnits(t *testing.T) {
	const units = "../../contrib/systemd/lockbox-verify."
	text, err := os.ReadFile(units + "service")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/(lockbox .+)$`).FindStringSubmatch(string(text))
	if line == nil {
		t.Fatal("the service starts nothing")
	}
	dir := nightly(t)
	here := strings.NewReplacer("/srv/archives/main.lbx", "archives/a.lbx", "/var/lib/lockbox", "state", "/var/lib/prometheus/node-exporter", "state").Replace(line[1])
	if code, out := asShell(t, dir, here); code != 0 || out != "" {
		t.Errorf("exit %d: %s", code, out)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "state", "lockbox.prom")); err != nil || !strings.Contains(string(b), `lockbox_verify_exit_code{archive="archives/a.lbx"} 0`) {
		t.Errorf("%s, %v", b, err)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze, which checks units, is not there")
	}
	write(t, filepath.Join(dir, "lockbox-verify.service"), []byte(strings.ReplaceAll(string(text), "/usr/local/bin/lockbox", "/bin/true")))
	timer, err := os.ReadFile(units + "timer")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "lockbox-verify.timer"), timer)
	cmd := exec.Command(analyze, "verify", "--man=no", filepath.Join(dir, "lockbox-verify.service"), filepath.Join(dir, "lockbox-verify.timer"))
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "lockbox-verify") {
		t.Errorf("%v: %s", err, out)
	}
}

// Alerts and documentation name the metrics that there are.
func TestMetricNames(t *testing.T) {
	known := map[string]bool{}
	for _, m := range metrics {
		known[metricPrefix+m.name] = false
	}
	for _, name := range []string{"../../contrib/prometheus/lockbox.rules.yml", "../../docs/verify.md"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(metricPrefix+`[a-z_]+`).FindAllString(string(b), -1) {
			if _, ok := known[m]; !ok {
				t.Errorf("%s: there is no metric %s", name, m)
			}
			known[m] = true
		}
	}
	for m, documented := range known {
		if !documented {
			t.Errorf("docs/verify.md does not name %s", m)
		}
	}
}
