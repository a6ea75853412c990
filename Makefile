# The entry for everything; `make help` lists the targets. CI calls only these.

SHELL      := /bin/bash
GO         ?= go
BUILD      := build
BIN        := bin
VENV       := $(BUILD)/venv
TUNED      := $(BUILD)/tuned.mod
LINT       := $(BUILD)/tools/golangci-lint
LINT_VER   := v2.15.0
# Executions, not seconds: the fuzzing engine can report its own deadline as a failure.
FUZZTIME   ?= 20000x
# Other systems that must keep compiling: OS/architecture.
CROSS      := linux/arm64 darwin/arm64 freebsd/amd64
# Packages whose tests also run with each offload switched off.
OFFLOADS   := FELIX_UDP_GSO FELIX_UDP_GRO FELIX_UDP_SENDMMSG FELIX_UDP_RECVMMSG FELIX_UDP_ECN

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.PHONY: build
build: engine ## build bin/felixd and bin/felix with the tuned engine, and bin/felix-stock to compare with
	@mkdir -p $(BIN)
	$(GO) build -modfile=$(TUNED) -buildvcs=auto -trimpath -o $(BIN)/ ./cmd/felixd ./cmd/felix
	$(GO) build -buildvcs=auto -trimpath -o $(BIN)/felix-stock ./cmd/felix

.PHONY: engine
engine: ## make the tuned copy of quic-go under build/
	@$(GO) run ./internal/enginegen -out $(BUILD)

.PHONY: demo
demo: build ## the main job: a real broker process, the Go sources, three checked subscribers
	$(BIN)/felix demo

.PHONY: test
test: deps test-go interop ## all tests, bringing what they need

.PHONY: test-go
test-go: ## the Go tests with the race detector
	$(GO) test -race -timeout 9m ./...

.PHONY: test-tuned
test-tuned: engine ## the packages that carry packets, with the tuned engine
	$(GO) test -modfile=$(TUNED) -race -timeout 9m ./transport/... ./client/... ./internal/e2e/...

.PHONY: interop
interop: build $(VENV)/.ready ## the published Python client against felixd
	FELIXD=$(CURDIR)/$(BIN)/felixd $(VENV)/bin/pytest -q -p no:cacheprovider internal/interop

$(VENV)/.ready: internal/interop/requirements.txt | deps
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

.PHONY: deps
deps: ## install what tests need on Debian (C compiler for -race, Python, iproute2, ...)
	@.ci/deps

.PHONY: race
race: test-go ## the same as test-go

.PHONY: test-matrix
test-matrix: ## the socket and transport tests with each offload switched off
	@set -e; for v in $(OFFLOADS); do echo "== $$v=off"; \
	  env $$v=off $(GO) test -count=1 -timeout 9m ./udp/... ./transport/...; done

.PHONY: lint
lint: $(LINT) ## vet and golangci-lint
	$(GO) vet ./...
	$(LINT) run --allow-parallel-runners ./...

$(LINT):
	@mkdir -p $(dir $@)
	GOBIN=$(CURDIR)/$(dir $@) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VER)

.PHONY: cross
cross: ## vet and compile programs and tests for the other systems
	@set -e; for t in $(CROSS); do echo "== $$t"; \
	  export GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0; \
	  $(GO) vet ./...; \
	  $(GO) build -o /dev/null ./cmd/felixd; $(GO) build -o /dev/null ./cmd/felix; done

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each (default 20000x, or for example 30s)
	@set -e; for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p 2>/dev/null | grep ^Fuzz || true); do \
	    echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p; done; done

.PHONY: bench-core
bench-core: ## wire parsing and publish -> fan-out -> queue without sockets
	$(GO) test -run '^$$' -bench . -benchmem ./wire ./broker

.PHONY: bench-udp
bench-udp: ## the socket paths
	$(GO) test -run '^$$' -bench . -benchmem ./udp

.PHONY: generate
generate: ## rebuild every generated file (BPF objects, documents)
	@.ci/deps generate
	$(GO) generate ./...

.PHONY: generate-check
generate-check: generate ## fail when a generated file is not what the sources give
	@git diff --exit-code -- . || { echo "generated files differ: commit the result of make generate"; exit 1; }

.PHONY: tidy-check
tidy-check: ## fail when go.mod or go.sum are not tidy, or sources not formatted
	$(GO) mod tidy -diff
	@test -z "$$(gofmt -l $$(git ls-files '*.go') | tee /dev/stderr)" || { echo "run gofmt -w on these"; exit 1; }

.PHONY: check
check: tidy-check lint cross generate-check ## everything that runs no test

.PHONY: clean
clean: ## remove what the targets above made
	rm -rf $(BIN) $(BUILD)
