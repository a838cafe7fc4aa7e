# Each target sets up what it needs. `make demo` and `make test` are the two to know.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: setup pictures demo examples test test-browser test-trainers test-ray test-servers test-pythons lint check prices bench bench-ray scale soak fuzz clean

setup: $(VENV)/.dev

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "autorubric needs Python 3.11 or later; found " + sys.version.split()[0] + ". Run: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(PIP) -e '.[dev]'
	@touch $@

demo: $(VENV)/.runtime
	$(BIN)/autorubric synthesize examples/queries.jsonl --out demo-out --id-column id --models builtin/offline --show 1
	@$(PIP) -e '.[ui]'
	@echo
	@echo "Browse the result: $(BIN)/autorubric view demo-out"

# The examples on public data, with the offline model and without a key.
examples: $(VENV)/.runtime
	$(PIP) -e '.[checks]'
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tools.run_guide examples/README.md examples-out

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal

# The view in Debian's Chromium, driven by Playwright, which downloads no browser of its own.
test-browser: $(VENV)/.dev
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium) || \
	  (echo "test-browser needs Chromium: install the package chromium and run it again" && exit 1)
	$(PIP) -r tests_browser/requirements.txt
	$(BIN)/python -m pytest -c tests_browser/pytest.ini --rootdir . tests_browser

# The pictures of the guides, by Chromium.
pictures: $(VENV)/.dev
	$(BIN)/python -m tools.pictures

# Real trainers, in an environment of their own: they are large, and their pins are not ours.
TRAINERS := .venv-trainers

TRAINERS_PIP := $(TRAINERS)/bin/python -m pip install --quiet --disable-pip-version-check

$(TRAINERS)/.made: pyproject.toml tests_trainers/requirements.txt tests_trainers/requirements-alone.txt
	$(PYTHON) -m venv $(TRAINERS)
	$(TRAINERS_PIP) torch==2.13.0
	$(TRAINERS_PIP) -e '.[checks]' -r tests_trainers/requirements.txt
	$(TRAINERS_PIP) --no-deps -r tests_trainers/requirements-alone.txt
	@touch $@

# OpenEnv needs mcp 1 and verifiers mcp 2; NeMo Gym needs Python 3.12 or later.
ENVIRONMENTS := .venv-environments
ENVIRONMENTS_PYTHON ?= $(PYTHON)

$(ENVIRONMENTS)/.made: pyproject.toml tests_trainers/requirements-environments.txt
	$(ENVIRONMENTS_PYTHON) -m venv $(ENVIRONMENTS)
	$(ENVIRONMENTS)/bin/python -m pip install --quiet --disable-pip-version-check -e . -r tests_trainers/requirements-environments.txt
	@touch $@

test-trainers: $(TRAINERS)/.made $(ENVIRONMENTS)/.made
	$(TRAINERS)/bin/python -m pytest -c tests_trainers/pytest.ini --rootdir . tests_trainers tests/formats/test_arrow.py
	$(ENVIRONMENTS)/bin/python -m pytest -c tests_trainers/pytest.ini --rootdir . tests_trainers/test_environments.py

# A real local Ray, in an environment of its own: it is large, and its version is that of the user's cluster.
RAY := .venv-ray

$(RAY)/.made: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray,checks]' pytest
	@touch $@

test-ray: $(RAY)/.made
	$(RAY)/bin/python -m pytest -c tests_ray/pytest.ini --rootdir . tests_ray

# The figures of --engine ray, and what a hundred kills of its workers cost.
bench-ray: $(RAY)/.made
	$(RAY)/bin/python -m benchmarks ray_engine
	$(RAY)/bin/python -m benchmarks.soak.cluster

# Every supported Python that this machine has, and the lowest versions of all dependencies.
test-pythons: $(VENV)/.dev
	$(BIN)/python .ci/pythons

# Real servers, each in an environment of its own; one that cannot be installed is named, with the reason.
SERVERS ?=
SERVERS_ROOT := .venv-servers

test-servers:
	$(PYTHON) tests_servers/install.py $(SERVERS_ROOT) $(SERVERS)
	$(SERVERS_ROOT)/client/bin/python -m pytest -c tests_servers/pytest.ini --rootdir . tests_servers

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

# The built-in price table, from the newest data of genai-prices and LiteLLM that pip finds. LiteLLM's wheel is only
# read, not installed.
prices: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade genai-prices
	rm -rf build/prices
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest build/prices litellm
	$(BIN)/python -m tools.price_table build/prices/litellm-*.whl

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# A million calls each of synthesize and grade: about 15 minutes on a quiet machine; SIZE=0.1 takes a tenth of them.
scale: $(VENV)/.dev
	SIZE=$(or $(SIZE),1) $(BIN)/python -m benchmarks scale

soak: $(VENV)/.dev
	$(BIN)/python -m benchmarks.soak

# atheris has wheels for some platforms only; where it cannot be had, the last line says that its part did not run.
fuzz: $(VENV)/.dev
	-$(PIP) -e '.[fuzz]'
	AUTORUBRIC_EXAMPLES=10000 $(BIN)/python -m pytest -n auto -m hypothesis tests/prompts tests/graders
	AUTORUBRIC_EXAMPLES=10000 $(BIN)/python -m pytest -n auto tests/fuzz
	AUTORUBRIC_EXAMPLES=1000 $(BIN)/python -m pytest -n auto -m hypothesis tests
	$(BIN)/python -m fuzz

clean:
	rm -rf $(VENV) $(TRAINERS) $(ENVIRONMENTS) $(RAY) $(SERVERS_ROOT) .venv-pythons demo-out examples-out bench-out fuzz-out build dist
