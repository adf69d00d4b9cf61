# `make demo` and `make test` do all the set-up there is: Python 3.11 or newer, git and make are enough. (The package
# itself works on 3.10 too, where some of the pinned versions do not: `make test-lowest`.)
# Another interpreter: make test PYTHON=python3.12. One test: make test ARGS="-k engine". One process: ARGS="-n 0".

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-input -c constraints.txt

# Stamps live inside the environment: who deletes it deletes them too.
MADE := $(VENV)/.made
DEMO := $(VENV)/.demo-installed
EDITOR := $(VENV)/.editor-installed
TEST := $(VENV)/.test-installed

# A file's tests stay in one process: module fixtures save and load models.
PYTEST := pytest -n 2 --dist loadfile

# The second tier: what needs Ray, a browser or killed processes, documents that run, the site, release lists, restated
# trainers, long sweeps. Whole files and folders; a new test belongs in the first tier unless it is one of these.
SECOND_TIER := \
	tests/test_docs.py tests/test_reference_pages.py tests/test_site.py tests/examples tests/release \
	tests/benchmarks/web_app tests/cli/test_web_app.py \
	tests/benchmarks/run/test_ray_runner.py tests/benchmarks/run/test_score_table.py tests/integrations/serving/ray_serve \
	tests/benchmarks/run/test_killed.py \
	tests/cli/test_interrupted_commands.py tests/cli/test_interruption.py \
	tests/integrations/serving/test_chaos.py tests/integrations/serving/test_draining.py \
	tests/integrations/trainers/test_killed_server.py \
	tests/integrations/trainers/test_flow_factory.py tests/integrations/trainers/test_dance_grpo.py \
	tests/integrations/trainers/test_omnigen2_rl.py tests/integrations/trainers/test_verl_omni_client.py \
	tests/integrations/trainers/test_flow_grpo_script.py tests/integrations/trainers/test_edit_r1_client.py \
	tests/integrations/diffusion_rl/test_trainer_processes.py \
	tests/integrations/diffusion_rl/test_compiled_denoiser.py \
	tests/integrations/test_two_processes.py tests/cli/judge/test_vendors.py

.PHONY: demo gpu-check gpu-wheels test test-rest test-all test-quick test-lowest test-pythons check lint types contracts docs docs-serve bench clean sceneedit-editor release-check
.NOTPARALLEL:
.DELETE_ON_ERROR:

# Edits of real photographs, ranked: 15 seconds on two slow cores. Damaged copies of them, too: minutes, ARGS=--damage.
demo: $(DEMO)
	$(BIN)/python -m editcritic.benchmarks.demo $(ARGS)

# The first tier: the behaviour of rewards, engine, selection, adapters, suites and server.
test: $(TEST)
	$(BIN)/$(PYTEST) -m "not slow" $(SECOND_TIER:%=--ignore=%) $(ARGS)

# The second tier. Both run before a change lands.
test-rest: $(TEST)
	$(BIN)/$(PYTEST) -m "not slow" $(SECOND_TIER) $(ARGS)

# Both, with performance scripts, studies, and what trains: before a release.
test-all: $(TEST)
	$(BIN)/$(PYTEST) $(ARGS)

# The engine, the metrics and the selectors, without models.
test-quick: $(TEST)
	$(BIN)/$(PYTEST) -m "not slow" tests/reward tests/verifiers --ignore=tests/reward/metrics/baselines --ignore=tests/reward/experts $(ARGS)

# What needs no torch: on the oldest Python with the lowest versions, and on newer ones with the pinned versions. Both
# begin by asking pip whether editcritic fits beside trainers, as whoever installs has an index to ask.
test-lowest: .venv-3.10/.installed
	.venv-3.10/bin/pytest --noconftest tests/beside_trainers.py
	.venv-3.10/bin/$(PYTEST) -m "not slow" $(ARGS)

test-pythons: .venv-3.12/.installed .venv-3.13/.installed
	for one in 3.12 3.13; do \
		.venv-$$one/bin/pytest --noconftest tests/beside_trainers.py || exit 1; \
		.venv-$$one/bin/$(PYTEST) -m "not slow" $(ARGS) || exit 1; done

# Three steps, so that .pre-commit-config.yaml has the quick one at each commit and the others at each push.
check: lint types contracts

