# The front door. Meson builds (meson.build); this file only knows which command does what.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 600
ARGS ?=
# Debian's, for its python3-redis; another may stand before it in PATH.
PYTHON ?= /usr/bin/python3

.PHONY: all run test soak mutants machines bench algorithms scenarios labs demo-lock playground pictures measure-sharing fuzz lint format install deb site clean help

all: $(BUILD)/build.ninja ## build everything; the program is build/weir
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD) --prefix $(PREFIX)

run: all ## build and serve; more arguments in ARGS
	$(BUILD)/weir serve $(ARGS)

test: ## everything that scripts/test does, without setting the machine up
	$(PYTHON) tests/run.py --build $(BUILD)

soak: all ## the full counts of the long suites (scripts/test runs a short slice); writes docs/soak.md
	$(PYTHON) tests/run.py --build $(BUILD) --soak
	$(PYTHON) tests/sim/soak.py --build $(BUILD) --write docs/soak.md $(ARGS)

mutants: all ## plant mistakes and see what the tests find; ARGS="--seed 7 --write docs/mutants.md" draws others
	$(PYTHON) tests/mutants/run.py --build $(BUILD) $(ARGS)

machines: ## build and test for other machines: clang, arm64, big-endian, musl
	scripts/bootstrap machines
	$(PYTHON) tests/machines/test_machines.py

bench: ## measure against floors and peers; ARGS="--write docs/performance.md" keeps the table
	scripts/bootstrap bench
	$(MAKE) --no-print-directory all
	python3 bench/run.py --build $(BUILD) $(ARGS)
	python3 bench/locks.py --build $(BUILD)
	$(PYTHON) bench/reads.py --build $(BUILD)
	$(PYTHON) bench/reads_load.py --build $(BUILD)
	$(BUILD)/bench/bench_sessions

algorithms: all ## measure the five algorithms and write docs/algorithms.md with its pictures
	python3 bench/algorithms.py --build $(BUILD) $(ARGS)

scenarios: all ## play the scenarios of the simulator and write docs/scenarios.md with its pictures
	scripts/scenarios --build $(BUILD)

labs: all ## answer the questions of weir lab and write docs/labs.md
	scripts/labs --build $(BUILD) $(ARGS)

demo-lock: all ## the story of the paused client, with real processes and stores
	$(PYTHON) scripts/demo-lock --build $(BUILD) $(ARGS)

playground: all ## /play and /learn as files: a folder for any web server, and one file each for a disk
	python3 play/bundle.py --wasm $(BUILD)/play/play.wasm --folder $(BUILD)/playground

pictures: all ## docs/img/*.png: what the pages look like, with some traffic
	$(PYTHON) scripts/pictures --build $(BUILD) $(ARGS)

measure-sharing: all ## three nodes behind nginx: write the measured tables of docs/sharing.md
	scripts/measure-sharing --build $(BUILD)

fuzz: ## each fuzz target for FUZZ_SECONDS
	$(PYTHON) tests/run.py --build $(BUILD) --only fuzz --fuzz-seconds $(FUZZ_SECONDS)

lint: all ## floors, sizes, headers, formatting, clang-tidy
	WEIR_TEST_EFFORT=soak $(PYTHON) tests/run.py --build $(BUILD) --only lint

format: ## clang-format over all C files
	git ls-files '*.c' '*.h' | xargs clang-format-14 -i

install: all ## into PREFIX, below DESTDIR if set
	meson configure $(BUILD) -Dprefix=$(PREFIX)
	DESTDIR=$(DESTDIR) meson install -C $(BUILD)

deb: ## Debian packages, into build-deb/packages: weir, libweir0, libweir-session0, libweir-dev
	scripts/deb --build $(BUILD)-deb --out $(BUILD)-deb/packages $(ARGS)

site: ## the pages of docs/ as a site, into build/site: static, searchable, nothing from elsewhere
	scripts/bootstrap site
	scripts/site/build $(BUILD)/site-tools $(BUILD)/site

clean:
	rm -rf $(BUILD) $(BUILD)-*

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 18
