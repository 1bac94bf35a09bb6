package hostfs

import (
	"os/user"
	"strconv"
	"sync"
)

// ownerNames knows the names of users and groups. Each number is looked up once: the system's answer may take a
// reading of the whole list.
type ownerNames struct {
	mu            sync.RWMutex
	users, groups map[uint64]string
}

// fill adds the names to the numbers of m, as far as the system knows them.
func (o *ownerNames) fill(m *Meta) {
	if !m.HasOwner {
		return
	}
	o.mu.RLock()
	u, known := o.users[m.UID]
	g, both := o.groups[m.GID]
	o.mu.RUnlock()
	if !known || !both {
		u, g = o.lookUp(m.UID, m.GID)
	}
	m.User, m.Group = u, g
}

func (o *ownerNames) lookUp(uid, gid uint64) (u, g string) {
	if found, err := user.LookupId(strconv.FormatUint(uid, 10)); err == nil {
		u = found.Username
	}
	if found, err := user.LookupGroupId(strconv.FormatUint(gid, 10)); err == nil {
		g = found.Name
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users == nil {
		o.users, o.groups = make(map[uint64]string), make(map[uint64]string)
	}
	o.users[uid], o.groups[gid] = u, g
	return u, g
}

// ownerIDs knows the numbers that users and groups have here.
type ownerIDs struct {
	mu            sync.Mutex
	users, groups map[string]int // -1 for a name that nobody has here
}

// of returns the numbers that the owners of m have here: those of their names, else the stored ones. ok is false
// when a number is more than the system can have.
func (o *ownerIDs) of(m *Meta) (uid, gid int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users == nil {
		o.users, o.groups = make(map[string]int), make(map[string]int)
	}
	uid = number(o.users, m.User, func(name string) (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	})
	gid = number(o.groups, m.Group, func(name string) (string, error) {
		g, err := user.LookupGroup(name)
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	})
	// The highest number means "leave it as it is" to the system.
	const most = 1<<32 - 2
	if uid < 0 {
		if m.UID > most {
			return 0, 0, false
		}
		uid = int(m.UID)
	}
	if gid < 0 {
		if m.GID > most {
			return 0, 0, false
		}
		gid = int(m.GID)
	}
	return uid, gid, true
}

func number(known map[string]int, name string, lookUp func(string) (string, error)) int {
	if name == "" {
		return -1
	}
	if n, ok := known[name]; ok {
		return n
	}
	n := -1
	if id, err := lookUp(name); err == nil {
		if v, err := strconv.ParseUint(id, 10, 32); err == nil && v < 1<<32-1 {
			n = int(v)
		}
	}
	known[name] = n
	return n
}
