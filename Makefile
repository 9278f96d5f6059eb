# Everything that is done with this repository. `make` shows it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help up test check bench clean browser

VENV := .venv
BIN := $(VENV)/bin
# Any Python from 3.11 on; PYTHON=… names another one.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
UV := $(shell command -v uv 2>/dev/null)
# Words for `ekiden up`: make up ARGS="--lan"
ARGS ?=
# Words for pytest: make test PYTEST="-k client"
PYTEST ?=
# EKIDEN_TEST_WITHOUT=browser leaves the browser tests out, and says so at the end.
EKIDEN_TEST_WITHOUT ?=

help: ## show this
	@echo "make up       start Ekiden (installs it into $(VENV) the first time)"
	@echo "make test     install the test extras, then check and test everything with real parts"
	@echo "make check    formatting, lint, types, arrows between rooms, laws"
	@echo "make bench    measure all figures; make bench-FIGURE for one"
	@echo "make clean    remove what was made here ($(VENV), caches, test results)"

# $(call install,WHAT,WHY): installs quietly, and says what is happening and how long it took. uv where it is; else
# this Python's own pip works on the environment from outside, which spares a copy of pip in it (half of the time);
# else the environment gets a pip.
define install
	@test -n "$(PYTHON)" || { echo "Ekiden needs Python 3.11 or newer, and none was found. PYTHON=… names one." >&2; exit 1; }
	@started=$$SECONDS; echo "Installing $(2) into $(VENV) …"; \
	if [[ -n "$(UV)" ]]; then \
	  [[ -x $(BIN)/python ]] || uv venv --quiet --python $(PYTHON) $(VENV); \
	  uv pip install --quiet --compile-bytecode --python $(BIN)/python -e '$(1)'; \
	elif [[ -x $(BIN)/pip ]]; then \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '$(1)'; \
	elif $(PYTHON) -m pip --python "$$(command -v $(PYTHON))" --version >/dev/null 2>&1; then \
	  [[ -x $(BIN)/python ]] || $(PYTHON) -m venv --without-pip $(VENV); \
	  $(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check -e '$(1)'; \
	else \
	  rm -rf $(VENV); $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "This Python has neither pip nor venv (Debian: apt-get install python3-venv)." >&2; exit 1; }; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '$(1)'; \
	fi; \
	echo "Installed in $$((SECONDS - started)) s."
	@touch $@
endef

$(VENV)/.installed: pyproject.toml
	$(call install,.,Ekiden)

$(VENV)/.installed-test: pyproject.toml
	$(call install,.[test],Ekiden and what tests need)
	@touch $(VENV)/.installed

up: $(VENV)/.installed ## start Ekiden
	@exec $(BIN)/ekiden up $(ARGS)

check: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/laws tests/house

# What `check` has tried is not tried again by `test`, unless words for pytest choose it.
CHECKED := --ignore=tests/laws --ignore=tests/house

test: check browser
	$(BIN)/python -m pytest $(if $(filter browser,$(EKIDEN_TEST_WITHOUT)),-m "not browser") $(or $(PYTEST),$(CHECKED))
	@if [[ -n "$(EKIDEN_TEST_WITHOUT)" ]]; then echo "NOT tested, since EKIDEN_TEST_WITHOUT says so: $(EKIDEN_TEST_WITHOUT)"; fi

# The page is tested in a real Chromium. It is a system package: installed where that is ours to do, else asked for.
browser:
	@if [[ " $(EKIDEN_TEST_WITHOUT) " == *" browser "* ]]; then exit 0; fi; \
	if command -v chromium chromium-browser google-chrome >/dev/null; then exit 0; fi; \
	if [[ $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then \
	  echo "Installing chromium …"; \
	  apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-noto-cjk >/dev/null; \
	else \
	  echo "The tests of the page need Chromium. Install it (Debian: apt-get install chromium)," >&2; \
	  echo "or leave them out with EKIDEN_TEST_WITHOUT=browser." >&2; exit 1; \
	fi

bench: $(VENV)/.installed-test
	$(BIN)/python bench/run.py

bench-%: $(VENV)/.installed-test
	$(BIN)/python bench/run.py $*

clean:
	rm -rf $(VENV) dist build .test-results .hypothesis .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
