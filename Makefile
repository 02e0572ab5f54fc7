# The developers' commands, and the only ones that CI calls.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

MUSL := x86_64-unknown-linux-musl
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 3600
# The first of the seeds, for a soak that goes on where another ended.
SOAK_SEED ?= 1
FUZZ_TARGETS ?= wire iperf3 mysql recording packet scenario
# Where rustup puts cargo, for a shell that has not read its profile since.
# Demo and benchmarks ask no metadata service.
export FATHOM_CLOUD := off
# Interpreters keep what they compiled, whatever the shell says: hundreds that tests start would compile it again.
export PYTHONDONTWRITEBYTECODE :=
export PATH := $(PATH):$(HOME)/.cargo/bin
# Silence about crates that compile; warnings and errors still show.
QUIET := $(if $(VERBOSE),,--quiet)

# What `fathom --version` and each recording say of a build that is used. Tests' builds know nothing of it: each commit would be
# another build.
demo build dist: export FATHOM_REVISION := $(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null)

# Options of the demo, as in: make demo DEMO="--quick --no-open"
DEMO ?=

# pytest's own workers; the machine has as many cores.
WORKERS ?= 2
# A run of CI that hangs ends red, and soon.
BOUND = $(if $(CI),timeout --kill-after=10 20m)
NEXTEST := .venv/bin/cargo-nextest nextest run --workspace --locked
JUNIT := $(CURDIR)/target/nextest/default/junit.xml $(CURDIR)/target/pytest/junit.xml
ACCEPTANCE_JUNIT := $(CURDIR)/target/nextest/acceptance/junit.xml $(CURDIR)/target/pytest/acceptance.xml

define SKIPPED
if [ "$${CI:-}" != true ]; then \
  echo "A test that lacked a privilege or a program was skipped. To run them all, as root:"; \
  echo "scripts/prepare-tests.sh, then CI=true make test (with CI=true a skip is a failure)."; \
fi
endef

