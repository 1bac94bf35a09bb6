package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// page is one page of the manual.
type page struct {
	name    string
	section int
	body    string // without the line with the title
}

// pageName is what the page of a command is called.
func pageName(path ...string) string { return strings.Join(append([]string{"lockbox"}, path...), "-") }

func (p *page) title() string { return strings.ToUpper(roff(p.name)) }

func sortFiles(files []file) {
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// manual makes pages of what help prints: of the program, of each command and the commands below it, and of each topic.
func manual(help func(args ...string) (string, error)) ([]page, error) {
	top, err := help()
	if err != nil {
		return nil, err
	}
	var pages []page
	var add func(path []string, short string) error
	add = func(path []string, short string) error {
		text, err := help(path...)
		if err != nil {
			return err
		}
		s := sections(text)
		pages = append(pages, page{pageName(path...), 1, command(path, short, s)})
		for _, c := range listed(s["Commands"]) {
			if err := add(append(slices.Clone(path), c[0]), c[1]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(nil, "keep files in an archive that is always consistent"); err != nil {
		return nil, err
	}
	_, after, ok := strings.Cut(top, `"lockbox help TOPIC" about`)
	topics := listed(after)
	if !ok || len(topics) == 0 || len(pages) == 1 {
		return nil, errors.New("lockbox help does not list its commands and topics as expected")
	}
	for _, t := range topics {
		text, err := help(t[0])
		if err != nil {
			return nil, err
		}
		name := pageName(t[0])
		pages = append(pages, page{name, 7, heading(name, t[1]) + ".SH DESCRIPTION\n" + prose(text)})
	}
	return pages, nil
}

// headings of what help prints, in the order of a page of the manual.
var headings = []string{"Usage", "Commands", "Flags", "Flags of every command", "Examples"}

// sections splits help at its headings; what stands before the first has the name "".
func sections(text string) map[string]string {
	s := make(map[string]string)
	name := ""
	for line := range strings.Lines(text) {
		if h, ok := strings.CutSuffix(strings.TrimSpace(line), ":"); ok && slices.Contains(headings, h) && !strings.HasPrefix(line, " ") {
			name = h
			continue
		}
		if strings.HasPrefix(line, `"lockbox help`) {
			break
		}
		s[name] += line
	}
	return s
}

// listed are the names, and what they are for, of a list that help prints.
func listed(text string) (list [][2]string) {
	for line := range strings.Lines(text) {
		if name, short, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && strings.HasPrefix(line, "  ") {
			list = append(list, [2]string{name, strings.TrimSpace(short)})
		}
	}
	return list
}

func heading(name, short string) string {
	return fmt.Sprintf(".SH NAME\n%s \\- %s\n", roff(name), roff(short))
}

// command is the page of a command.
func command(path []string, short string, s map[string]string) string {
	var b strings.Builder
	b.WriteString(heading(pageName(path...), short))
	b.WriteString(".SH SYNOPSIS\n" + literal(s["Usage"]))
	b.WriteString(".SH DESCRIPTION\n" + prose(s[""]))
	if list := listed(s["Commands"]); len(list) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range list {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR(1)\n%s\n", roff(pageName(append(slices.Clone(path), c[0])...)), roff(c[1]))
		}
	}
	if flags := s["Flags"]; flags != "" {
		b.WriteString(".SH OPTIONS\n" + options(flags))
	}
	if flags := s["Flags of every command"]; flags != "" {
		b.WriteString(".SH OPTIONS OF EVERY COMMAND\n" + options(flags))
	}
	if s["Examples"] != "" {
		b.WriteString(".SH EXAMPLES\n" + literal(s["Examples"]))
	}
	b.WriteString(".SH SEE ALSO\n\\fBlockbox\\fR(1), \\fBlockbox\\-exit\\-codes\\fR(7)\n")
	return b.String()
}

var option = regexp.MustCompile(`^ {2,6}(-\S.*?)(?: {3,}(.*))?$`)

// options turns the list of flags into paragraphs that hang.
func options(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := option.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n", roff(m[1]))
			line = m[2]
		}
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(start(roff(line)) + "\n")
		}
	}
	return b.String()
}

// prose turns text into paragraphs; what is laid out with blanks stays so.
func prose(text string) string {
	var b strings.Builder
	for p := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") || strings.Contains(p, "   ") {
			b.WriteString(".PP\n" + literal(p))
			continue
		}
		b.WriteString(".PP\n")
		for line := range strings.Lines(p) {
			b.WriteString(start(roff(strings.TrimSpace(line))) + "\n")
		}
	}
	return b.String()
}

// literal shows text as it is.
func literal(text string) string {
	var b strings.Builder
	b.WriteString(".nf\n")
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		b.WriteString(start(roff(strings.TrimRight(line, "\n"))) + "\n")
	}
	return b.String() + ".fi\n"
}

// roff escapes what has a meaning to roff within a line.
func roff(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`, "'", `\(aq`).Replace(s)
}

// start keeps a line from beginning like a request.
func start(s string) string {
	if strings.HasPrefix(s, ".") {
		return `\&` + s
	}
	return s
}
