package store

// mutant is a barrier of the protocol that a test can take away. In ordinary builds none ever is, and the
// compiler removes the questions.
type mutant uint8

const (
	noMutant mutant = iota
	noSync1
	noSync2
	noMirror
	noSync3
	noSyncAfterWipe
	wipeBeforePublish
	noRecoverySync
	reuseRetiredAtOnce
	noRewriteInRecovery
	fallbackToOlderRoot
	truncateFirst
	singleSlotInPlace
	noPoison
	retrySync
	wipeUnmirrored
	markBeforeSync3
	wipeSkippedWhenZero
	stageReusedUnmirrored
	readerIgnoresPublishLock
	noSyncBeforeName
	noMarkClear
	noReaderCheck
	noChangeCheck
	noScrub
	noRecoveryWipe
	oneSyncInRecovery
	goodCopyFirstInRecovery
	noWipeBeforeTruncate
	noSyncBeforeTruncate
	noSyncAfterTruncate
	sizeNotChecked
	noNameSyncInRecovery
	noReaderSync
	mutants // how many
)

// syncUnless syncs the file, unless a test has taken this barrier away.
func (a *Archive) syncUnless(m mutant) error {
	if skip(m) {
		return nil
	}
	return a.syncFile()
}
