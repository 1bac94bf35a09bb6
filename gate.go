package lockbox

import (
	"io/fs"
	"math"
	"sync/atomic"
)

// gate lets Close wait for what is under way, and refuses what comes later. Counting instead of locking means that
// who is inside may enter again while somebody waits to close.
type gate struct {
	n    atomic.Int64 // who is inside; math.MinInt64 is added by shut
	idle chan struct{}
}

func (g *gate) enter() error {
	if g.n.Add(1) > 0 {
		return nil
	}
	g.leave()
	return fs.ErrClosed
}

func (g *gate) leave() {
	if g.n.Add(-1) == math.MinInt64 {
		select {
		case g.idle <- struct{}{}:
		default:
		}
	}
}

// shut refuses everybody from now on and waits for those inside. It is called once.
func (g *gate) shut() {
	if g.n.Add(math.MinInt64) != math.MinInt64 {
		<-g.idle
	}
}
