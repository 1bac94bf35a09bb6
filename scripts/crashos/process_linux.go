package main

func processPart(r *run, fx *fixture, p *part) {}
