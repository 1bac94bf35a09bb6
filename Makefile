# Everything here needs Go, git, make and a POSIX shell, and nothing else unless a target says so.

GO      ?= go
T       ?= 30s
RUN     ?= .
BENCH   ?=
CRASHOS ?=
VULNDB  ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
EXE     := $(shell $(GO) env GOEXE)
BIN     := bin/lockbox$(EXE)
SYSTEMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# One static binary: no target but race uses cgo.
export CGO_ENABLED = 0

# Tests compare modes, and messages to the letter: they run with the usual umask, and without what their user has set for the program.
GOTEST = umask 022; unset LOCKBOX_PASSPHRASE LOCKBOX_PASSPHRASE_FILE LOCKBOX_TIMINGS SOURCE_DATE_EPOCH; $(GO) test

.DEFAULT_GOAL := help
.PHONY: help demo build dist dist-check test check fmt lint vuln systems tidy docs short race crash crash-os fuzz bench bench-peers clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: build ## build, archive the Go source tree, check everything, compare with ZIP
	@$(GO) run ./scripts/demo -lockbox $(BIN)

build: ## build bin/lockbox, a static binary
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN) ./cmd/lockbox

dist: ## build dist/: binaries, archives with manual and completions, checksums
	$(GO) run ./scripts/dist -o dist -version $(VERSION) -systems '$(SYSTEMS)'

dist-check: ## build all of dist twice, in two directories and without a cache, and compare; minutes
	$(GO) run ./scripts/dist -check -version $(VERSION) -systems '$(SYSTEMS)'

test: ## run all tests; RUN=pattern runs some
	$(GOTEST) -timeout 10m -run '$(RUN)' ./...

check: fmt systems lint vuln tidy docs short ## everything that must hold before a commit

fmt: ## gofmt has nothing to change
	@echo '== gofmt'
	@out=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; \
	if [ -n "$$out" ]; then echo "these files are not gofmt'ed:"; echo "$$out"; exit 1; fi

systems: ## vet and build for every supported system
	@for s in $(SYSTEMS); do \
		echo "== vet and build $$s"; \
		GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) vet ./... || exit 1; \
		GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) build -o /dev/null ./cmd/lockbox || exit 1; \
	done

lint: ## staticcheck, in the version that go.mod pins
	@echo '== staticcheck'
	@$(GO) tool staticcheck ./...

vuln: ## govulncheck, where its database can be reached; VULNDB=file:///path names a copy
	@echo '== govulncheck'
	@GO='$(GO)' VULNDB='$(VULNDB)' sh scripts/vuln.sh

tidy: ## go.mod and go.sum are what go mod tidy would write
	@echo '== go mod tidy'
	@$(GO) mod tidy -diff

docs: ## ARCHITECTURE.md's import table and FORMAT.md's tables agree with the code
	@echo '== import table, format tables'
	@$(GOTEST) -count=1 .

short: ## the tests that need a few seconds
	@echo '== go test -short'
	@$(GOTEST) -short ./...

race: ## the short tests under the race detector; needs a C compiler
	@cc=$$(CGO_ENABLED=1 $(GO) env CC); \
	if ! command -v $${cc%% *} >/dev/null 2>&1; then \
		echo "make race: skipped, the race detector needs a C compiler and '$$cc' was not found"; exit 0; \
	fi; \
	export CGO_ENABLED=1; $(GOTEST) -race -short -timeout 20m ./...

crash: ## the tests that interrupt commits, at full length
	@GO='$(GO)' sh scripts/crash.sh

crash-os: build ## kill, starve and unplug the binary on the real kernel; Linux, root for all of it; CRASHOS=flags
	$(GO) run ./scripts/crashos -lockbox $(BIN) $(CRASHOS)

fuzz: ## run every fuzz target for T (default 30s); RUN=pattern runs some
	@GO='$(GO)' T='$(T)' RUN='$(RUN)' sh scripts/fuzz.sh

bench: build ## measure against ZIP and other archivers into docs/benchmarks.md; BENCH=flags
	$(GO) run ./scripts/bench -lockbox $(BIN) $(BENCH)

bench-peers: build ## compare with other archivers as whole processes only; BENCH=flags
	@GO='$(GO)' LOCKBOX=$(BIN) sh scripts/bench-peers.sh $(BENCH)

clean: ## remove what was built
	rm -rf bin dist
