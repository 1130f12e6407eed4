# Needs a POSIX shell, make and Python 3.11 or newer with its venv module; everything else is installed into .venv.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup run corrections quick test cluster spark-matrix pythons python-matrix faults lint check bench docs docs-serve wheel clean

BIN := .venv/bin
STAMP := .venv/.installed

help:
	@echo "make setup        the environment, in .venv"
	@echo "make run          the flights of 2013 as maintained views, on Spark"
	@echo "make corrections  delays that are corrected days later, and what was known when"
	@echo "make quick        the tests that catch most mistakes, without Spark, and how long they took"
	@echo "make test         every test"
	@echo "make cluster      the acceptance suite on a Spark cluster on this machine, whose processes are killed"
	@echo "make spark-matrix the tests that need Spark, on each version of Spark from 3.5 to 4.3"
	@echo "make pythons      whether each package has a wheel for every Python from 3.11 to 3.14"
	@echo "make python-matrix the kernels, and some tests, with each Python from 3.11 to 3.14 that is here"
	@echo "make faults       kills, failing disks, damaged files: some half an hour, and no difference"
	@echo "make lint         style, types and import contracts"
	@echo "make check        lint and test: what CI runs"
	@echo "make bench        the benchmarks"
	@echo "make docs         the site of the documents, in out/site/index.html"
	@echo "make docs-serve   the same on 127.0.0.1:8000, built again when a document changes"
	@echo "make wheel        a wheel with compiled kernels, in dist"
	@echo "make clean        remove .venv and everything built"

setup: $(STAMP)
	@:

# The stamp makes the second time quick, and another pyproject.toml makes it out of date.
$(STAMP): pyproject.toml scripts/make-venv
	@sh scripts/make-venv
	@echo "installing altneu and what it needs into .venv (a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,examples,dev]'
	@$(BIN)/python -m altneu.warm
	@touch $@

run: setup
	@$(BIN)/python -m examples.flights

corrections: setup
	@$(BIN)/python -m examples.corrections

# What catches most mistakes, ten examples of each property; CONTRIBUTING.md says when to run it.
QUICK := tests/laws tests/operators tests/expressions tests/sql tests/golden tests/kit \
	tests/oracle/test_core.py tests/oracle/test_operators.py tests/oracle/test_random_plans.py \
	tests/architecture/test_architecture.py tests/architecture/test_extras.py
QUICK_MARKS := not spark and not slow

quick: setup
	@started=$$(date +%s); HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "$(QUICK_MARKS)" $(QUICK); \
		code=$$?; echo "make quick: $$(($$(date +%s) - started)) s"; exit $$code

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile --max-worker-restart=0

cluster: setup
	ALTNEU_CLUSTER=1 $(BIN)/python -m pytest tests/cluster tests/acceptance

spark-matrix: setup
	@$(BIN)/python scripts/spark-matrix $(VERSIONS)

python-matrix: setup
	@$(BIN)/python scripts/python-matrix $(PYTHONS)

pythons: setup
	@$(BIN)/python scripts/resolve-pythons $(PYTHONS)

faults: setup
	@$(BIN)/python -m faults

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

bench: setup
	@$(BIN)/python -m bench

# The variable silences a notice about the successor of mkdocs-material.
docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "out/site/index.html"

docs-serve: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

wheel: setup
	@$(BIN)/python scripts/build-wheel

clean:
	rm -rf .venv build dist out spark-warehouse .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find src tests examples bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
