# The verbs of this repository. Each one installs what it needs into .venv first, and no more.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt

# One stamp for each group of packages.
SERVING := $(VENV)/.installed-serve
GROUPS  := $(VENV)/.installed-pip
LINTERS := $(VENV)/.installed-check
SPARK   := $(VENV)/.installed-spark
DOCS    := $(VENV)/.installed-docs
ALL     := $(VENV)/.installed-all

.PHONY: help install serve demo test torture check check-types check-format check-lint check-layers format bench docs clean

help:            ## show this list
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

install: $(ALL)  ## create .venv and install millstream with everything its tests need

# Python 3.11 puts setuptools into a new environment, where nothing needs it.
# Bytecode is written here, because some machines are set up to write none at run time.
$(SERVING): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "millstream needs Python 3.11 or newer; set PYTHON=python3.x"; exit 2; }
	@echo "Installing what a server needs into $(VENV): once, some seconds ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable .
	@$(BIN)/python -m pip uninstall --yes --quiet --quiet setuptools
	@$(BIN)/python -m compileall -q src
	@touch $@

# dependency-groups need pip 25.1, so an older pip is upgraded first.
$(GROUPS): $(SERVING)
	@$(BIN)/python -c 'import pip; exit(tuple(map(int, pip.__version__.split(".")[:2])) < (25, 1))' || $(PIP) pip
	@touch $@

$(LINTERS): $(GROUPS)
	@echo "Installing ruff, mypy and import-linter into $(VENV) ..."
	@$(PIP) --group check
	@touch $@

$(SPARK): $(SERVING)
	@echo "Installing Spark into $(VENV): once, half a gigabyte ..."
	@$(PIP) --editable '.[spark]'
	@touch $@

$(DOCS): $(GROUPS)
	@echo "Installing what the documentation needs into $(VENV) ..."
	@$(PIP) --group docs
	@touch $@

$(ALL): $(GROUPS)
	@echo "Installing Spark, linters and test tools into $(VENV): once, more than a gigabyte ..."
	@$(PIP) --editable '.[all]' --group check --group test
	@touch $@ $(SPARK) $(LINTERS)

serve: $(SERVING)   ## start the server on http://127.0.0.1:4437
	@$(BIN)/millstream serve

demo: $(SPARK)   ## streams become a table and other streams, on a Spark in this machine (needs Java 17)
	$(BIN)/python examples/pipelines.py

test: $(ALL)     ## run every test; what a machine lacks and may not install is skipped with one line
	@tests/install-system-packages
	@$(BIN)/python tests/quick_spark.py
	@$(BIN)/python -m compileall -q src  # for machines on which Python writes no bytecode by itself
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest --numprocesses auto --dist loadscope --no-loadscope-reorder --durations 20

torture: $(ALL)  ## the long forms of the crash tests and the fuzzer, with a summary (some hours; root for power cuts)
	$(BIN)/python -m tests.crash.torture

check: $(ALL)    ## lint, types and layers
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check-types check-format check-lint check-layers

check-types:     # the longest, so it starts first
	$(BIN)/mypy

check-format:
	$(BIN)/ruff format --check .

check-lint:
	$(BIN)/ruff check .

check-layers:
	$(BIN)/lint-imports --no-cache

format: $(LINTERS)  ## let ruff rewrite the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(ALL)    ## measure against the reference server and Electric's, side by side
	$(BIN)/python -m bench
	$(BIN)/python -m bench.client
	$(BIN)/python -m bench.spark
	$(BIN)/python -m bench.spark_sink
	$(BIN)/python -m bench.spark_latency

docs: $(DOCS)    ## build the documentation into site/, with warnings as errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

clean:           ## remove .venv, caches and build output
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf tests/public/node_modules tests/public/clients/node_modules tests/python_client/reference/node_modules tests/browser/node_modules bench/reference/node_modules tests/artifacts
