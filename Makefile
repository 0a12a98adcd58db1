# Every target makes what it needs in a fresh clone: nothing has to be installed or activated by hand.
#   make demo       train a digit classifier with compiled gradients
#   make test       the tests (minutes);  make test-all  also the slow ones
#   make check      ruff, mypy and the tests: what a change must pass
#   make bench      tracegrad beside JAX, PyTorch and autograd; writes benchmarks/results.md   (BENCH_ARGS="--quick")
#   make docs       check the documents' links and run the README's code
#   make clean      remove environments, caches and build products
# Choose the interpreter with PYTHON=python3.12, another environment with VENV=path.

# the first of these that is new enough; if none is, python3, and the check below says so
CANDIDATES := python3 python3.13 python3.12 python3.11 python3.14
RECENT     := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON     ?= $(or $(shell for p in $(CANDIDATES); do $$p -c '$(RECENT)' 2>/dev/null && echo $$p && break; done),python3)

VENV       ?= .venv
BENCH_VENV ?= .venv-bench
PY         := $(VENV)/bin/python
# an environment with tracegrad's dependencies and the peers; set it to one you already have to skip building it
BENCH_PYTHON ?= $(BENCH_VENV)/bin/python
BENCH_ARGS ?=
# extra pip arguments for torch alone, e.g. a find-links folder or an index of CPU-only wheels
TORCH_PIP_ARGS ?=
TEST_WORKERS ?= 2
PYTEST_ARGS ?=
SOURCES    := $(wildcard tracegrad tests examples benchmarks tools)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check lint types bench docs clean

help:
	@sed -n 's/^#   //p' $(firstword $(MAKEFILE_LIST))

# $(call make-venv,folder): a virtual environment, or one clear line about what is missing
define make-venv
	@$(PYTHON) -c '$(RECENT)' 2>/dev/null || { \
	  echo "tracegrad needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1)." >&2; \
	  echo "Name a newer one:  make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(1)
	@$(1)/bin/python -c '$(RECENT)' || { \
	  echo "$(1) was made with an older Python; run 'make clean' and try again." >&2; exit 1; }
endef

$(VENV)/.made:
	$(call make-venv,$(VENV))
	@touch $@

# editable installs; one stamp for each set of extras, renewed when pyproject.toml changes
$(VENV)/.installed-dev: pyproject.toml $(VENV)/.made
	$(PY) -m pip install --quiet --editable ".[dev,examples]"
	@touch $@

$(VENV)/.installed-demo: pyproject.toml $(VENV)/.made
	$(PY) -m pip install --quiet --editable ".[examples,plot,progress]"
	@touch $@

# torch first and alone, at a fixed version: resolved together with the rest, pip may fetch several releases of a large wheel
$(BENCH_VENV)/.installed: pyproject.toml
	$(call make-venv,$(BENCH_VENV))
	$(BENCH_VENV)/bin/python -m pip install --quiet $(TORCH_PIP_ARGS) torch==2.13.0
	$(BENCH_VENV)/bin/python -m pip install --quiet --editable ".[bench,plot]"
	@touch $@

demo: $(VENV)/.installed-demo
	$(PY) examples/digits.py

test: $(VENV)/.installed-dev
	$(PY) -m pytest -n $(TEST_WORKERS) --dist worksteal $(PYTEST_ARGS)

test-all: $(VENV)/.installed-dev
	$(PY) -m pytest -n $(TEST_WORKERS) --dist worksteal -m "slow or not slow" $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(PY) -m ruff check $(SOURCES)

types: $(VENV)/.installed-dev
	$(PY) -m mypy

check: lint types test

bench: $(if $(filter $(BENCH_VENV)/bin/python,$(BENCH_PYTHON)),$(BENCH_VENV)/.installed)
	$(BENCH_PYTHON) -m benchmarks $(BENCH_ARGS)

docs: $(VENV)/.installed-demo
	$(PY) tools/check_docs.py

clean:
	rm -rf .venv .venv-bench build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis digits_loss.png
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -maxdepth 1 -name '*.egg-info' -exec rm -rf {} +
