package main

func fullPart(r *run, fx *fixture, p *part)    {}
func powerPart(r *run, fx *fixture, p *part)   {}
func processPart(r *run, fx *fixture, p *part) {}

const noMountsEnv = "CRASHOS_NO_MOUNTS"
