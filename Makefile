# make demo    agents' requests without and with the proxy, on a real model server
# make test    ruff, mypy and all tests, on Python 3.11, and on 3.12 and 3.13 if they are installed
# make quick   ruff, mypy and the fast tests: units, contracts, failures and a file for each API
# make lint    ruff, mypy and the direction of imports
# make bench   the benchmarks; about twenty minutes
# make faults  faults of the model server, the client and the machine, including the long ones
# make soak    200 clients and random faults for MINUTES=8: no unexpected result, no growth
# make agents  seven real agents (npm) on faulty model servers, without and with the proxy; writes the table of
#              docs/agents.md, unless AGENTS=claude,pi or ROWS=ok,empty selects some
# make vllm    a real vLLM on the CPU, without and with the proxy: requests, the doctor and seven real agents. The first
#              run installs it (minutes, 3.5 GB). Writes its table in docs/agents.md, unless AGENTS=claude,pi is set
# make deploy HOST=user@host    deploy this checkout to a host; ARGS are more options
# make rollback HOST=user@host  return to the previous release
# make deploy-test              both of them on this machine
# make cluster-test  200 streams through HAProxy, three proxies and two model servers, some of which fail
# make conformance   the fixtures of canitoolcall through the proxy, by family; ARGS are more options
# make models  trained models (1.7 GB, downloaded once) are asked to call tools, without and with the proxy: ninety
#              minutes the first time, two afterwards; ARGS=--quick takes three minutes
# make package wheel and sdist in dist/, checked, and the wheel tried in an empty environment
# make docs    the documentation site in build/site; every link is checked
# make lock    requirements.lock with the newest versions of all dependencies, with digests
# make audit   known vulnerabilities of the packages in requirements.lock
# make clean   remove everything that these targets create
#
# All targets use a virtual environment, .venv, which the first one creates.

# Prefer the system's Python, as the service does (systemd/release.sh): users have it, and its profile-guided build is a
# fifth faster than pyenv's. Creating an environment needs ensurepip (Debian's package python3-venv).
PYTHON ?= $(or $(shell for python in /usr/local/bin/python3.11 /usr/bin/python3.11 python3.11; do \
  $$python -c 'import ensurepip' 2>/dev/null && { echo $$python; break; }; done),python3)
BIN := .venv/bin
# Wheels only, so that a machine without a compiler fails immediately. --no-compile, because most of the installed
# modules are never imported, and compiling them would take a third of the time.
INSTALL := -m pip install -q --disable-pip-version-check --no-compile
PIP := $(BIN)/python $(INSTALL) --only-binary xllamacpp,gguf,numpy
METADATA := setup.cfg pyproject.toml

# Other supported Pythons that are installed: on PATH, or in pyenv's folder.
OTHERS ?= python3.12 python3.13 $(wildcard $(HOME)/.pyenv/versions/3.12.*/bin/python $(HOME)/.pyenv/versions/3.13.*/bin/python)

# One set of versions for all supported Pythons, with the digests of the wheels for all machines.
LOCKED := --universal --python-version 3.11 --generate-hashes --upgrade

# Otherwise each start of a proxy, and each worker of pytest, compiles all of its imports again.
unexport PYTHONDONTWRITEBYTECODE

# A test only runs the benchmarks; their figures need an idle machine.
ALL := -m 'not heavy'
QUICK := -m 'not benchmarks and not heavy and not slow' $(addprefix --ignore tests/unit/notations/test_,rows.py \
  spellings.py) tests/unit tests/contract tests/failures tests/test_house.py \
  $(patsubst %,tests/integration/test_%.py,app exchange healing messages_front responses_front retry)
EACH := -m 'not benchmarks and not heavy and not slow and not once'
# Tests that another Python can affect: JSON, literals, patterns, files, sockets, threads and processes. Rules, healings
# and routes are tables of plain values. One corpus covers the engine and the formats.
RUNNING := app client cli end_to_end gunicorn_conf passthrough pump reload responses_store
ELSEWHERE := $(addprefix tests/unit/,upstream cli server $(patsubst %,test_%.py,json_text secrets sse)) \
  tests/unit/test_gunicorn_conf.py tests/failures/test_text_formats.py \
  $(patsubst %,tests/integration/test_%.py,$(RUNNING))
# In the order of the folders: short files come last, so that no core waits long for another. Two more processes than
# cores, because the tests of the whole proxy wait a third of the time.
CORES := $(shell nproc 2>/dev/null || echo 2)
BY_FILE := --maxprocesses 5 --dist loadfile --no-loadscope-reorder
TOGETHER := --numprocesses $(shell expr $(CORES) + 2) $(BY_FILE)

.PHONY: demo test all quick others lint bench faults soak agents vllm conformance models docs package clean deploy rollback deploy-test cluster-test lock audit

demo: .venv/demo.stamp
	$(BIN)/python -m tests.demo

# mypy uses one core; the tests are collected while it runs.
test: .venv/test.stamp
	$(MAKE) --no-print-directory --jobs 2 others all

