# Everything runs from `.venv`, which is made on first use and kept up to date with pyproject.toml.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_WORKERS ?= auto
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo test coverage test-statistical test-floor dist lint format typecheck docs docs-quick linkcheck doctest bench results stale clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## / /' | awk '{t=$$1; $$1=""; printf "  make %-18s%s\n", t, $$0}'

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "vicinal needs Python 3.11 or newer, and '$(PYTHON)' was not found: install it or set PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "vicinal needs Python 3.11 or newer, '$(PYTHON)' is older: set PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "'$(PYTHON)' has no venv module: install it (Debian: apt-get install python3-venv)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.cli: pyproject.toml | $(BIN)/python
	@echo "installing vicinal into $(VENV) ..."
	@$(BIN)/pip install --quiet --editable '.[cli]' || { echo "installation failed: the lines above say why"; exit 1; }
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing vicinal and its development tools into $(VENV) ..."
	@$(BIN)/pip install --quiet --editable '.[dev]' || { echo "installation failed: the lines above say why"; exit 1; }
	@touch $@

demo: $(VENV)/.cli  ## compare local models with baselines on a real data set
	@$(BIN)/vicinal compare --out report.html

test: $(VENV)/.dev  ## the whole test suite
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
		$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal $(PYTEST_ARGS)

coverage:  ## the suite again, with the lines it never runs (half as long again)
	@$(MAKE) test PYTEST_ARGS="--cov --cov-report=term $(PYTEST_ARGS)"

test-statistical: $(VENV)/.dev  ## long checks and statistical promises
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
		$(BIN)/python -m pytest tests -m statistical -n $(PYTEST_WORKERS) --dist worksteal $(PYTEST_ARGS)

.venv-floor/.test: pyproject.toml tests/install/floor.py
	@$(MAKE) VENV=.venv-floor .venv-floor/bin/python
	@.venv-floor/bin/python tests/install/floor.py pyproject.toml > .venv-floor/floors.txt
	@.venv-floor/bin/pip install --quiet --editable '.[test]' --constraint .venv-floor/floors.txt
	@touch $@

test-floor: .venv-floor/.test  ## the suite with the core and every extra at their lowest supported versions
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
		.venv-floor/bin/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal $(PYTEST_ARGS)

dist: $(VENV)/.dev  ## wheel and source archive, checked and installed in bare environments
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist
	@$(BIN)/python -m twine check --strict dist/*
	@$(BIN)/python tests/install/distribution.py dist

lint: $(VENV)/.dev  ## style, format and layers of the package
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

format: $(VENV)/.dev  ## rewrite files in the style of the project
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

typecheck: $(VENV)/.dev  ## types of public functions
	@$(BIN)/mypy

docs: $(VENV)/.dev  ## the HTML documentation, gallery included
	@$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

docs-quick: $(VENV)/.dev  ## the same without running the examples of the gallery
	@VICINAL_GALLERY=0 $(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

linkcheck: $(VENV)/.dev  ## links of the documentation to other sites
	@VICINAL_GALLERY=0 $(BIN)/python -m sphinx -b linkcheck docs docs/_build/linkcheck

doctest: $(VENV)/.dev  ## examples in docstrings, guide and README
	@$(BIN)/python -m pytest -q src tests/docs

bench: $(VENV)/.dev  ## every benchmark, results in docs/results (hours)
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

results: $(VENV)/.dev  ## build the pages of docs/results again from their stored cases
	@$(BIN)/python benchmarks/rebuild.py

stale: $(VENV)/.dev  ## name the pages whose cases ran code that has changed since
	@$(BIN)/python benchmarks/stale.py

clean:  ## remove environments and built files
	@rm -rf .venv .venv-floor docs/_build docs/auto_examples docs/api/generated dist report.html
