# A newcomer's: `make study` and `make install`; a developer's: `make test`. They need only make and Python 3.11+.
#
#   PYTHON=/path/to/python3.12   another Python to build .venv with
#   SCENARIO=examples/x.yaml     another scenario for `make study`
#   STUDY_FLAGS="--design full"  more options for `make study`
#   STUDY=footprint              the study that `make evidence` runs, of those that it lists
#   REASON="why"                 why STUDY=gate replaces the reference of `make gate`
#   FILE=mine.tar.gz             what `make contribution` takes in

SHELL := /bin/sh
.DEFAULT_GOAL := help

# The first Python on PATH that is recent enough.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; \
	done)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Bytecode is written when a module is first used; of what is installed, most never is.
INSTALL := $(PIP) install --quiet --no-compile
# Some environments forbid it; then every process would compile what it imports, for seconds.
export PYTHONDONTWRITEBYTECODE :=
INSTALLED := build/installed
SCENARIO ?= examples/quickstart.yaml
STUDY_OUT ?= study
STUDY_FLAGS ?=
STUDY ?=
ONLY ?=
PYTEST_FLAGS ?=
# Machines that `make wheel` builds for.
TARGETS ?= x86_64 aarch64
# Pythons that `make check-wheel` installs the wheel with, and extras beside none.
PYTHONS ?= $(PYTHON)
EXTRAS ?=
# Processes that test and check types beside each other.
JOBS ?= $(shell nproc)

# What an installation depends on; the sources themselves are used where they are (editable).
METADATA := pyproject.toml setup.py
ROOMS := forecache sim hwprofiles models calibration reports
SOURCES := $(shell find $(ROOMS) evidence -type f -not -path '*/__pycache__/*' 2>/dev/null)

.PHONY: accuracy browser calculator contribution evidence gate install pages help study test lint format types pytest verification benchmark docs wheel \
	check-wheel clean

help:
	@echo "make install       the command .venv/bin/forecache"
	@echo "make study         profile this machine, observe a real Valkey, write $(STUDY_OUT)/report.html"
	@echo "make test          ruff, mypy on the installed package and evidence/, pytest"
	@echo "make browser       explore, calculator and search of the site in chromium; pictures in build/"
	@echo "make calculator    a page that answers in any browser without a server: build/calculator/index.html"
	@echo "make verification  closed forms, interval coverage, random scenarios, damaged inputs, long tests"
	@echo "make benchmark     simulated requests a second, against SimPy and cimba"
	@echo "make evidence      list the studies of accuracy; STUDY=x runs one, ONLY=y a part of it"
	@echo "make accuracy      run all studies that can run here: hours, and nothing else should run"
	@echo "make gate          predict committed measurements again, fail where errors have grown"
	@echo "make contribution  check, predict and keep FILE, from observe --contributor elsewhere"
	@echo "make pages         write the pages of all studies again, from what they found last"
	@echo "make format        ruff's formatter and its safe fixes, on everything"
	@echo "make docs          write the pages of docs/ that come from code, build the site build/site"
	@echo "make wheel         build dist/*.whl for $(TARGETS), glibc 2.28 or newer"
	@echo "make check-wheel   install it where nothing is, run the quickstart; PYTHONS=\"a b\" EXTRAS=all"
	@echo "make clean         remove .venv, build/ and all caches"

install: $(VENV)/.ready
	@echo "The command is $(abspath $(BIN))/forecache"

study: $(VENV)/.ready
	$(BIN)/forecache study $(SCENARIO) --out $(STUDY_OUT) $(STUDY_FLAGS)
	@echo "The report is $(abspath $(STUDY_OUT))/report.html"

test: lint types pytest

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: build/.types-checked

pytest: $(VENV)/.ready-dev
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal -m "not browser and not long" $(PYTEST_FLAGS)

browser: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -m browser tests/reports/test_explore_browser.py \
		tests/reports/test_page_browser.py tests/evidence/test_calculator_browser.py tests/test_site_search.py

calculator: $(VENV)/.ready-dev
	$(BIN)/python -m evidence.calculator.page build/calculator

