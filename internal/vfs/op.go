package vfs

// OpKind says what is about to change a MemFS.
type OpKind uint8

const (
	OpWrite OpKind = iota
	OpTruncate
	OpSync
	OpCreate  // a Temp begins
	OpPublish // a Temp is about to get its name; an OpSyncDir follows
	OpRemove
	OpSyncDir
	OpLock // of a Sim only; Off is the first byte
	OpLink
	OpRename
)

func (k OpKind) String() string {
	return [...]string{"write", "truncate", "sync", "create", "publish", "remove", "sync directory", "lock", "link", "rename"}[k]
}

// Op is one operation that changes a MemFS. Name is the file's, of a Temp the final one. Off and Len are
// those of a write; Off is the size of a truncation.
type Op struct {
	Kind OpKind
	Name string
	Off  int64
	Len  int
}
