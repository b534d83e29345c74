# Starfish. `make run` is the tour, `make test` everything; both install what
# they need. `make help` lists the rest.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build
.PHONY: help build c run test bench bench-peers map generate check fuzz deps clean

GO        ?= go
RACE      ?= -race
TIMEOUT   ?= 25m
FUZZTIME  ?= 10s
BENCH     ?= .
COUNT     ?= 30x
VERSION   ?= $(or $(shell git describe --tags --always --dirty 2>/dev/null),dev)
GOFLAGS   ?= -buildvcs=false
export PATH := $(PATH):/usr/local/go/bin
export GO GOFLAGS

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/{rpcgen,portmap,master,slave,starfish}
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/...

run: ## the tour: a cluster, its queries, a C client, a killed slave
	@scripts/deps.sh run
	@$(MAKE) --no-print-directory build
	@if scripts/deps.sh have-c; then $(MAKE) --no-print-directory c; fi
	@scripts/tour.sh

test: ## every test, the C peers' included
	@scripts/deps.sh test
	@$(MAKE) --no-print-directory build
	@if scripts/deps.sh have-c; then $(MAKE) --no-print-directory c; fi
	$(GO) test $(RACE) -timeout $(TIMEOUT) ./...

bench: ## the benchmarks (BENCH=pattern)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout $(TIMEOUT) ./...

bench-peers: ## the mixed table beside redis-server, each answer compared (COUNT=30x)
	@scripts/deps.sh bench
	$(GO) test -run '^$$' -bench . -benchtime $(COUNT) -timeout $(TIMEOUT) ./tests/peers

map: ## the packages: their size, their imports, their floors
	scripts/map.sh

generate: ## write the generated files again
	scripts/generate.sh .

check: ## format, vet, staticcheck, build without cgo, generated files
	scripts/check.sh

fuzz: ## each fuzz target for FUZZTIME
	scripts/fuzz.sh $(FUZZTIME)

deps: ## install what tests need
	@scripts/deps.sh test

clean: ## remove what make built
	rm -rf bin

# The C programs. Each kind of stubs is made by C rpcgen in a directory of its
# own, from structs.x alone.
STUBS   := bin/c/stubs
CC      := gcc
CFLAGS  := -O2 -g -Wall -Wextra
TIRPC_C  = $(shell pkg-config --cflags libtirpc)
TIRPC_L  = $(shell pkg-config --libs libtirpc)
ROARING := $(if $(wildcard /usr/include/roaring/roaring.h),bin/c/croaring_check)

c: bin/c/client bin/c/slave_client bin/c/clientn bin/c/index bin/c/handler $(ROARING) ## the C programs, in bin/c

$(STUBS)/c/structs.h: FLAGS := -C
$(STUBS)/n/structs.h: FLAGS := -N -C
$(STUBS)/m/structs.h: FLAGS := -M -C
$(STUBS)/handler/structs.h: FLAGS := -C -DHANDLER_ONLY

# rpcgen does not overwrite, and writes the name it is given into the files.
$(STUBS)/%/structs.h: structs.x
	@mkdir -p $(@D) && rm -f $(@D)/* && cp structs.x $(@D)/
	@echo "rpcgen $(FLAGS) structs.x"
	@cd $(@D) && rpcgen $(FLAGS) -c -o structs_xdr.c structs.x && rpcgen $(FLAGS) -l -o structs_clnt.c structs.x \
		&& rpcgen $(FLAGS) -m -o structs_svc.c structs.x && rpcgen $(FLAGS) -h -o structs.h structs.x

bin/c/client bin/c/slave_client: KIND := c
bin/c/clientn: KIND := n
bin/c/handler: KIND := handler
bin/c/client bin/c/slave_client: $(STUBS)/c/structs.h
bin/c/clientn: $(STUBS)/n/structs.h
bin/c/handler: $(STUBS)/handler/structs.h

bin/c/handler: cgo/examples/dial.c cgo/examples/dial.h

# Only what is written by hand is held to -Wall -Wextra.
bin/c/client bin/c/slave_client bin/c/clientn bin/c/handler: bin/c/%: cgo/examples/%.c
	@echo "$(CC) $@"
	@$(CC) $(CFLAGS) $(TIRPC_C) -I$(STUBS)/$(KIND) -c -o $@.o $<
	@$(CC) -O2 -g -w $(TIRPC_C) -o $@ $@.o $(STUBS)/$(KIND)/structs_xdr.c $(STUBS)/$(KIND)/structs_clnt.c \
		$(if $(filter handler,$(KIND)),$(STUBS)/handler/structs_svc.c cgo/examples/dial.c) $(TIRPC_L)
	@rm -f $@.o

# index is of several files, and of the stubs that threads can use.
INDEX := $(addprefix cgo/examples/,index/index.c index/session.c index/bitmap.c dial.c)
bin/c/index: $(STUBS)/m/structs.h $(INDEX) $(wildcard cgo/examples/*.h cgo/examples/index/*.h)
	@echo "$(CC) $@"
	@for f in $(INDEX); do $(CC) $(CFLAGS) $(TIRPC_C) -I$(STUBS)/m -Icgo/examples -c -o $(STUBS)/m/$$(basename $$f .c).o $$f || exit 1; done
	@$(CC) -O2 -g -w $(TIRPC_C) -o $@ $(patsubst %.c,$(STUBS)/m/%.o,$(notdir $(INDEX))) \
		$(STUBS)/m/structs_xdr.c $(STUBS)/m/structs_clnt.c $(TIRPC_L) -lpthread

bin/c/croaring_check: cgo/roaring/croaring_check.c
	@mkdir -p $(@D)
	@echo "$(CC) $@"
	@$(CC) $(CFLAGS) -o $@ $< -lroaring
