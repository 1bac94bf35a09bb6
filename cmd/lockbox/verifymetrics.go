package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"lockbox/internal/pathsafe"
	"lockbox/internal/vfs"
)

// metric is one figure of an archive in the file of --metrics.
type metric struct{ name, help string }

// metrics are all of them, in the order in which they are written. Times are in seconds since 1970, 0 for never.
var metrics = []metric{
	{"exit_code", "Exit code for the archive in the last run: 0 when all that was read was well."},
	{"damaged", "Damaged entries and structures that the last run found."},
	{"repairable", "Findings of the last run that cost redundancy only."},
	{"generation", "The archive's generation in the last run."},
	{"read_bytes", "Bytes of the archive's file that the last run has read."},
	{"duration_seconds", "How long the last run took for the archive."},
	{"pass_left_bytes", "Bytes that the pass under way has still to read."},
	{"last_run_timestamp_seconds", "When the last run ended."},
	{"last_success_timestamp_seconds", "When a run ended last with exit code 0 for the archive."},
	{"complete_pass_began_timestamp_seconds", "When the last reading of every byte began that has come to its end."},
	{"complete_pass_ended_timestamp_seconds", "When the last reading of every byte came to its end."},
}

const metricPrefix = "lockbox_verify_"

// figures are an archive's metrics by name, as they are written.
type figures map[string]string

// writeMetrics writes the file of --metrics. What this run did not find out is as the file had it before.
func (v *verifying) writeMetrics() error {
	if v.opt.metrics == "" {
		return nil
	}
	before, err := os.ReadFile(v.opt.metrics)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cannot read the metrics in %s: %w", quoted(v.opt.metrics), withoutPath(err))
	}
	known := parseMetrics(string(before))
	var labels []string
	now := map[string]figures{}
	for i, name := range v.opt.archives {
		label := metricLabel(name)
		if now[label] == nil {
			labels = append(labels, label)
			now[label] = known[label]
		}
		if now[label] == nil {
			now[label] = figures{}
		}
		if i < len(v.done) {
			v.done[i].figures(now[label])
		}
	}
	var b strings.Builder
	for _, m := range metrics {
		fmt.Fprintf(&b, "# HELP %s%s %s\n# TYPE %s%s gauge\n", metricPrefix, m.name, m.help, metricPrefix, m.name)
		for _, label := range labels {
			if value, ok := now[label][m.name]; ok {
				fmt.Fprintf(&b, "%s%s{archive=\"%s\"} %s\n", metricPrefix, m.name, label, value)
			}
		}
	}
	// Whoever collects them is another user.
	if err := vfs.ReplaceFile(v.opt.metrics, 0o666, []byte(b.String())); err != nil {
		return fmt.Errorf("cannot write the metrics to %s: %w", quoted(v.opt.metrics), withoutPath(err))
	}
	return nil
}

// figures puts down what a run came to. A time that is not known yet is 0, so that an alert need not ask whether it exists.
func (o *outcome) figures(f figures) {
	for _, name := range []string{"last_success_timestamp_seconds", "complete_pass_began_timestamp_seconds", "complete_pass_ended_timestamp_seconds"} {
		if _, ok := f[name]; !ok {
			f[name] = "0"
		}
	}
	ended := o.began.Add(o.took)
	f["exit_code"] = strconv.Itoa(int(o.code))
	f["last_run_timestamp_seconds"] = unixSeconds(ended)
	f["duration_seconds"] = strconv.FormatFloat(o.took.Seconds(), 'f', 3, 64)
	if o.code == exitOK {
		f["last_success_timestamp_seconds"] = unixSeconds(ended)
	}
	c := o.check
	if c == nil {
		return
	}
	sum := &c.sum
	f["damaged"], f["repairable"] = strconv.Itoa(sum.Damaged), strconv.Itoa(sum.Repairable)
	f["generation"] = strconv.FormatUint(sum.Generation, 10)
	f["read_bytes"] = strconv.FormatUint(sum.Work.BytesRead, 10)
	switch p := sum.Part; {
	case p != nil:
		f["pass_left_bytes"] = strconv.FormatUint(p.Left, 10)
		if last := p.State.Last; last.Pass > 0 {
			f["complete_pass_began_timestamp_seconds"] = unixSeconds(last.Began)
			f["complete_pass_ended_timestamp_seconds"] = unixSeconds(last.Ended)
		}
	case o.ended && c.opt.Full && c.opt.Only == nil && whole(sum):
		f["pass_left_bytes"] = "0"
		f["complete_pass_began_timestamp_seconds"] = unixSeconds(o.began)
		f["complete_pass_ended_timestamp_seconds"] = unixSeconds(ended)
	}
}

func unixSeconds(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.Unix(), 10)
}

// metricLabel is a name as the value of a label, escaped. Labels are UTF-8; in another name the bytes are shown.
func metricLabel(name string) string {
	if !utf8.ValidString(name) {
		name = pathsafe.Quote(name)
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name)
}

// parseMetrics reads what writeMetrics wrote, by label as it stands there. Lines of any other form are passed over.
func parseMetrics(text string) map[string]figures {
	known := map[string]figures{}
	for line := range strings.Lines(text) {
		line, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), metricPrefix)
		if !ok {
			continue
		}
		name, rest, _ := strings.Cut(line, `{archive="`)
		i := strings.LastIndex(rest, `"} `)
		if i < 0 || !isMetric(name) {
			continue
		}
		label, value := rest[:i], rest[i+3:]
		if strings.Trim(value, "0123456789.") != "" {
			continue
		}
		if known[label] == nil {
			known[label] = figures{}
		}
		known[label][name] = value
	}
	return known
}

func isMetric(name string) bool {
	for _, m := range metrics {
		if m.name == name {
			return true
		}
	}
	return false
}
