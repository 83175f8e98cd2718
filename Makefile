# Thin front of CMake, ctest, pytest and the hakmem command. `make help` lists the targets.

.DEFAULT_GOAL := build
.NOTPARALLEL:
.PHONY: help setup build run test pytest bench conformance fuzz portability deb release site lint clean install-for-test

# Builds besides the product whose unit tests `make test` runs; e.g. `make test CHECKED=debug`.
CHECKED ?= debug asan tsan hostile
JOBS ?= $(shell nproc)
# More tests at once than processors: many tests wait more than they compute.
TESTS_AT_ONCE ?= $(shell expr $(JOBS) + 2)
PYTEST_ARGS ?=
# Seconds for each fuzz target in each profile.
FUZZ_SECONDS ?= 60

# The stamp that tools/setup leaves when the Python environment is complete.
READY := .venv/.ready

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-12s%s\n", $$1, $$2}' Makefile

setup: ## install what is missing: Debian packages (as root) and the Python environment
	@tools/setup

build: ## build/libhakmem.so, build/libhakmem.a, the tests and the benchmarks
	@tools/setup build
	@$(MAKE) --no-print-directory build-release

run: ## a real program on hakmem, with proof, and a quick comparison
	@tools/setup build lab venv --or-without peers
	@cmake --log-level=WARNING --preset release >/dev/null
	@cmake --build --preset release --parallel $(JOBS) --target hakmem bench/all
	.venv/bin/hakmem demo

test: install-for-test build $(addprefix test-,release $(CHECKED)) pytest ## everything, sanitizers included

pytest: build $(READY) ## the tests of the laboratory, and real programs on hakmem
	@tools/setup --or-without browser packaging programs
	.venv/bin/pytest -c lab/pyproject.toml --rootdir . -n auto --dist worksteal $(PYTEST_ARGS) lab/tests tests/programs

bench: build $(READY) ## the benchmarks, not recorded; results in out/
	@mkdir -p out
	.venv/bin/hakmem compare --suite --no-record --page out/report.html

conformance: build $(READY) ## hakmem, the C library and the peers held to the same promises
	@tools/setup --or-without test
	.venv/bin/hakmem conformance --profile all

# New inputs go to out/fuzz/TARGET; an input that fails goes to out/fuzz/TARGET.PROFILE-*.
fuzz: ## the fuzz targets with libFuzzer, FUZZ_SECONDS each
	@tools/setup build fuzz
	@$(MAKE) --no-print-directory build-fuzz
	@for target in heap config; do for profile in balanced secure; do \
	    mkdir -p out/fuzz/$$target; \
	    echo "fuzz: $$target, profile $$profile, $(FUZZ_SECONDS) s"; \
	    HAKMEM_PROFILE=$$profile HAKMEM_PROF_PATH=out/fuzz/profile build/fuzz/tests/fuzz/fuzz_$$target -max_total_time=$(FUZZ_SECONDS) \
	        -timeout=60 -rss_limit_mb=4096 -max_len=4096 -len_control=0 -print_final_stats=1 -verbosity=0 \
	        -artifact_prefix=out/fuzz/$$target.$$profile- \
	        out/fuzz/$$target tests/fuzz/corpus/$$target || exit 1; \
	done; done

# A missing compiler's part is skipped, with a message.
portability: $(READY) ## the unit tests, and programs, for aarch64, for musl, by clang, and on other Debians
	@tools/setup build --or-without portability test
	@status=0; for pair in aarch64=aarch64-linux-gnu-g++ musl=musl-gcc clang=clang++; do \
	    if command -v $${pair#*=} >/dev/null; then \
	        $(MAKE) --no-print-directory test-$${pair%=*} || status=1; \
	    else \
	        echo "SKIPPED: $${pair%=*} is NOT tested: there is no $${pair#*=}"; \
	    fi; \
	done; \
	.venv/bin/pytest -c lab/pyproject.toml --rootdir . -o pythonpath=tests tests/portability || status=1; \
	exit $$status

deb: ## Debian packages in build/debian: libhakmem0 and its -dbgsym, libhakmem-dev and hakmem
	@tools/setup build --or-without packaging
	@$(MAKE) --no-print-directory build-debian
	cpack --config build/debian/CPackConfig.cmake -B build/debian

release: ## sources, wheel, crates, Debian packages, notes and sums of the tree's version in out/release
	@tools/setup build lint lab venv packaging
	tools/release.py

site: $(READY) ## the pages of docs/ as a site in out/site
	tools/site

lint: ## formats, warnings, box order, Python
	@tools/setup build lint lab venv
	@tools/lint

clean: ## remove build/; .venv and out/ stay
	rm -rf build

# Installs everything at once, before the targets that each ask for a part of it.
install-for-test:
	@tools/setup build lab venv --or-without test browser packaging programs

# One preset of CMakePresets.json: build-debug, test-asan ...
build-%:
	@cmake --log-level=WARNING --preset $* >/dev/null
	@cmake --build --preset $* --parallel $(JOBS)

test-%: build-%
	@$(if $(filter test,$(MAKECMDGOALS)),,tools/setup --or-without test)
	ctest --preset $* --parallel $(TESTS_AT_ONCE)

$(READY): lab/pyproject.toml
	@tools/setup lab venv
