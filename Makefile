PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: install demo test slow lint bench docs figures clean

install: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: install
	$(BIN)/sizeshiftreg compare toy_friends --seeds 10 --jobs 2

test: install
	$(BIN)/python -m pytest -n 2 -m "not slow"

slow: install
	$(BIN)/python -m pytest -n 2 -m slow

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install
	for script in benchmarks/*.py; do OMP_NUM_THREADS=1 $(BIN)/python $$script || exit 1; done

docs: install
	$(BIN)/python docs/tables.py

figures: install
	$(BIN)/python docs/figures.py

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
