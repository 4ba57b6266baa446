# Two commands matter: `make run` and `make test`. Both set everything up first; a second time that costs nothing.

# What an activated environment leaves behind must not decide which packages are used here.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME

BIN := .venv/bin
# A file at a time to each core: what a module sets up once is set up once.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadfile
QUICK := not slow and not gpu and not provisioning
SLOW := slow and not gpu and not provisioning

.PHONY: help run test test-all setup lint format docs site bench lock clean

help:
	@echo 'make run       set up, then run every shipped scenario'
	@echo 'make test      set up, then lint, type check and run the quick tests (under 10 minutes)'
	@echo 'make test-all  make test, then the slow tests, for which it installs SwiftShader, Chromium, zsh, fish and MkDocs'
	@echo 'make setup     only set up: .venv and, where no Vulkan adapter is found, software Vulkan'
	@echo 'make lint      ruff, mypy and the layers between the rooms of the house'
	@echo 'make format    let ruff sort imports and fix what it can'
	@echo 'make docs      write the generated parts of docs/ anew'
	@echo 'make site      write the docs as a site into site/, with every link checked'
	@echo 'make bench     report times, memory and pipelines against the budgets'
	@echo 'make lock      choose the newest dependencies and write the lock files anew (needs uv)'
	@echo 'make clean     remove .venv and every cache'

setup:
	@tools/setup.sh

run: setup
	@$(BIN)/attncheck run scenarios/

test: lint
	$(PYTEST) -m '$(QUICK)'

test-all: test
	@tools/setup.sh --swiftshader --browser --shells --docs
	$(PYTEST) -m '$(SLOW)'

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy
	MYPYPATH=attncheck/worker $(BIN)/mypy attncheck/worker/*.py
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .

docs: setup
	$(BIN)/python tools/docs.py

site:
	@tools/setup.sh --docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: setup
	$(BIN)/python benchmarks/budgets.py
	$(BIN)/python -m benchmarks.isolation

lock:
	@tools/lock.sh

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
