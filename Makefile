# Everything runs from a fresh clone: each target first makes sure that .venv is there and up to date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
# One thread a worker: two workers with two threads each wait for each other on two cores. Each worker takes half of the
# files, so that nets which a file's tests share are made once. Bytecode is kept: it halves the time to collect.
TESTS := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q --dist worksteal
# A CPU with none of the newer instructions: shows the tests that lean on a last digit.
PORTABLE := OPENBLAS_CORETYPE=Haswell ATEN_CPU_CAPABILITY=default \
  NPY_DISABLE_CPU_FEATURES="AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX2 FMA3"
FILES ?= 20000
SEED ?= 0

.PHONY: setup demo check test test-full test-portable bench fuzz docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "cushion needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch hatchling editables
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m cushion.cli.demo

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(TESTS) -x -n $(WORKERS) tests/test_architecture.py tests/test_numerics.py tests/certificates/test_encoding.py tests/verifier/test_verifier.py

test: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@echo "mypy beside pytest; what mypy says comes last"
	@$(BIN)/mypy > $(VENV)/mypy.log 2>&1 & types=$$!; \
	$(TESTS) -n $(WORKERS); tested=$$?; \
	wait $$types; typed=$$?; cat $(VENV)/mypy.log; \
	test $$tested = 0 && test $$typed = 0

test-full: test
	$(TESTS) -m full --timeout 3600

test-portable: $(STAMP)
	$(PORTABLE) $(TESTS) -n $(WORKERS)

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(BENCHMARKS)

fuzz: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --files $(FILES) --seed $(SEED)

docs: $(STAMP)
	$(BIN)/mkdocs build --strict --quiet
	mkdir -p site/results/reproduce && cp -r results/reproduce/[a-zR]* site/results/reproduce/
	@echo "docs are in site/index.html"

clean:
	rm -rf $(VENV) dist site .mypy_cache .pytest_cache .ruff_cache
