package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"lockbox/internal/store"
)

// meter collects what the archives that a command opened have done.
type meter struct {
	mu     sync.Mutex
	open   map[*store.Archive]bool
	stages []store.Stage
	total  store.Counters
	used   bool
}

// watch makes sure that an archive counts even when the command ends without closing it.
func (m *meter) watch(ar *store.Archive) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		m.open = make(map[*store.Archive]bool)
	}
	m.open[ar] = true
}

// take adds what an archive has done. It is called once its work is over.
func (m *meter) take(ar *store.Archive) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.open[ar] {
		return
	}
	delete(m.open, ar)
	for i, s := range ar.Stages() {
		if i == len(m.stages) {
			m.stages = append(m.stages, store.Stage{Name: s.Name})
		}
		m.stages[i].Time += s.Time
	}
	m.count(ar.Counters())
}

// add adds what was done to archives without the engine.
func (m *meter) add(c store.Counters) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(c)
}

func (m *meter) count(c store.Counters) {
	m.used = true
	m.total = addCounters(m.total, c)
}

func addCounters(a, b store.Counters) store.Counters {
	pa, pb := counterFields(&a), counterFields(&b)
	for i := range pa {
		*pa[i].n += *pb[i].n
	}
	return a
}

type counterField struct {
	name string
	n    *uint64
}

// counterFields lists the counters in the order in which they are printed.
func counterFields(c *store.Counters) []counterField {
	return []counterField{
		{"reads", &c.Reads}, {"bytes read", &c.BytesRead},
		{"nodes decoded", &c.NodesDecoded}, {"frames decoded", &c.FramesDecoded}, {"blocks verified", &c.BlocksVerified},
		{"bytes copied", &c.BytesCopied}, {"cache hits", &c.CacheHits}, {"cache misses", &c.CacheMisses},
		{"writes", &c.Writes}, {"bytes written", &c.BytesWritten}, {"bytes wiped", &c.BytesWiped},
		{"frames written", &c.FramesWritten}, {"nodes written", &c.NodesWritten}, {"syncs", &c.Syncs},
	}
}

// print writes the timings. Stage times are added up over all workers and may exceed the whole. cpu, the processor
// time of the whole, says how many cores were at work.
func (m *meter) print(say *voice, whole, cpu time.Duration) {
	for len(m.open) > 0 {
		for ar := range m.open {
			m.take(ar)
			break
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "lockbox: timing: %-16s %12.3f ms\n", "whole", float64(whole)/1e6)
	fmt.Fprintf(&b, "lockbox: timing: %-16s %12.2f\n", "effective cores", float64(cpu)/float64(max(whole, 1)))
	if m.used {
		for _, s := range m.stages {
			if s.Time != 0 {
				fmt.Fprintf(&b, "lockbox: timing: %-16s %12.3f ms\n", s.Name, float64(s.Time)/1e6)
			}
		}
		for _, f := range counterFields(&m.total) {
			fmt.Fprintf(&b, "lockbox: counter: %-15s %12d\n", f.name, *f.n)
		}
	}
	say.raw(b.String())
}