all: .venv/collected.stamp
	$(BIN)/python -m pytest $(ALL) $(TOGETHER)

quick: .venv/test.stamp
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -q $(QUICK) --numprocesses $(CORES) $(BY_FILE)

# Run each version once, and skip names that do not run (pyenv's shims). The versions run in parallel, each in one
# process, next to the other tests; each result is printed when it ends. Plain assertions, because rewriting them takes
# each process as long as a test file.
others: lint
	@rm -f .venv/python*/begun; running=; for python in $(OTHERS); do \
	  version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	  folder=.venv/python$$version; [ -e $$folder/begun ] && continue; \
	  mkdir -p $$folder; touch $$folder/begun; \
	  { { [ -e $$folder/stamp ] || { $$python -m venv $$folder && \
	    $$folder/bin/python $(INSTALL) -e '.[test]' && touch $$folder/stamp; }; } && \
	    $$folder/bin/python --version && \
	    $$folder/bin/python -m pytest -q -p no:cacheprovider --assert=plain $(EACH) $(ELSEWHERE); \
	  } > $$folder/output.txt 2>&1 & running="$$running $$folder:$$!"; \
	done; failed=0; for each in $$running; do \
	  wait $${each#*:} || failed=1; cat $${each%:*}/output.txt; \
	done; exit $$failed

lint: .venv/test.stamp
	$(BIN)/python -m ruff check .
	$(BIN)/lint-imports --no-cache > .venv/imports.txt || { cat .venv/imports.txt; exit 1; }
	$(BIN)/python -m mypy

bench: .venv/test.stamp
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.held
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.watched

faults: .venv/test.stamp
	$(BIN)/python -m pytest tests/integration/test_faults.py tests/faults tests/soak tests/integration/test_slow_clients.py
	$(BIN)/python -m pytest -m heavy tests/integration/test_benchmarks.py

soak: MINUTES := 8
soak: .venv/test.stamp
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

# Write the page only after a full run.
TABLE = $(if $(AGENTS)$(ROWS),,--table docs/agents.md)
agents: .venv/test.stamp
	$(BIN)/python -m tests.agents $(TABLE)
	$(BIN)/python -m tests.agents.traces

# vLLM has its own virtual environment: .venv/vllm, or the folder that TOOL_PROXY_VLLM names.
vllm: .venv/test.stamp
	$(BIN)/python -m tests.vllm
	$(BIN)/python -m tests.vllm --doctor
	$(BIN)/python -m tests.vllm --agents $(TABLE)

conformance: .venv/test.stamp
	$(BIN)/python -m tests.conformance $(ARGS)

models: .venv/demo.stamp
	$(BIN)/python -m benchmarks.models $(ARGS)

docs: .venv/docs.stamp
	NO_MKDOCS_2_WARNING=1 .venv/docs/bin/python -m mkdocs build --strict --quiet
	@echo build/site/index.html

package: .venv/test.stamp
	$(BIN)/python -m tests.package

deploy: .venv/made.stamp
	PYTHON=$(BIN)/python systemd/deploy.sh $(HOST) $(ARGS)

rollback:
	systemd/deploy.sh $(HOST) --rollback $(ARGS)

deploy-test: .venv/test.stamp
	$(BIN)/python -m tests.deploy

cluster-test: .venv/test.stamp
	$(BIN)/python -m tests.cluster

lock: export UV_CUSTOM_COMPILE_COMMAND := make lock
lock: .venv/tools.stamp
	.venv/tools/bin/uv pip compile -q $(LOCKED) setup.cfg -o requirements.lock
	echo pip | .venv/tools/bin/uv pip compile -q $(LOCKED) - -o systemd/pip.lock

audit: .venv/tools.stamp
	$(BIN)/python -m tests.deploy.audit .venv/tools/bin/pip-audit requirements.lock systemd/pip.lock

clean:
	rm -rf .venv .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/made.stamp:
	$(PYTHON) -m venv .venv
	touch $@

# If there is no wheel of the model server for this machine, the demo replays recorded answers.
.venv/demo.stamp: .venv/made.stamp $(METADATA)
	$(PIP) -e '.[real]' || { echo 'No model server for this machine.'; $(PIP) -e .; }
	touch $@

.venv/test.stamp: .venv/made.stamp $(METADATA)
	$(PIP) -e '.[test,once,real]'
	touch $@ .venv/demo.stamp

# pytest rewrites and caches each test module: once here instead of once per process.
.venv/collected.stamp: .venv/test.stamp
	$(BIN)/python -m pytest -q --collect-only > .venv/collected.txt || { tail -50 .venv/collected.txt; exit 1; }
	touch $@

# The site has its own environment.
.venv/docs.stamp: .venv/made.stamp $(METADATA)
	$(BIN)/python -m venv .venv/docs
	.venv/docs/bin/python $(INSTALL) -e '.[docs]'
	touch $@

# Tools for the dependencies, in their own environment.
.venv/tools.stamp: .venv/made.stamp
	$(BIN)/python -m venv .venv/tools
	.venv/tools/bin/python $(INSTALL) uv pip-audit
	touch $@
