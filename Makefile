# Two commands matter: `make run` starts the daemon on profiles/, `make test` runs every check in its short form;
# `make test-all` runs the long forms too.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DIST := dist
unexport PYTHONDONTWRITEBYTECODE  # every process of the tests would compile all modules again

.PHONY: setup run test test-all lint types imports unit soak lock wheel sdist deb docs sbom audit licences peers peers-full clean

setup: $(STAMP)

# What running takes, half of what developing takes; whoever has that needs no more.
RUNS := $(if $(wildcard $(STAMP)),,$(VENV)/.runs)

$(VENV)/.runs: deploy/requirements.lock deploy/build.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "proxyd needs Python 3.11 or later; set PYTHON=")'
	@echo "installing what proxyd needs to run, into $(VENV): this takes about a minute, the first time only"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r deploy/requirements.lock -r deploy/build.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "proxyd needs Python 3.11 or later; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

run: $(RUNS)
	exec $(BIN)/proxyd serve

test: lint types imports unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

# Everything but what is marked long: the same examples every time, on virtual time or on daemons that wait for nothing.
unit: setup
	$(BIN)/pytest --numprocesses 4 --dist worksteal -m "not long"

# Everything: many new examples, every process executed, and alone, one after the other, what is measured by the clock.
test-all: lint types imports
	EXEC_ALL=1 $(BIN)/pytest --numprocesses 3 --dist worksteal -m "not alone and not soak" --hypothesis-profile=long
	EXEC_ALL=1 $(BIN)/pytest -m alone
	EXEC_ALL=1 $(BIN)/pytest -m soak

soak: setup
	SOAK_S=1200 $(BIN)/pytest -m soak -s tests/soak

# Rewrites the locks from pyproject.toml: what developing takes, what the image runs, what builds the wheel, what signs
# and publishes it. They name versions and hashes, never an index; the versions are the same in all of them.
UV = $(VENV)/lock/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --quiet

lock: setup
	$(PYTHON) -m venv $(VENV)/lock && $(VENV)/lock/bin/pip install --quiet uv
	$(UV) pyproject.toml --extra dev --output-file requirements.lock
	$(UV) pyproject.toml --extra apprise --extra browser --extra cluster --extra fast --extra fulltext --extra oidc \
		--extra terminal --extra tracing --constraint requirements.lock \
		--output-file deploy/requirements.lock
	printf 'editables>=0.5\nhatchling>=1.27\n' | $(UV) - --constraint requirements.lock --output-file deploy/build.lock
	printf 'pypi-attestations>=0.0.29\nuv>=0.9.12\n' | $(UV) - --constraint requirements.lock \
		--output-file deploy/publishing.lock

# proxyd beside other programs, each installed in an environment of its own: one mix, and all of them three times.
# TRACE=forums2013.csv adds the mix of a trace, which has a source and a Unix time a line.
peers: $(STAMP)
	$(BIN)/python benchmarks/peers/run.py --mixes uneven

peers-full: $(STAMP)
	$(BIN)/python benchmarks/peers/run.py --runs 3 --length 160 --day 64 $(if $(TRACE),--trace $(TRACE)) \
		--write docs/comparison.md

# The same bytes from the same commit, wherever and whenever it is built.
wheel: setup
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation \
		--wheel-dir $(DIST) .

# What the wheel can be built of, without the rest of the project.
sdist: setup
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build -t sdist -d $(DIST)

# A Debian package of the wheel, for the Debian that builds it.
deb: wheel
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) PIP="$(BIN)/python -m pip" deploy/debian/build.sh \
		$(DIST)/proxyd-$$($(BIN)/python -c 'import proxyd; print(proxyd.__version__)')-py3-none-any.whl $(DIST)

# The documents as a site, in dist/site; a link that leads nowhere is an error.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --config-file deploy/site/mkdocs.yml

# What the image and an installation by the lock hold, as CycloneDX.
sbom: setup
	mkdir -p $(DIST)
	$(BIN)/cyclonedx-py requirements deploy/requirements.lock --pyproject pyproject.toml --output-reproducible \
		--output-file $(DIST)/sbom.json

# Asks PyPI for known vulnerabilities of every locked version. --strict: what cannot be asked about is no pass.
audit: setup
	$(BIN)/pip-audit --requirement requirements.lock --require-hashes --disable-pip --strict --progress-spinner off

# Rewrites the table of docs/licences.md; what stands above it stays.
licences: setup
	sed '/^|/,$$d' docs/licences.md > $(VENV)/licences.md
	$(BIN)/pip-licenses --from=mixed --format=markdown --no-version \
		--packages $$(sed -n 's/==.*//p' deploy/requirements.lock) >> $(VENV)/licences.md
	mv $(VENV)/licences.md docs/licences.md

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