.PHONY: help clients engines change-points report-pictures demo check check-rust check-python infra tofu test test-rust test-python nextest pytest acceptance mutants bench bench-quick bench-pairs bench-peers bench-peers-quick fuzz fuzz-python build dist python clean advisories cargo python-dev soak verdicts-table

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/:[^#]*## /\t/' | awk -F '\t' '{ printf "make %-12s %s\n", $$1, $$2 }'

cargo:
	@scripts/prepare.sh

python-dev:
	@scripts/prepare-python.sh dev

demo: cargo python ## everything it needs, then an emulated cloud region, measured for 90 s and explained
	@echo "Building fathom (the first build takes some minutes) ..."
	@cargo build $(QUIET) --release --locked -p fathom
	@PATH="$$PWD/target/release:$$PWD/.venv/bin:$$PATH" fathom demo $(DEMO)

check: check-rust check-python ## format, lints, types, documentation, licences, layers, circles, words, scripts, versions
	scripts/check-versions.py
	scripts/check-words.py
	scripts/check-shell.sh

check-rust: cargo ## the Rust part of it
	cargo fmt --all --check
	cargo clippy $(QUIET) --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc $(QUIET) --workspace --no-deps --locked
	@command -v cargo-deny >/dev/null || { echo "cargo-deny is missing; install it: cargo install --locked cargo-deny --version 0.20.2" >&2; exit 1; }
	cargo deny --log-level error check licenses bans sources
	scripts/check-layers.py
	scripts/check-circles.py
	python3 -m unittest discover --quiet --start-directory scripts/tests

check-python: python-dev ## the Python part of it
	cd python && ../.venv/bin/ruff format --quiet --check . && ../.venv/bin/ruff check --quiet .
	cd python && ../.venv/bin/mypy --no-error-summary
	cd python && PATH=../.venv/bin:$$PATH lint-imports --no-cache >/dev/null || PATH=../.venv/bin:$$PATH lint-imports --no-cache
	UV_PROJECT_ENVIRONMENT=$$PWD/.venv .venv/bin/uv lock --quiet --check --project python

advisories: cargo ## known vulnerabilities in dependencies (skipped, visibly, where the database cannot be fetched)
	@if cargo deny fetch db >/dev/null 2>&1; then cargo deny check advisories; \
	else echo "SKIPPED: the database of advisories (github.com/RustSec/advisory-db) cannot be fetched from here"; fi

# Both halves side by side: tests of the Rust half wait for most of their time, and Python's use the processors meanwhile.
test: export PROPTEST_RNG_SEED := 1
test: cargo python-dev ## every deterministic test, the end-to-end ones of the built binary included; minutes
	@rm -f $(JUNIT)
	$(NEXTEST) --no-run $(if $(VERBOSE),,--cargo-quiet)
	@failed=0; $(MAKE) --no-print-directory --keep-going --jobs=2 nextest pytest || failed=1; \
	scripts/test-summary.py slowest $(JUNIT); exit $$failed
	@$(SKIPPED)

test-python: cargo python-dev ## the Python half of it
	cargo build $(QUIET) --locked -p fathom
	@$(MAKE) --no-print-directory pytest

test-rust: cargo python-dev ## the Rust half of it
	@$(MAKE) --no-print-directory nextest
	@$(SKIPPED)

# Cargo would look for the jobs of a make that it has no pipe to.
nextest:
	MAKEFLAGS= $(BOUND) $(NEXTEST) $(if $(VERBOSE),,--cargo-quiet)
	MAKEFLAGS= $(BOUND) cargo test $(QUIET) --workspace --locked --doc

pytest:
	cd python && MAKEFLAGS= FATHOM=$$PWD/../target/debug/fathom $(BOUND) ../.venv/bin/pytest -n $(WORKERS) --junitxml=../target/pytest/junit.xml

acceptance: cargo python-dev ## what needs time, load, engines or peers; as root, about half an hour
	@scripts/prepare-tests.sh acceptance
	@PATH=target/ci-tools/go/bin:/usr/local/go/bin:$$PATH scripts/prepare-lab-tools.sh $$PWD/target/ci-tools
	@rm -f $(ACCEPTANCE_JUNIT)
	@failed=0; export CI=true PATH=$$PWD/target/ci-tools/go/bin:/usr/local/go/bin:$$PATH; \
	$(NEXTEST) --profile acceptance --cargo-quiet || failed=1; \
	(cd python && FATHOM=$$PWD/../target/debug/fathom ../.venv/bin/pytest -n $(WORKERS) -m acceptance -o junit_logging=system-out \
	  --junitxml=../target/pytest/acceptance.xml) || failed=1; \
	scripts/test-summary.py rates $(ACCEPTANCE_JUNIT); exit $$failed

engines: python-dev ## the rollup by DuckDB and ClickHouse against the local scan, 50 random recordings
	cd python && FATHOM_ENGINE_SETS=50 ../.venv/bin/pytest -m "acceptance or not acceptance" tests/dataset/test_engines.py tests/dataset/test_layout.py

infra: python-dev ## the labs of infra/, planned and made by terraform or tofu against a stand-in for the clouds; go
	cd python && ../.venv/bin/pytest -n $(WORKERS) --dist loadscope -m "acceptance or not acceptance" tests/infra

tofu: ## OpenTofu from the Go module proxy, into target/tofu, for `make infra`; once, some minutes
	cd infra/tofu && go build -trimpath -ldflags '-s -w -X github.com/opentofu/opentofu/version.dev=no' -o ../../target/tofu/bin/tofu github.com/opentofu/opentofu/cmd/tofu
	@target/tofu/bin/tofu version

mutants: python ## each breaks one rule of the Python half; its tests must notice (a few minutes)
	@.venv/bin/python scripts/mutants.py

clients: build ## real database libraries beside our models of them, through the same events; root, PostgreSQL, go, mvn, npm; about 3 minutes
	FATHOM=$${FATHOM:-$$PWD/target/release/fathom} studies/clients/run.py

change-points: python-dev ## F1 on labelled traces that nothing was chosen on: nested cross-validation, minutes
	cd python && ../.venv/bin/pytest tests/stats/changes/outer_score.py

report-pictures: cargo python-dev ## docs/images/report-*.png again, by Chromium
	cargo build $(QUIET) --locked -p fathom
	.venv/bin/python scripts/report-pictures.py

bench: dist ## the figures of docs/benchmarks.md, of the binary that is shipped; about 55 minutes (the presets need pyarrow)
	benches/figures.py --fathom target/$(MUSL)/dist/fathom
	benches/fabric.py --fathom target/$(MUSL)/dist/fathom
	benches/presets.py --fathom target/$(MUSL)/dist/fathom

bench-quick: dist ## the same, shortened to about 7 minutes
	benches/figures.py --quick --fathom target/$(MUSL)/dist/fathom
	benches/fabric.py --quick --fathom target/$(MUSL)/dist/fathom
	benches/presets.py --quick --fathom target/$(MUSL)/dist/fathom

fuzz: cargo ## each fuzz target for FUZZ_SECONDS (60) on the nightly toolchain
	@if ! command -v cargo-fuzz >/dev/null; then \
	  echo "SKIPPED: cargo-fuzz is missing; install it: rustup toolchain install nightly && cargo install --locked cargo-fuzz"; \
	  if [ "$${CI:-}" = true ]; then exit 1; fi; \
	  exit 0; \
	fi; \
	for target in $(FUZZ_TARGETS); do \
	  echo "== fuzzing $$target for $(FUZZ_SECONDS) s"; \
	  mkdir -p fuzz/corpus/$$target; \
	  cargo +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=$(FUZZ_SECONDS); \
	done

fuzz-python: cargo python-dev ## each importer, hosts' answers, study files, and recordings changed by chance, for FUZZ_SECONDS (60)
	cargo build $(QUIET) --locked -p fathom
	cd python && FATHOM=$$PWD/../target/debug/fathom FATHOM_FUZZ_SECONDS=$(FUZZ_SECONDS) FATHOM_MUTATIONS_SECONDS=$(FUZZ_SECONDS) \
	  ../.venv/bin/pytest -s -m "acceptance or not acceptance" tests/dataset/test_fuzz_importers.py tests/study/test_fuzz_ssh_answers.py tests/study/test_fuzz_study_file.py tests/cli/test_mutated_recordings.py

soak: cargo ## random faults in virtual time and, as root, real ones, and kills, others each round, for SOAK_SECONDS (3600)
	@cargo build $(QUIET) --release --locked -p fathom
	@first=$(SOAK_SEED); while ((SECONDS < $(SOAK_SECONDS))); do \
	  export FATHOM_FIRST_SEED=$$first FATHOM_SEEDS=1000; \
	  cargo test $(QUIET) --release --locked -p fathom-core --test it probe::laws::acceptance::random_runs || exit 1; \
	  cargo test $(QUIET) --release --locked -p fathom-fabric --test it verdicts || exit 1; \
	  (cd python/tests && python3 -m soak --fathom ../../target/release/fathom --seed $$first) || exit 1; \
	  benches/kills.py --kills 12 --seed $$first || exit 1; \
	  first=$$((first + 1000)); \
	done; echo "$$((first - $(SOAK_SEED))) runs kept the laws, and as many pairs of faults made no verdict wrong"

python: ## the Python half, in .venv: .venv/bin/fathometer
	@scripts/prepare-python.sh

bench-pairs: build ## two builds beside each other: make bench-pairs BEFORE=/path/of/the/other/fathom; about 15 minutes
	@test -n "$(BEFORE)" || { echo "say which build is the other one: make bench-pairs BEFORE=/path/of/its/fathom" >&2; exit 2; }
	benches/pairs.py "$(BEFORE)" target/release/fathom

bench-peers: dist ## ping-pong beside sockperf, qperf, netperf and neper, as far as they are on PATH; root; about 28 minutes
	benches/peers.py --fathom target/$(MUSL)/dist/fathom

bench-peers-quick: dist ## the same, shortened to about 4 minutes
	benches/peers.py --quick --fathom target/$(MUSL)/dist/fathom

build: cargo ## the release binary: target/release/fathom
	cargo build --release --locked -p fathom

dist: cargo ## a static binary to copy to any x86-64 Linux host
	@command -v musl-gcc >/dev/null || { echo "musl-gcc is missing; install it: sudo apt-get install musl-tools" >&2; exit 1; }
	@rustc --print target-libdir --target $(MUSL) | xargs test -d || { echo "the musl target is missing; install it: rustup target add $(MUSL)" >&2; exit 1; }
	cargo build --profile dist --target $(MUSL) --locked -p fathom
	@ls -l target/$(MUSL)/dist/fathom

clean: cargo ## what was built, and the demo's recordings
	cargo clean
	rm -rf demo-output .venv

verdicts-table: ## Write the table of verdicts into docs/verdicts.md
	FATHOM_WRITE_DOCS=1 cargo test --quiet --package fathom-core --lib -- docs_verdicts_md_has_this_table
