package format

// Version is the format version that this program reads and writes.
const Version = 1

// Where things stand in the file. The four superblock copies and the clean mark have a 4 KiB page
// each, so that a torn page harms one of them; extents start after them.
const (
	PageSize       = 4096
	CopiesSize     = 4 * PageSize   // what opening reads
	CleanMarkOff   = 4 * PageSize   // the page of the clean mark
	DataStart      = 5 * PageSize   // first byte that an extent can have
	MaxLogicalEnd  = int64(1) << 56 // 64 PiB; keeps every offset sum inside an int64
	MaxCommitBlock = 4 << 20        // stored bytes of a commit block
	MaxKeyDir      = 1 << 20        // stored bytes of the key directory
	MaxNode        = 256 << 10      // stored bytes of a tree node
	MaxHeight      = 12             // levels of a tree
	MaxKey         = MaxPath        // bytes of a tree key
	MaxValue       = 96 << 10       // bytes of a tree value
	MaxPath        = 16 << 10       // bytes of a stored path
	MaxComponent   = 1024           // bytes of one path component
	MaxTarget      = 16 << 10       // bytes of a link target
	MaxFramePlain  = 8 << 20        // plain bytes of a frame
	MaxFrameStored = MaxFramePlain  // a frame never expands: what does not compress is stored raw
	MaxMembers     = 4096           // contents in one pack
	MaxRuns        = 1024           // runs of one content
	MaxTag         = 48             // bytes of the widest tag
	MaxSetExtents  = 32 << 10       // extents in a stage or retire set
	MaxFileSize    = int64(1) << 60 // bytes of one content
)

// AlignUp rounds n up to a multiple of the sector size, which is a power of two.
func AlignUp(n, sector int64) int64 { return (n + sector - 1) &^ (sector - 1) }

// SectorOK reports whether n is a sector size that an archive may have.
func SectorOK(n int64) bool { return n == 512 || n == 4096 }
