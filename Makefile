# All tasks of this repository are targets here; continuous integration uses the same ones.
# Requirements: Python 3.11 or newer, Rust, a C compiler and make. No other setup is needed.

PYTHON ?= python3
VENV   := .venv
# The interpreter that the targets use. Set it (make test PY=…) to use another environment than .venv.
PY     ?= $(VENV)/bin/python
JOBS   ?= 2
SCALE  ?= 1
ARGS   ?=
# The target and duration of `make fuzz`. SECONDS is not taken from the environment, because bash has a variable of that name.
TARGET  ?= wire_header
ifneq ($(origin SECONDS),command line)
SECONDS := 60
endif
# The duration, seed (a new one if empty) and modes of `make fuzz-pandas`.
MINUTES ?= 10
SEED    ?=
MODE    ?= all
WHEEL_TOOLS ?= maturin

SHELL       := /bin/sh
MAKEFLAGS   += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

INSTALLED := $(if $(filter $(VENV)/bin/python,$(PY)),$(VENV)/.installed)
NATIVE    := python/craton/_native.abi3.so
# The allocator that sandboxes of pipelines are started with exists on Linux only.
PRELOAD   := $(if $(filter Linux,$(shell uname -s)),python/craton/pipeline/_preload.so)
RUST      := Cargo.toml $(wildcard crates/*/Cargo.toml) $(shell find crates -name '*.rs')
EXTRAS    := demo,bench,dev,cluster,mpi,ucx

# The module uses the stable ABI of Python 3.11, so no interpreter is needed to compile it.
export PYO3_NO_PYTHON := 1
export PYO3_BUILD_EXTENSION_MODULE := 1
export CARGO_TARGET_DIR := $(CURDIR)/target
export PIP_DISABLE_PIP_VERSION_CHECK := 1
CARGO_FLAGS := --release --workspace

# Python modules that rewrite generated tables under docs/, each run as `python -m MODULE`.
DOC_GENERATORS := tools.docs.native_table tools.docs.speed_page

##@ Using it
.PHONY: help
help: ## print this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nVariables: PYTHON=%s (makes .venv), PY=%s, JOBS=%s, SCALE=%s, ARGS=…\n' "$(PYTHON)" "$(PY)" "$(JOBS)" "$(SCALE)"

.PHONY: demo
demo: env ## TPC-H under pandas and under Craton, compared (SCALE=1)
	$(PY) -m craton demo --scale $(SCALE) $(ARGS)

.PHONY: test
test: env ## the tests that must pass: Rust's, then Python's without the slow ones
	cargo test $(CARGO_FLAGS)
	$(PY) -m pytest -n $(JOBS) -m "not slow and not peer and not gpu and not cluster" tests $(ARGS)

##@ Working on it
.PHONY: env
env: build ## create .venv with Craton (editable) and all tools

.PHONY: build
build: $(INSTALLED) $(NATIVE) $(PRELOAD) ## build the native module if its sources changed

# For other environments: make native PY=…
.PHONY: native
native: $(NATIVE) $(PRELOAD) ## build only the native module, into python/craton

.PHONY: lint
lint: env ## ruff, mypy, rustfmt, clippy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	cargo fmt --check
	cargo clippy $(CARGO_FLAGS) --all-targets -- -D warnings

.PHONY: format
format: $(INSTALLED) ## rewrite the sources in the house format
	$(PY) -m ruff check --fix-only --quiet .
	$(PY) -m ruff format .
	cargo fmt

.PHONY: test-all
test-all: env ## every test, slow ones too
	cargo test $(CARGO_FLAGS)
	$(PY) -m pytest -n $(JOBS) tests $(ARGS)

.PHONY: pandas-tests
pandas-tests: env ## pandas' own test suite against Craton
	$(PY) tools/pandas_tests/run.py --jobs $(JOBS) $(ARGS)

.PHONY: pandas-tests-fast
pandas-tests-fast: env ## the part of pandas' tests that continuous integration runs
	$(PY) tools/pandas_tests/run.py --fast --jobs $(JOBS) $(ARGS)

.PHONY: xoscar-tests
xoscar-tests: env ## Xoscar's own tests against craton.actor (XOSCAR=a clone of its repository)
	$(PY) tools/xoscar_tests/run.py $(XOSCAR) $(ARGS)

.PHONY: test-libraries
test-libraries: env ## tests with other libraries, those of the extra `libraries` too, which it installs into the environment
	$(PY) -m pip install --quiet -c constraints.txt '.[libraries]' --no-build-isolation
	$(PY) -m pytest -n $(JOBS) tests/parity/libraries $(addprefix tests/parity/io/test_,delta.py excel.py iceberg.py sql.py) \
	  tests/unit/pipeline/test_sql.py $(ARGS)

.PHONY: narwhals-tests
narwhals-tests: env ## narwhals' own tests with pandas and with Craton, compared
	$(PY) tools/narwhals_tests/run.py --jobs $(JOBS) $(ARGS)

.PHONY: fuzz
fuzz: ## fuzz a decoder (TARGET=wire_header, SECONDS=60); needs cargo +nightly and cargo-fuzz
	cargo run --release -p craton-wire --example seeds -- fuzz/corpus
	@mkdir -p fuzz/corpus/$(TARGET)
	cd fuzz && CARGO_TARGET_DIR=target cargo +nightly fuzz run $(TARGET) -- -max_total_time=$(SECONDS) -max_len=16384 -malloc_limit_mb=256

.PHONY: fuzz-pandas
fuzz-pandas: env ## random programs under pandas and under Craton (MINUTES=10, SEED=…, MODE=all)
	$(PY) -m tests.fuzz --minutes $(MINUTES) --mode $(MODE) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: faults
faults: env ## long tests of stores and actors with killed processes, full disks and damaged files
	cargo test --release -p craton-slab -p craton-store -- --include-ignored
	$(PY) -m pytest -s -m "slow or not slow" tests/faults $(ARGS)

.PHONY: bench
bench: env ## benchmarks of Craton and its peers (SCALE=1, or ARGS="tpch --scale 10")
	$(PY) -m bench $(if $(ARGS),$(ARGS),--scale $(SCALE))

.PHONY: docs
docs: env ## rewrite the generated tables of the documentation
	@set -e; for module in $(DOC_GENERATORS); do echo "$(PY) -m $$module"; $(PY) -m $$module; done

##@ Shipping it
.PHONY: wheel
wheel: $(VENV)/bin/python ## build a wheel for this platform, in dist/
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt '$(WHEEL_TOOLS)'
	$(if $(PRELOAD),cargo build --release -p craton-preload && cp -f target/release/libcraton_preload.so $(PRELOAD))
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/python -m maturin build --out dist $(ARGS)

.PHONY: sdist
sdist: $(VENV)/bin/python ## build a source archive, in dist/
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt '$(WHEEL_TOOLS)'
	$(VENV)/bin/python -m maturin sdist --out dist

.PHONY: wheel-test
wheel-test: ## install the wheel of dist/ into a fresh environment and test it
	rm -rf build/wheel-test && $(PYTHON) -m venv build/wheel-test
	build/wheel-test/bin/python -m pip install --quiet -c constraints.txt dist/craton-*.whl pytest
	build/wheel-test/bin/python -m pytest -c /dev/null --rootdir build/wheel-test -p no:cacheprovider tests/unit/front_end/test_native.py

.PHONY: constraints
constraints: ## resolve all dependencies again and pin their versions
	rm -rf build/constraints && $(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet '.[$(EXTRAS),libraries]'
	{ echo "# What was tested together. Written by 'make constraints'; pip reads it with -c."; \
	  build/constraints/bin/python -m pip freeze --exclude craton; } > constraints.txt

.PHONY: clean
clean: ## remove everything that was built, .venv too
	cargo clean --quiet
	rm -rf $(VENV) build dist python/craton/_native.*so .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- files ----

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Craton needs Python 3.11 or newer; '$(PYTHON)' is not, or does not run. Name another: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments: its modules venv and ensurepip are missing. Install them" >&2; \
	  echo "(Debian and Ubuntu: the package python3-venv), or name another Python: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)

# The build backend is installed first and used without build isolation. This saves a download, and lets cargo reuse its
# outputs in the next build. Bytecode is compiled as for an installed package, so that the first import is not slower.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt maturin
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[$(EXTRAS)]'
	$(VENV)/bin/python -m compileall -q python/craton
	@touch $@

# cargo decides what to rebuild; on macOS the flags leave Python's symbols undefined until the module is loaded.
$(NATIVE): $(RUST) | $(INSTALLED)
	cargo rustc --release -p craton-py --lib $(if $(filter Darwin,$(shell uname -s)),-- -C link-arg=-undefined -C link-arg=dynamic_lookup)
	@cp -f "$$(ls -t target/release/lib_native.so target/release/lib_native.dylib 2>/dev/null | head -n 1)" $@.new && mv -f $@.new $@

$(PRELOAD): $(RUST) | $(INSTALLED)
	cargo build --release -p craton-preload
	@cp -f target/release/libcraton_preload.so $@.new && mv -f $@.new $@
