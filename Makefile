# Every target sets up what it needs; a second run starts at once.
PYTHON ?= python3
BIN := .venv/bin
TEXT ?= The quick brown fox jumps over the lazy dog.
OUTPUT ?= speech.wav
MODEL ?=
HOST ?= 127.0.0.1
PORT ?= 8000
MINUTES ?= 60
PART ?=
override TEXT := $(value TEXT)
export TEXT
unexport PYTHONDONTWRITEBYTECODE  # tests start many processes, each of which would compile the package anew

.DEFAULT_GOAL := help
.PHONY: help serve say test test-all test-cluster test-clients test-gpu upstream soak browser kokoro lint format bench clean

help:
	@echo 'make serve               the OpenAI speech API on port $(PORT); MODEL=, HOST=, PORT='
	@echo 'make say TEXT="Hello."   speak, into $(OUTPUT) and to the speakers'
	@echo 'make test                lint, types, layers and all tests'
	@echo 'make test-all            the same with the long ones'
	@echo 'make test-cluster        the server on a local Ray cluster: replicas, faults, scaling'
	@echo 'make test-clients        LiveKit, Pipecat, litellm and clients for Node.js, in an environment of their own'
	@echo 'make upstream            packages of the models, each in an environment of its own, to compare our speech with theirs'
	@echo 'make kokoro              published weights of Kokoro for their tests, which are skipped without them'
	@echo 'make browser             Chromium for the tests of the page, which are skipped without it'
	@echo 'make test-gpu PART=3     kernels, the contract suite and storms of requests on a GPU; without PART, all parts'
	@echo 'make soak MINUTES=60     servers under good, bad and broken clients; then nothing may be left behind'
	@echo 'make lint | format       what the code should look like'
	@echo 'make bench               what the engine costs per frame'

.venv/.installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Setting up .venv (once). On Linux without an NVIDIA GPU, install the CPU build of PyTorch first: see README."
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e ".[serve]"
	@touch $@

.venv/.dev: .venv/.installed
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e ".[hibari,serve,dev]"
	@touch $@

serve: .venv/.installed
	@exec $(BIN)/rhapsode serve $(MODEL) --host "$(HOST)" --port "$(PORT)"

say: .venv/.installed
	@$(BIN)/rhapsode say -o "$(OUTPUT)" -- "$$TEXT"

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint
	$(BIN)/pytest -n 2 --dist loadfile tests/e2e/web  # not beside the others, since sound takes its time and does not wait
	$(BIN)/pytest -n 3 --dist loadfile --ignore tests/e2e/web --ignore tests/cluster  # what a file starts is started once; some tests wait

test-all: lint
	$(BIN)/pytest -n 2 --dist loadfile tests/e2e/web -m "slow or not slow"
	TEST_EXAMPLES=24 $(BIN)/pytest -n 2 --dist loadfile --ignore tests/e2e/web --ignore tests/cluster -m "slow or not slow"

.venv/.cluster: .venv/.dev
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e ".[cluster]"
	@touch $@

test-cluster: .venv/.cluster
	$(BIN)/pytest -o timeout=300 tests/cluster

.venv-clients/.installed: .venv/.dev tools/install_clients.sh tests/e2e/clients/constraints.txt tests/e2e/clients/constraints-litellm.txt tests/e2e/clients/node/package-lock.json
	bash tools/install_clients.sh
	@touch $@

test-clients: .venv-clients/.installed
	TEST_CLIENTS="$$(cat .venv-clients/clients.txt)" .venv-clients/bin/python -m pytest -rs \
		tests/e2e/clients/test_voice_agents.py tests/e2e/clients/test_node.py tests/e2e/clients/test_litellm.py

test-gpu: .venv/.dev
	$(BIN)/python -m tools.gpu_tests $(if $(PART),--part $(PART))

soak: .venv/.dev
	$(BIN)/python -m tools.soak --minutes "$(MINUTES)"

upstream:
	@PYTHON="$(PYTHON)" bash tools/install_upstream.sh

browser:
	@bash tools/install_browser.sh

kokoro:
	@bash tools/install_kokoro.sh

bench: .venv/.dev
	$(BIN)/python benchmarks/engine_overhead.py

clean:
	rm -rf .venv .venv-clients .venv-upstream build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
