//go:build mutants

package store

import (
	"lockbox/internal/format"
	"lockbox/internal/journal"
)

// active is the barrier that is left out. It is set while nothing else runs.
var active mutant

var mutantNames = [mutants]string{
	noSync1: "NoSync1", noSync2: "NoSync2", noMirror: "NoMirror", noSync3: "NoSync3",
	noSyncAfterWipe: "NoSyncAfterWipe", wipeBeforePublish: "WipeBeforePublish",
	noRecoverySync: "NoRecoverySync", reuseRetiredAtOnce: "ReuseRetiredAtOnce",
	noRewriteInRecovery: "NoRewriteInRecovery", fallbackToOlderRoot: "FallbackToOlderRoot",
	truncateFirst: "TruncateFirst", singleSlotInPlace: "SingleSlotInPlace", noPoison: "NoPoison",
	retrySync: "RetrySync", wipeUnmirrored: "WipeUnmirrored", markBeforeSync3: "MarkBeforeSync3",
	wipeSkippedWhenZero: "WipeSkippedWhenZero", stageReusedUnmirrored: "StageReusedUnmirrored",
	readerIgnoresPublishLock: "ReaderIgnoresPublishLock", noSyncBeforeName: "NoSyncBeforeName",
	noMarkClear: "NoMarkClear", noReaderCheck: "NoReaderCheck", noChangeCheck: "NoChangeCheck",
	noScrub: "NoScrub", noRecoveryWipe: "NoRecoveryWipe", oneSyncInRecovery: "OneSyncInRecovery",
	goodCopyFirstInRecovery: "GoodCopyFirstInRecovery", noWipeBeforeTruncate: "NoWipeBeforeTruncate",
	noSyncBeforeTruncate: "NoSyncBeforeTruncate", noSyncAfterTruncate: "NoSyncAfterTruncate",
	sizeNotChecked: "SizeNotChecked", noNameSyncInRecovery: "NoNameSyncInRecovery",
	noReaderSync: "NoReaderSync",
}

// MutantNames lists the barriers that SetMutant can leave out.
func MutantNames() []string { return mutantNames[1:] }

// SetMutant leaves the named barrier out; "" leaves out none.
func SetMutant(name string) {
	for m, n := range mutantNames {
		if n == name {
			active = mutant(m)
		}
	}
}

func skip(m mutant) bool { return m == active }

// readsZero is what wipeSkippedWhenZero asks before it believes that nothing needs to be wiped.
func (a *Archive) readsZero(off, n int64) bool {
	if !skip(wipeSkippedWhenZero) {
		return false
	}
	b := make([]byte, n)
	_, _ = a.f.ReadAt(b, off)
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// olderView takes the newest superblock but one when the newest names a damaged root.
func (a *Archive) olderView(err error) (*view, error) {
	b := make([]byte, format.CopiesSize)
	_, _ = a.f.ReadAt(b, 0)
	for i := range 4 {
		page := b[i*format.PageSize:][:format.PageSize]
		alone := make([]byte, format.CopiesSize)
		copy(alone[i*format.PageSize:], page)
		if c, e := journal.DecodeCopies(alone); e == nil && *c.Current == *a.copies.Current {
			clear(page)
		}
	}
	c, e := journal.DecodeCopies(b)
	if e != nil {
		return nil, err
	}
	a.copies = c
	return a.loadView(c.Current)
}
