# make demo   reproduces the paper and leaves a report in demo/
# make test   format, lint, types, tests
# make test-orders  the tests in one process, in reverse, with JAX first, on 1 and 2 threads
# make bench  the benchmarks, against the peers, and whether a ratio to one has fallen (an hour)
# make bench-stale  which result files were measured with other code than there is now
# make wheel-test  installs the wheel into an empty environment and runs tacit demo
# make docs   the documentation as a site that needs no network, in site/
# Each makes its own environment in .venv the first time.

PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-orders wheel-test bench bench-stale docs clean torture
.DEFAULT_GOAL := test
.DELETE_ON_ERROR:

.venv/installed: pyproject.toml constraints.txt
	@echo "making the environment in .venv (once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tacit needs Python 3.11 or newer")'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[test]'
	@touch $@

.venv/installed-bench: .venv/installed
	@echo "adding the peers to .venv (once)"
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[test,bench]'
	@touch $@

.venv/installed-docs: .venv/installed
	@echo "adding the documentation tools to .venv (once)"
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[test,docs]'
	@touch $@

demo: .venv/installed
	$(BIN)/tacit reproduce --out demo
	@echo "open $(CURDIR)/demo/report.html in a browser"

# As many workers as cores: a worker's own threads would only wait for each other.
test: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n $(WORKERS) --dist worksteal

# What is printed depends on the problem alone: in one process from the last test to the first, and
# with JAX imported before all else, on one thread and on two.
test-orders: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -p no:xdist --reversed
	OMP_NUM_THREADS=2 $(BIN)/pytest -q -p no:xdist --jax-first

wheel-test: .venv/installed
	$(BIN)/python tools/wheel.py

# Half an hour of faults, kills, signals, hostile files and the long tests, two at a time;
# TORTURE=quick takes minutes. All examples of every test: TACIT_EXAMPLES=1 make test.
torture: .venv/installed
	$(BIN)/python tools/torture.py $(if $(filter quick,$(TORTURE)),--quick)

# Two of them say what they left out: imitation needs an environment of its own, a GPU is a GPU.
bench: .venv/installed-bench
	@set -e; for study in bandwidth forward curves explanation_scale ingest sharding memory \
		partitions larger_worlds recovery; do \
		echo "benchmarks/$$study.py"; $(BIN)/python "benchmarks/$$study.py"; done
	$(BIN)/python benchmarks/gpu.py --only "likelihood 1e5" --out benchmarks/results/cpu.json
	@if [ -n "$(IMITATION)" ]; then \
		$(BIN)/python benchmarks/mce_irl.py --peer-python "$(IMITATION)"; \
	else echo "benchmarks/mce_irl.py left out: IMITATION names no Python that has imitation"; fi
	@echo "benchmarks/gpu.py left out: run it where there is a GPU"
	$(BIN)/python benchmarks/plots.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/regression.py

bench-stale: .venv/installed
	@$(BIN)/python benchmarks/stale.py

docs: .venv/installed-docs
	@# Not --quiet: with it mkdocs counts no warnings, and strict means nothing.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build > .venv/docs.log 2>&1 || { cat .venv/docs.log; exit 1; }
	@echo "open $(CURDIR)/site/index.html in a browser"

clean:
	rm -rf .venv demo site build dist .pytest_cache .ruff_cache .hypothesis
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
