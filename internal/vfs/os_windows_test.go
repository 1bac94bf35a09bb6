package vfs

// osVariants: the system has one way of doing things.
var osVariants map[string]FS
