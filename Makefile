# make demo: install and see it work · make test: install what tests need and run them · make help: the rest
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

MINUTES ?= 10

.PHONY: help demo test test-all test-web check format docs docs-tables screenshots soak bench clean

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

demo: $(VENV)/.base  ## train three models on random point sets for two minutes, write runs/demo/
	$(BIN)/python -m setpredict demo

test: $(VENV)/.dev  ## all tests except the slow ones
	$(BIN)/python -m pytest -n 2

test-all: $(VENV)/.dev  ## the slow tests too
	$(BIN)/python -m pytest -n 2 -m 'not web'

test-web: $(VENV)/.browser  ## the web page in a real Chromium, and its API under schemathesis
	$(BIN)/python -m pytest -m web tests/web

screenshots: $(VENV)/.browser  ## take every screenshot of the documentation again, from the page itself
	$(BIN)/python -m tests.web.screenshots

check: $(VENV)/.all  ## ruff and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/.dev  ## format the code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs  ## build the documentation as a site in site/; warnings are errors
	@rm -rf $(VENV)/demo; demo=; \
	if command -v npm >/dev/null && $(BIN)/python -m setpredict site $(VENV)/demo; then demo=1; \
	else echo "The front page has no demo: npm fetches what it runs on."; fi; \
	SETPREDICT_DEMO=$$demo NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict && \
	if test "$$demo"; then cp -r $(VENV)/demo site/demo; fi

docs-tables: $(VENV)/.dev  ## rewrite the tables of the docs that come from code and records
	$(BIN)/python -m setpredict.report.doc_tables

soak: $(VENV)/.dev  ## kill, damage and fuzz everything for MINUTES=10, print one table
	$(BIN)/python -m tests.soak $(MINUTES)

bench: $(VENV)/.dev  ## measure against the plain implementation, side by side
	$(BIN)/python -m benchmarks

clean:           ## remove the environment, the site and caches (never runs/)
	rm -rf $(VENV) site .pytest_cache .ruff_cache

$(VENV)/.base: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing setpredict into $(VENV) (a few minutes the first time) ..."
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) -e '.[dev,web,export]'
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	$(PIP) -e '.[docs,web,export]'
	@touch $@

$(VENV)/.all: $(VENV)/.base  # every package that some file imports, for pyright
	$(PIP) -e '.[dev,web,export,docs,browser]'
	@touch $@ $(VENV)/.dev $(VENV)/.docs

$(VENV)/.browser: $(VENV)/.all
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { apt-get -qq update && apt-get -qq install -y chromium chromium-driver; }
	@touch $@
