# Needs make and, on Debian, nothing else: Python packages are fetched into .venv, the rest comes from Debian.

# The tests run compiled on the newest Python that there is, and plain on that of the system: both ends of what we support.
PYTHON ?= $(shell tests/find_python.sh newest)
SYSTEM_PYTHON ?= $(shell tests/find_python.sh system)
VENV := .venv
SYSTEM_VENV := $(if $(filter-out $(realpath $(PYTHON)),$(realpath $(SYSTEM_PYTHON))),.venv-system,$(VENV))
BIN := $(VENV)/bin
NODE_MODULES := $(patsubst %/package-lock.json,%/node_modules/.package-lock.json,$(wildcard tests/node/package-lock.json))
export PIP_DISABLE_PIP_VERSION_CHECK = 1

# More for pytest: `make test PYTEST='-x -k wire'`, or for the run on the plain sources alone, `PLAIN='-m "not soak and not real"'`.
PYTEST ?=
PLAIN ?=

# Sections of the bench, all if empty: `make bench ONLY='relay rules'`.
ONLY ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(or $(wildcard $(VENV)/.test),$(VENV)/.demo) ## start the proxy in front of a broker, send it real traffic, and stay up until Ctrl-C
	@$(BIN)/python examples/demo.py

check: $(VENV)/.test lint ## for every change: lint and the unit tests, in under two minutes
	AMQPROXY_PURE=1 $(BIN)/python -m pytest -q -n auto -m 'not real and not slow and not soak' --ignore tests/behaviours $(PYTEST)

test: system $(NODE_MODULES) ## fetch what the tests need; lint; run them compiled, and plain; fail in the end if any of these did
	@failed=; for step in lint test-compiled test-plain; do \
	    $(MAKE) --no-print-directory $$step || failed="$$failed $$step"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

test-compiled: compile
	AMQPROXY_PURE=0 $(BIN)/python -m pytest $(PYTEST)

# The first run has tested RabbitMQ by itself: here it is the same.
test-plain: $(SYSTEM_VENV)/.test
	AMQPROXY_PURE=1 BEHAVIOURS_OF=amqproxy $(SYSTEM_VENV)/bin/python -m pytest -k 'not straight_to_rabbitmq' $(PYTEST) $(PLAIN)

lint: $(VENV)/.test ## ruff, mypy --strict, and the floors of the design
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

compile: $(VENV)/.test ## bring the compiled modules up to date
	@AMQPROXY_COMPILE=1 $(BIN)/python hatch_build.py

bench: $(VENV)/.bench compile ## measure, side by side with the peers, and print ratios; ONLY=… for some sections
	-@tests/install_system.sh haproxy tshark rabbitmq-server
	@$(BIN)/python -m bench $(addprefix --only ,$(ONLY))

fuzz: $(VENV)/.fuzz compile ## let atheris look for bytes that break the decoder, for a bounded time
	@$(BIN)/python tests/fuzz/run.py

soak: $(VENV)/.test compile ## the tests that run for long
	$(BIN)/python -m pytest -m soak $(PYTEST)

clean: ## remove what was built; environments stay
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find amqproxy -name '*.so' -delete

system:
	@tests/install_system.sh || test "$$CI" != true

# --- environments: one stamp for each set of extras, made anew when the requirements change

$(VENV)/.demo: EXTRAS = demo
$(VENV)/.test: EXTRAS = test,lint
$(VENV)/.bench: EXTRAS = bench
$(VENV)/.fuzz: EXTRAS = test,fuzz
.venv-system/.test: EXTRAS = test
.venv-system/.test: PYTHON = $(SYSTEM_PYTHON)
# The pytest plugin, too, is tested at both ends of what it supports.
.venv-system/.test: PINS = 'pytest<9'

# Installing compiles nothing, so that the first demo need not wait for it: `compile` does, and shows how far it is.
$(VENV)/.demo $(VENV)/.test $(VENV)/.bench $(VENV)/.fuzz: | $(VENV)/bin/python
.venv-system/.test: | .venv-system/bin/python
$(VENV)/.demo $(VENV)/.test $(VENV)/.bench $(VENV)/.fuzz .venv-system/.test: pyproject.toml hatch_build.py
	@echo "amqproxy: fetching Python packages into $(@D) …" >&2
	@AMQPROXY_COMPILE=0 $(@D)/bin/pip install --quiet --editable '.[$(EXTRAS)]' $(PINS)
	@touch $@

# make expands all of a recipe before it runs any of it: a Python that is installed here is not in $(PYTHON) yet.
%/bin/python:
	@PYTHON="$(PYTHON)" tests/install_system.sh python3-venv
	@echo "amqproxy: making $* with $(or $(PYTHON),/usr/bin/python3) …" >&2
	@"$(or $(PYTHON),/usr/bin/python3)" -m venv $*

tests/node/node_modules/.package-lock.json: tests/node/package-lock.json | $(VENV)/.test
	PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --prefix tests/node --no-audit --no-fund || test "$$CI" != true

.PHONY: help demo check test test-compiled test-plain lint compile bench fuzz soak clean system