lint: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TEST)
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 --no-warn-return-any # numpy's types, being for 3.11, are not all known there
	$(BIN)/mypy examples studies tests

contracts: $(TEST)
	$(BIN)/lint-imports --no-cache
	$(BIN)/pytest -q tests/test_contracts.py

# Teaches the tiny editor of SceneEdit anew and writes it where it came from, benchmarks/sceneedit/tiny_editor/weights.
sceneedit-editor: $(EDITOR)
	$(BIN)/python -m studies.tiny_editor.train $(ARGS)

# SceneEdit as a suite over five editors, with the report: bench-out/report.html.
bench: $(EDITOR)
	$(BIN)/python -m studies.five_editors --out bench-out $(ARGS)

# The documentation as a site: site/. A broken link, a missing anchor and a page outside the navigation are errors.
docs: $(TEST)
	$(BIN)/python docs/build_site.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

# The same on http://127.0.0.1:8000; after a change of a page, call it again.
docs-serve: $(TEST)
	$(BIN)/python docs/build_site.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

# Builds the archives of a release into dist/, checks them, and installs each extra alone into a fresh environment outside
# of the tree, where it keeps what it promises: half an hour. Without torch, in five minutes: ARGS=--light. Figures are in
# build/release-check.json.
release-check: $(TEST)
	$(BIN)/python -m tests.release $(ARGS)

# What models do on this machine's GPU, what any-edit takes there, and whether the experts' tests pass on it: figures in
# build/gpu-check. Where there is no GPU, or with ARGS=--tiny, at tiny shapes, in two minutes.
gpu-check: $(TEST)
	$(BIN)/python -m tests.gpu_check $(ARGS)

# The same on a machine with torch and no network: takes the wheels that it needs to .gpu-wheels, 33 MB. There, with
# this tree and that folder: python3 tests/gpu_check/bare.py
gpu-wheels: $(TEST)
	$(BIN)/python -m tests.gpu_check.wheels $(ARGS)

# Back to a fresh clone, the environment included.
clean:
	rm -rf $(VENV) .venv-3.* .gpu-wheels bench-out build dist site editcritic.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "The pinned versions need Python 3.11 or newer, and $(PYTHON) is: $$($(PYTHON) --version 2>&1)." >&2; \
		echo "Name another interpreter: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV): a few minutes the first time, nothing after that."
	@$(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) cannot make virtual environments; Debian and Ubuntu ship that part as python3-venv." >&2; exit 1; }
	@touch $@

$(DEMO): pyproject.toml constraints.txt | $(MADE)
	$(INSTALL) -e '.[ocr,bench]'
	@touch $@

$(EDITOR): pyproject.toml constraints.txt | $(MADE)
	$(INSTALL) -e '.[bench,diffusers]'
	@touch $@

# Holds all that the demo and the editor need, so that these install nothing after `make test`.
# tests/vision_ops.py says what torchvision does there.
$(TEST): pyproject.toml constraints.txt | $(MADE)
	$(INSTALL) -e '.[app,dev,docs,ocr,bench,diffusers,hf,judge,quantised,ray,serve,trl]'
	$(INSTALL) --no-deps einops spandrel
	$(INSTALL) --no-deps --upgrade --target $(VENV)/torchvision-for-tests torchvision
	@touch $(DEMO) $(EDITOR) $@

# An interpreter of version $*: make test-lowest PYTHON3.10=/path/to/it, or what `python3.10` starts, or pyenv's.
.venv-3.10/.installed: constraints-lowest.txt
.venv-3.12/.installed .venv-3.13/.installed: constraints.txt
.venv-%/.installed: pyproject.toml
	@for one in $(PYTHON$*) python$* $$(ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$*.*/bin/python 2>/dev/null); do \
		if $$one -c 'import sys; sys.exit(sys.version_info[:2] != tuple(map(int, "$*".split("."))))' 2>/dev/null; then \
			echo "Setting up .venv-$* with $$one."; $$one -m venv .venv-$* && exit 0; exit 1; fi; done; \
		echo "There is no Python $*: install it, or say where it is: make $(MAKECMDGOALS) PYTHON$*=/path/to/python" >&2; \
		exit 1
	.venv-$*/bin/python -m pip install --disable-pip-version-check --no-input -c $(filter constraints%,$^) \
		-e '.[dev,bench,judge,ocr,serve]'
	@touch $@
