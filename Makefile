# Each target makes .venv if it is missing. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
EXTRAS := cli,dask,exact,report
# The first that knows dependency groups.
PIP := pip>=25.1
# Small matrices: one thread a process is fastest, and tests run in several. What Python compiles is kept for the
# processes that tests start, also where it is told to keep nothing.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
# The oldest versions of the libraries have wheels for Python 3.11.
OLDEST_PYTHON ?= $(shell command -v python3.11 || echo $(PYTHON))
OLDEST := .venv-oldest
# Another processor: its kernels of BLAS, none of NumPy's but those of every processor, and none of ours, as where
# there is no compiler (OURS=baseline: those of every processor). The names of NumPy's differ from version to
# version, so it is asked. Nehalem is furthest from today's: it rounds each product and sum.
CORE ?= Nehalem
OURS ?= numpy
OTHER_CORE = APOLAR_KERNELS=$(OURS) OPENBLAS_CORETYPE=$(CORE) NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c \
	'from numpy._core._multiarray_umath import __cpu_dispatch__ as names; print(*names)')"
# Where rounding matters most, in two minutes: the numerical core, and the documents, which print digits; except two
# that compare all families several times, which takes long without the kernels.
TESTS ?= tests/tensor tests/decomposition tests/moments tests/recovery tests/mixture tests/em tests/search \
	tests/test_laws.py $(wildcard tests/estimator/test_*.py) README.md \
	$(filter-out docs/mclust.md docs/index.md,$(wildcard docs/*.md))

# The compiled kernels, whose every access to memory the sanitizers of the compiler watch.
KERNELS ?= tests/_core tests/em/test_compiled.py tests/em/test_rounding.py tests/em/test_runs.py \
	tests/mixture/test_steps.py tests/search/test_comparisons.py \
	tests/search/test_hierarchical.py
SANITIZED := build/sanitized
CONSTANTS := src/apolar/_core/constants.py
DEFINED = $(shell sed -n 's/^\([A-Z_]*\) = /-D\1=/p' $(CONSTANTS))
PYTHON_INCLUDE = $(shell $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')
ASAN = $(shell $(CC) -print-file-name=libasan.so 2> /dev/null)

# Hostile inputs that `make fuzz` tries: others in each run, which says its first seed.
CASES ?= 10000
# What `make mutants` changes, at most so long; another SEED changes other operations.
MUTANTS ?= 100
MINUTES ?= 60
SEED ?= 0

.PHONY: help setup demo test test-all test-slow test-oldest test-portable test-sanitized fuzz mutants lint format bench docs reproduce clean

help:  ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 15

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "apolar needs Python 3.11 or later; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# With all extras; a stamp for each group of pyproject.toml, which is installed again when the requirements change.
$(VENV)/.base: $(VENV)/.made pyproject.toml setup.py constraints.txt $(CONSTANTS) $(wildcard src/kernels/*)
	$(BIN)/python -m pip install --quiet --upgrade '$(PIP)'
	$(INSTALL) --editable '.[$(EXTRAS)]'
	@touch $@
$(VENV)/.%: $(VENV)/.base
	$(INSTALL) --group '$*'
	@touch $@

setup: $(VENV)/.base $(VENV)/.test $(VENV)/.lint  ## Make .venv with all that tests and lint need

demo: $(VENV)/.base  ## Cluster a bundled table and write its report; learn from moments; decompose a cubic; check all
	@$(BIN)/apolar fit src/apolar/datasets/data/olive.csv -k auto --label-column region -o demo
	@echo "Open demo/report.html in a browser."
	@echo
	@$(BIN)/python examples/demo.py

test: $(VENV)/.test  ## Run the tests that every change must pass, in a few minutes
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n auto --dist worksteal -m "not slow"

test-slow: $(VENV)/.test  ## Run the tests on a cluster, under load, in a browser, in other processes and in other projects
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n auto --dist worksteal -m slow

test-all: test test-slow test-portable test-sanitized test-oldest fuzz  ## Run everything: before a release

test-portable: $(VENV)/.test  ## Run the numerical tests as on another processor, without the kernels: CORE=Haswell, TESTS= for all
	$(ONE_THREAD) $(OTHER_CORE) $(BIN)/python -m pytest -q -n auto $(TESTS)

# Not by setup.py, which would take what is built here for its own. Python itself is not watched for leaks, and
# what a sanitizer says is not captured, as it ends the process.
test-sanitized: $(VENV)/.test  ## Run the tests of the compiled kernels under the sanitizers of the compiler
ifeq ($(wildcard $(ASAN)),)
	@echo "$(CC) has no sanitizers of memory: the kernels are not tested with them."
else
	rm -rf $(SANITIZED) && mkdir -p $(SANITIZED) && cp -R src/apolar $(SANITIZED)/ && rm -f $(SANITIZED)/apolar/*.so
	ls src/kernels/*.c | xargs -P 4 -I {} sh -c '$(CC) -c -fPIC -std=gnu11 -O1 -g -ffp-contract=fast -Wall -Wextra -Werror \
		-fsanitize=address,undefined -fno-sanitize-recover=all -DPy_LIMITED_API=0x030B0000 $(DEFINED) -I"$(PYTHON_INCLUDE)" \
		{} -o $(SANITIZED)/$$(basename {} .c).o'
	$(CC) -shared -fsanitize=address,undefined $(SANITIZED)/*.o -o $(SANITIZED)/apolar/_kernels.abi3.so -lm
	$(ONE_THREAD) LD_PRELOAD=$(ASAN) ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(CURDIR)/$(SANITIZED) \
		$(BIN)/python -m pytest -q --capture=no $(KERNELS)
endif

$(OLDEST)/.made: pyproject.toml constraints-oldest.txt
	$(OLDEST_PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade '$(PIP)'
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt \
		--editable '.[$(EXTRAS)]' --group test
	@touch $@

test-oldest: $(OLDEST)/.made  ## Run the tests with the oldest versions that are allowed, in .venv-oldest
	$(ONE_THREAD) $(OLDEST)/bin/python -m pytest -q -n auto

lint: $(VENV)/.lint  ## Check style, types and the rule of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.lint  ## Put the code into the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench  ## Measure the figures of apolar and other libraries, into benchmarks/results
	$(BIN)/python -m benchmarks

fuzz: $(VENV)/.test  ## Try 10,000 hostile inputs: CASES=100000 for more
	$(ONE_THREAD) PYTHONPATH=tests $(BIN)/python -m fuzz --cases $(CASES)

mutants: $(VENV)/.test  ## Change 100 operations of the source, one at a time, and count those that a test notices
	PYTHONPATH=tests $(BIN)/python -m mutants --mutants $(MUTANTS) --minutes $(MINUTES) --seed $(SEED)

docs: $(VENV)/.docs  ## Execute the examples and build the documentation into docs/_build/html
	$(ONE_THREAD) $(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

reproduce: $(VENV)/.base  ## Make every table and figure of the paper, in half an hour, into reproduced/
	$(BIN)/apolar reproduce all -o reproduced

clean:  ## Remove both environments and everything that was built
	rm -rf $(VENV) $(OLDEST) build dist demo reproduced docs/_build docs/api docs/auto_examples .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f src/apolar/_kernels.*
	find . \( -name __pycache__ -o -name '*.egg-info' \) -type d -prune -exec rm -rf {} +