# Measure, keep what was found, write its page: evidence/studies.py has them all.
evidence: $(VENV)/.ready
	@$(BIN)/python -m evidence $(STUDY) $(ONLY:%=--only %)

contribution: $(VENV)/.ready
	@test -n "$(FILE)" || { echo "say make contribution FILE=mine.tar.gz" >&2; exit 2; }
	@$(BIN)/python -m evidence.contributions "$(FILE)"

accuracy: $(VENV)/.ready
	$(BIN)/python -m evidence --all

gate: $(VENV)/.ready
	$(BIN)/python -m evidence.gate

pages: $(VENV)/.ready
	$(BIN)/python -m evidence --pages

verification: $(VENV)/.ready-dev
	$(BIN)/python -m pytest --numprocesses $(JOBS) -m long
	$(BIN)/python -m verification $(VERIFICATION_FLAGS)

benchmark: $(VENV)/.ready-benchmark
	$(BIN)/python benchmarks/kernel.py --json $(BENCHMARK_FLAGS)

docs: $(VENV)/.ready-docs
	$(BIN)/python -m evidence --pages hosts cli scenario results
	$(BIN)/python -m evidence.documents.site

# Compiled with ziglang from PyPI, for either machine. build/lib is removed because setuptools would
# pack files that have since been deleted.
wheel: $(BIN)/python
	rm -rf dist
	@for target in $(TARGETS); do \
		rm -rf build/lib* build/bdist.*; \
		FORECACHE_TARGET=$$target $(PIP) wheel --quiet --no-deps --wheel-dir dist . || exit 1; \
	done
	@ls -l dist/*.whl

check-wheel:
	@ls dist/*.whl >/dev/null 2>&1 || $(MAKE) --no-print-directory wheel TARGETS=$$(uname -m)
	"$(PYTHON)" verification/install.py dist $(PYTHONS:%=--python %) $(EXTRAS:%=--extra %)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the virtual environment -------------------------------------------------------------------

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "forecache needs Python 3.11 or newer; none is on PATH." >&2; \
		echo "Found: $$(python3 --version 2>&1 || true). Install one, or say make PYTHON=/path/to/python3.12" >&2; \
		exit 1; \
	fi
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "forecache needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" --version 2>&1)." >&2; \
		exit 1; \
	}
	@"$(PYTHON)" -c 'import venv, ensurepip' || { \
		echo "$(PYTHON) has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
		exit 1; \
	}
	@echo "Creating $(VENV) with $$("$(PYTHON)" --version)"
	"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.ready: $(METADATA) | $(BIN)/python
	$(INSTALL) --editable '.[engine]'
	@touch $@

$(VENV)/.ready-dev: $(METADATA) | $(BIN)/python
	$(INSTALL) --editable '.[engine,dev]'
	@touch $(VENV)/.ready $@

# Zensical; once installed, the site is built without network.
$(VENV)/.ready-docs: $(VENV)/.ready
	$(INSTALL) --editable '.[docs]'
	@touch $@

# A simulator to compare with, which brings a compiler and several hundred megabytes.
$(VENV)/.ready-benchmark: $(VENV)/.ready-dev
	$(INSTALL) --editable '.[benchmark]'
	@touch $@

# --- the package as a user gets it -------------------------------------------------------------

# Built with the dev extra's setuptools, without a second download. build/lib is removed first:
# setuptools would install files that have since been deleted.
$(INSTALLED)/.built: $(SOURCES) $(METADATA) README.md $(VENV)/.ready-dev
	rm -rf $(INSTALLED) build/lib* build/bdist.*
	$(INSTALL) --no-deps --no-build-isolation --target $(INSTALLED) .
	@touch $@

build/.types-checked: $(INSTALLED)/.built
	ln -sfn $(CURDIR)/evidence $(INSTALLED)/evidence
	cd $(INSTALLED) && $(CURDIR)/$(BIN)/python -m mypy --config-file $(CURDIR)/pyproject.toml \
		--cache-dir $(CURDIR)/.mypy_cache --num-workers $(JOBS) \
		-p forecache -p evidence
	@touch $@
