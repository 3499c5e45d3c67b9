# make demo    train on data inside scikit-learn, show what happens when features are deleted, and write a report
# make test    run the tests
# make coverage   run them and report the lines they reach: a table, and pages in build/coverage
# make test-oldest   run them with the lowest versions that pyproject.toml admits, in .venv-oldest
# make sanitize   run the kernels' tests and a longer fuzz with address and undefined-behaviour sanitizers, in .venv-sanitize (gcc)
# make bench   compare with peers (needs MARGINOUT_DATA for the real data sets)
# make bench-compare BASE=REV   CPU times of the working tree over those of a revision of git, each built in a temporary
#              environment, run in turn (BENCH="amazon mnist --quick": these sections, a tiny version)
# make lint    ruff, mypy, cython-lint, import-linter, and zizmor on the workflows
# make docs    build the documentation in docs/_build/html; warnings are errors
# make check-pages   check the built documentation: links, search, and in chromium with axe-core (make axe) accessibility
# make sbom    list what an installation consists of, in build/marginout.cdx.json (CycloneDX)
# make reproduction   a tiny version of the paper's experiments (REPRODUCTION="run all": all of them, for hours)
# Each target creates its environment in .venv: Python >= 3.11, a C compiler, make and a package index are enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
SANITIZE := .venv-sanitize
# Tests that run every kernel, on small data: sanitized code is several times slower.
SANITIZED := tests/core/test_csr_form.py tests/core/test_design.py tests/estimators/test_fuzz.py
# Output of a build of the documentation
PAGES := docs/_build docs/api/generated docs/gallery
SOURCES := $(shell find src -name '*.py' -o -name '*.py[xi]' -o -name '*.pxi' -o -name '*.h' -o -name 'meson.build' -o -name '*.css' -o -name '*.js') meson.build pyproject.toml
REPRODUCTION ?= run all --quick

.PHONY: demo test coverage test-oldest sanitize bench bench-compare lint docs axe check-pages sbom reproduction clean

demo: $(VENV)/.installed
	$(BIN)/marginout demo --out marginout-demo.html

# A file stays in one worker: its cluster, its demo, its run of the benchmarks are started once.
test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile

coverage: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report=term:skip-covered --cov-report=html
	@echo "build/coverage/index.html"

test-oldest: $(OLDEST)/.test
	$(OLDEST)/bin/python -m pytest -n 2 --dist loadfile

# Several values of -C need pip 23.1, and Python 3.11 may bring an older one.
# Python itself is not sanitized, so the sanitizer's library must be loaded first. Memory that Python keeps until its end is not a leak.
sanitize: $(SANITIZE)/.installed
	LD_PRELOAD="$$($${CC:-cc} -print-file-name=libasan.so) $$($${CC:-cc} -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 OMP_NUM_THREADS=2 \
	  MARGINOUT_FUZZ=$${MARGINOUT_FUZZ:-300} $(SANITIZE)/bin/python -m pytest -q -p no:faulthandler --capture=sys $(SANITIZED)

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks $(BENCH)

# It builds both sides itself and needs no package: .venv is not touched.
bench-compare:
	@test -n "$(BASE)" || { echo "Name the revision to compare with: make bench-compare BASE=main"; exit 1; }
	$(PYTHON) -m benchmarks.compare --base $(BASE) $(BENCH)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(abspath $(BIN)):$$PATH" cython-lint src
	$(BIN)/python .ci/imports.py
	$(BIN)/zizmor --offline --quiet .github

# From a clean state each time: a page left by a failed build, or of a removed name, would be an error.
docs: $(VENV)/.docs
	rm -rf $(PAGES)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b doctest docs docs/_build/doctest
	@echo "docs/_build/html/index.html"

# An environment with the library and what it requires, described from outside.
sbom: $(SOURCES)
	$(PYTHON) -m venv --clear build/runtime
	build/runtime/bin/python -m pip install --quiet .
	$(PYTHON) -m venv --clear build/sbom
	build/sbom/bin/python -m pip install --quiet cyclonedx-bom
	build/sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --output-file build/marginout.cdx.json build/runtime/bin/python

# Of the pages that `make docs` has built. Without chromium, chromedriver and axe-core some checks are skipped.
axe:
	npm install --no-save --silent axe-core@4

check-pages: $(VENV)/.test
	$(BIN)/python -m pytest -q tests/project/test_pages.py

reproduction: $(VENV)/.reproduction
	$(BIN)/python -m reproduction $(REPRODUCTION)

clean:
	rm -rf $(VENV) $(OLDEST) $(SANITIZE) build $(PAGES) marginout-demo.html

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "marginout needs Python 3.11 or newer as '$(PYTHON)'. Install it (Debian: apt-get install python3"; \
	  echo "python3-venv python3-dev), or name another one: make PYTHON=/path/to/python3.12 ..."; exit 1; }
	@command -v $${CC:-cc} >/dev/null 2>&1 || { \
	  echo "marginout compiles its kernels and found no C compiler '$${CC:-cc}'. Install one (Debian:"; \
	  echo "apt-get install gcc libc6-dev; macOS: xcode-select --install), or set CC."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "Python's venv module is missing or broken. Install it (Debian: apt-get install python3-venv)."; exit 1; }
	@touch $@

$(VENV)/.installed: $(VENV)/.created $(SOURCES)
	@echo "building marginout in $(VENV): pip compiles its kernels, which takes some time ..."
	$(BIN)/python -m pip install --quiet .
	@touch $@

# The library is not built again: these only add the requirements of an extra.
$(VENV)/.test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet 'marginout[test]'
	@touch $@

# The build's own requirements have their lowest versions too, so they are in this environment and not in an isolated one of pip.
$(OLDEST)/.test: .ci/oldest.py $(SOURCES)
	$(PYTHON) -m venv --clear $(OLDEST)
	$(PYTHON) .ci/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet -c $(OLDEST)/constraints.txt meson-python cython ninja
	PATH="$(abspath $(OLDEST))/bin:$$PATH" $(OLDEST)/bin/python -m pip install --quiet --no-build-isolation \
	  -c $(OLDEST)/constraints.txt '.[test]'
	@touch $@

$(SANITIZE)/.installed: $(SOURCES)
	$(PYTHON) -m venv --clear $(SANITIZE)
	$(SANITIZE)/bin/python -m pip install --quiet 'pip>=23.1'
	$(SANITIZE)/bin/python -m pip install --quiet -C setup-args=-Db_sanitize=address,undefined \
	  -C setup-args=-Db_lundef=false -C setup-args=-Dbuildtype=debugoptimized . pytest hypothesis
	@touch $@

$(VENV)/.bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet 'marginout[bench]'
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet 'marginout[docs]'
	@touch $@

$(VENV)/.lint: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet 'marginout[lint]'
	@touch $@

$(VENV)/.reproduction: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet 'marginout[reproduction]'
	@touch $@
