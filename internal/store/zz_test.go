package store_test
import ("testing")
func TestZZ(t *testing.T) {
	for k, c := range combos[:] {
		var all tally
		r := newRun(uint64(2+k), c, compacting(uint64(2+k)), brief, &all)
		if err := r.protect(func(){ r.crash() }); err != nil { t.Errorf("%d: %v", k, err) }
		if k%2 == 0 {
		r = newRun(uint64(2+k), c, compacting(uint64(2+k)), brief, &all)
		if err := r.protect(func(){ r.faults() }); err != nil { t.Errorf("%d: %v", k, err) }
		}
		t.Log(&all)
	}
}
