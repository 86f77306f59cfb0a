# Needs make and Python 3.11; everything else is fetched: Python packages into .venv, the rest from Debian.

PYTHON ?= $(or $(shell command -v python3.11 2>/dev/null),python3)
VENV := .venv
BIN := $(VENV)/bin
NODE_MODULES := $(patsubst %/package-lock.json,%/node_modules/.package-lock.json,$(wildcard tests/node/package-lock.json))
export PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK = 1

# More for pytest: `make test PYTEST='-x -k wire'`, or for the run on the plain sources alone, `PLAIN='-m "not soak and not real"'`.
PYTEST ?=
PLAIN ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(VENV)/.demo ## start the proxy in front of a broker, send it real traffic, and stay up until Ctrl-C
	@$(BIN)/python examples/demo.py

test: export AMQPROXY_COMPILE = 1
test: system $(NODE_MODULES) lint test-compiled test-plain ## fetch what the tests need; lint; run them compiled, and plain

test-compiled: compile
	AMQPROXY_PURE=0 $(BIN)/python -m pytest $(PYTEST)

# What RabbitMQ does by itself was seen in the first run: it is no other here.
test-plain: $(VENV)/.test
	AMQPROXY_PURE=1 BEHAVIOURS_OF=amqproxy $(BIN)/python -m pytest -k 'not straight_to_rabbitmq' $(PYTEST) $(PLAIN)

lint: $(VENV)/.test ## ruff, mypy --strict, and the floors of the design
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

compile: $(VENV)/.test ## bring the compiled modules up to date
	@$(BIN)/python hatch_build.py

bench: $(VENV)/.bench ## measure, side by side with the peers, and print ratios
	-@tests/install_system.sh haproxy tshark rabbitmq-server
	@$(BIN)/python -m bench

fuzz: $(VENV)/.fuzz ## let atheris look for octets that break the decoder, for a bounded time
	@$(BIN)/python tests/fuzz/run.py

soak: $(VENV)/.test ## the tests that run for long
	$(BIN)/python -m pytest -m soak $(PYTEST)

clean: ## remove what was built; .venv stays
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find amqproxy -name '*.so' -delete

system:
	@tests/install_system.sh || test "$$CI" != true

# --- environment: one stamp for each set of extras, made anew when the requirements change

$(VENV)/.demo: EXTRAS = demo
$(VENV)/.test: EXTRAS = test,lint
$(VENV)/.bench: EXTRAS = bench
$(VENV)/.fuzz: EXTRAS = test,fuzz
$(VENV)/.demo $(VENV)/.test $(VENV)/.bench $(VENV)/.fuzz: pyproject.toml hatch_build.py | $(BIN)/python
	$(BIN)/pip install --quiet --editable '.[$(EXTRAS)]'
	@touch $@

$(BIN)/python:
	@tests/install_system.sh python3-venv
	$(PYTHON) -m venv $(VENV)

tests/node/node_modules/.package-lock.json: tests/node/package-lock.json
	npm ci --prefix tests/node --no-audit --no-fund || test "$$CI" != true

.PHONY: help demo test test-compiled test-plain lint compile bench fuzz soak clean system
