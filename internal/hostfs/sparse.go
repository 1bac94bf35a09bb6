package hostfs

// maxRuns bounds the holes of one file that are kept in memory. Where there are more, the smallest are read.
const maxRuns = 1 << 20

// holes finds where an open file has none of its bytes on the disk. Nothing is read for that, and a file that
// takes as much space as its size says is not asked.
func (e *env) holes(f *hfile, m *Meta) ([]Run, error) {
	if e.noHoles || m.Size == 0 || m.blocks >= (m.Size+511)/512 {
		return nil, nil
	}
	runs, err := mapHoles(m.Size, f.seekData, f.seekHole, maxRuns)
	if err == nil && runs != nil && e.fitSparse != nil {
		runs = e.fitSparse(runs)
	}
	return runs, err
}

// mapHoles makes the map of a file from what the system says: the first byte of data and that of a hole from a
// position on, size when there is none. It returns nil for a file without holes, and when the answers make no
// sense, as those of a file that changes may not.
func mapHoles(size int64, seekData, seekHole func(int64) (int64, error), most int) ([]Run, error) {
	var runs []Run
	var least int64 // holes below this are read
	data, err := seekData(0)
	if err != nil {
		return nil, err
	}
	if data = min(data, size); data > 0 {
		runs = append(runs, Run{0, data})
	}
	for data < size {
		hole, err := seekHole(data)
		if err != nil {
			return nil, err
		}
		hole = min(hole, size)
		next := size
		if hole > data && hole < size {
			if next, err = seekData(hole); err != nil {
				return nil, err
			}
			next = min(next, size)
		}
		if hole <= data || next < hole || next == hole && hole < size {
			return nil, nil
		}
		if n := len(runs); n > 0 && runs[n-1].Hole == 0 { // what mergeHoles has left
			runs[n-1] = Run{runs[n-1].Data + hole - data, next - hole}
		} else {
			runs = append(runs, Run{hole - data, next - hole})
		}
		data = next
		for len(runs) >= most {
			least = max(2*least, 4096)
			runs = mergeHoles(runs, least)
		}
	}
	if len(runs) == 0 || len(runs) == 1 && runs[0].Hole == 0 {
		return nil, nil
	}
	return runs, nil
}

// mergeHoles makes data of the holes that are smaller than least.
func mergeHoles(runs []Run, least int64) []Run {
	kept := runs[:0]
	var data int64
	for _, r := range runs {
		data += r.Data
		if r.Hole < least {
			data += r.Hole
			continue
		}
		kept = append(kept, Run{data, r.Hole})
		data = 0
	}
	if data > 0 {
		kept = append(kept, Run{data, 0})
	}
	return kept
}
