# make demo   the main job in small, live in the terminal
# make test   lint, types and all tests
# make setup  .venv with everything in it, and Java 17 or newer
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format java bench clean

PYTHON ?= python3.11
ifeq ($(shell command -v $(PYTHON) 2>/dev/null),)
PYTHON := python3
endif
BIN := .venv/bin
READY := .venv/.ready

help:
	@sed -n 's/^# //p' Makefile

# Installed once; again only when what is to be installed changed.
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Headrace needs Python 3.11 or newer: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Headrace needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/pip || sh tools/venv.sh $(PYTHON)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

java:
	@sh tools/java.sh

setup: java $(READY)

demo: setup
	@$(BIN)/headrace demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: setup lint
	$(BIN)/python tools/run_tests.py

bench: setup
	$(BIN)/headrace bench --list

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build src/*.egg-info spark-warehouse
