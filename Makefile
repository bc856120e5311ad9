# make demo    agents' requests without and with the proxy, in front of a real model server
# make test    everything that must hold: ruff, mypy, pytest
#              on Python 3.11, and on 3.12 and 3.13 where they are installed
# make quick   lint, types, and the unit tests of the packages that changed
# make check   one Python, all tests but the long ones
# make lint    ruff, mypy and the direction of imports alone
# make bench   the benchmarks
# make faults  all that goes wrong at the model server, at the client and around the proxy: the long ones too
# make soak   200 clients and random faults; nothing unexpected, no growth; MINUTES=8 is the default
# make agents  real Claude Code, Codex and OpenCode (npm), without and with the proxy, in front of bad model servers
# make vllm    a real vLLM on the CPU, without and with the proxy; it is installed by the first run (minutes, 3.5 GB)
# make deploy HOST=user@host    bring this checkout to a host as a new release of the service; ARGS are further options
# make rollback HOST=user@host  go back to the release before
# make deploy-test  both of them, for real, on this machine
# make cluster-test HAProxy, three proxies, two model servers: what 200 streams see when some of them fail
# make lock    requirements.lock anew: the newest versions of all that the proxy needs, with digests
# make audit   whether known vulnerabilities concern what requirements.lock holds
# make clean   remove what these made
#
# All work in a virtual environment, .venv, made by the first of them.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Wheels only: a small machine without a compiler shall learn at once that there is none for it.
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check --only-binary xllamacpp,gguf,numpy
METADATA := setup.cfg pyproject.toml

# The other Pythons that the project claims to support, as far as they are here: on PATH, or in pyenv's folder.
OTHERS ?= python3.12 python3.13 $(wildcard $(HOME)/.pyenv/versions/3.12.*/bin/python $(HOME)/.pyenv/versions/3.13.*/bin/python)

# One set of versions for all Pythons that the project supports, and the digests of the wheels for all machines.
LOCKED := --universal --python-version 3.11 --generate-hashes --upgrade

# Each start of a proxy, and each worker of pytest, would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

# Files of tests side by side; the benchmarks must have the machine to themselves.
ALL := -m 'not benchmarks and not heavy'
EACH := -m 'not benchmarks and not heavy and not once'
# Where another Python can make a difference: its JSON, literals, patterns, sockets, threads and processes. What is made
# of them, engine, dialects and formats, is the same; the corpus and the recordings go through all of it.
RUNNING := app client client_socket cli end_to_end gunicorn_conf healing passthrough pump reload responses_store \
  shared_counters shared_memory state
ELSEWHERE := $(addprefix tests/unit/,codec tools config upstream worker web commands server) \
  tests/failures/test_own_corpus.py tests/failures/test_recordings.py \
  $(patsubst %,tests/integration/test_%.py,$(RUNNING))
# In the order of the folders: short files are last, so that no core waits long for another. One process more than there
# are cores: a third of the time the tests of the proxy as a whole wait.
TOGETHER := --numprocesses $(shell expr $$(nproc 2>/dev/null || echo 2) + 1) --maxprocesses 5 --dist loadfile --no-loadscope-reorder

.PHONY: demo test quick check others lint bench faults soak agents vllm clean deploy rollback deploy-test cluster-test lock audit

demo: .venv/demo.stamp
	$(BIN)/python -m tests.demo

test: lint
	$(BIN)/python -m pytest $(ALL) $(TOGETHER)
	$(BIN)/python -m pytest -q -m benchmarks tests/integration/test_benchmarks.py
	$(MAKE) --no-print-directory others

quick: lint
	$(BIN)/python -m pytest -q -x $(EACH) $(TOGETHER) $$($(BIN)/python -m tests.changed)

check: lint
	$(BIN)/python -m pytest -q $(EACH) $(TOGETHER)

# Each version once; a name that does not run (a shim of pyenv's) is none.
others:
	@rm -f .venv/python*/tested; for python in $(OTHERS); do \
	  version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	  folder=.venv/python$$version; [ -e $$folder/tested ] && continue; \
	  [ -e $$folder/stamp ] || { $$python -m venv $$folder && \
	    $$folder/bin/python -m pip install -q --disable-pip-version-check --only-binary xllamacpp,gguf,numpy \
	      -e '.[test,real]' && touch $$folder/stamp; } || exit 1; \
	  $$folder/bin/python --version && $$folder/bin/python -m pytest -q -p no:cacheprovider $(EACH) $(TOGETHER) $(ELSEWHERE) || exit 1; \
	  touch $$folder/tested; \
	done

lint: .venv/test.stamp
	$(BIN)/python -m ruff check .
	$(BIN)/lint-imports --no-cache > .venv/imports.txt || { cat .venv/imports.txt; exit 1; }
	$(BIN)/python -m mypy

bench: .venv/test.stamp
	$(BIN)/python -m benchmarks.run

faults: .venv/test.stamp
	$(BIN)/python -m pytest tests/integration/test_faults.py tests/faults tests/soak

soak: MINUTES := 8
soak: .venv/test.stamp
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

agents: .venv/test.stamp
	$(BIN)/python -m tests.agents

# vLLM has a virtual environment of its own: .venv/vllm, or the folder that TOOL_PROXY_VLLM names.
vllm: .venv/test.stamp
	$(BIN)/python -m tests.vllm

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
	$(PIP) -e '.[test,real]'
	touch $@ .venv/demo.stamp

# What looks after the dependencies is none of them.
.venv/tools.stamp: .venv/made.stamp
	$(BIN)/python -m venv .venv/tools
	.venv/tools/bin/python -m pip install -q --disable-pip-version-check uv pip-audit
	touch $@
