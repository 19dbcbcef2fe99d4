# make build   a virtual environment in .venv with everything in it, extensions compiled
# make run     build, then a router on amqp://127.0.0.1:5672; CONFIG=FILE for another configuration
# make test    build, lint, and all tests; installs PySpark, too, of 500 MB
# make bench   build, then where the time goes; ARGS="…" for the runner
# make clean   remove what was compiled; clean-all removes .venv, too

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RHEA := rhea@3.0.5 ws@8.18.0

# A container may say otherwise, and then each of the processes of each router that is started compiles its modules anew.
unexport PYTHONDONTWRITEBYTECODE

# How whatever is compiled here is: docs/security.md says what for.
HARDENED := CFLAGS="$$(.ci/hardening cflags $(BIN)/python)" LDFLAGS="$$(.ci/hardening ldflags)"

NATIVE := $(shell find bench core shm workers -name '*.pyx' -o -name '*.p[xy][dix]' -o -name '*.[ch]')
SYSTEM := $(VENV)/.system
TOOLS := $(VENV)/.tools
PACKAGES := $(VENV)/.packages
COMPILED := $(VENV)/.compiled
NODE := $(VENV)/.node-$(subst $(eval ) ,-,$(RHEA))
SPARK := $(VENV)/.spark

.PHONY: build run lint test bench clean clean-all
.DELETE_ON_ERROR:

build: $(COMPILED)

run: build
	@exec $(BIN)/routerd run $(if $(CONFIG),--config "$(CONFIG)")

lint: build $(SPARK)
	$(BIN)/ruff check .
	$(BIN)/mypy

# Three at once on two CPUs, too: most tests wait most of the time. So types are checked beside them, and told of behind them.
test: build $(SPARK) $(NODE)
	$(BIN)/ruff check .
	@$(BIN)/mypy >$(VENV)/.types 2>&1 & types=$$!; \
	    $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder; status=$$?; \
	    wait $$types || status=1; cat $(VENV)/.types; exit $$status

bench: build
	$(BIN)/python -m bench.run $(ARGS)

$(SYSTEM): .ci/system-packages
	.ci/system-packages build $(PYTHON)
	@mkdir -p $(VENV)
	@touch $@

$(TOOLS): $(SYSTEM) constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt setuptools wheel Cython cffi
	@touch $@

# The AMQP engine is compiled here, with the libraries found above. Installing this project compiles its extensions.
$(PACKAGES): $(TOOLS) constraints.txt pyproject.toml setup.py .ci/engine .ci/hardening
	.ci/engine install $(BIN)/python
	$(HARDENED) $(PIP) install -q -c constraints.txt --no-build-isolation --config-settings editable_mode=compat -e '.[test]'
	@touch $@ $(COMPILED)

# Not what has just been compiled by being installed.
$(COMPILED): $(PACKAGES) $(NATIVE)
	@test -z "$$(find $(NATIVE) -newer $@ 2>&1)" || \
	    $(HARDENED) $(BIN)/python -W ignore setup.py -q build_ext --inplace --parallel 2
	@touch $@

# What the data pipeline needs, without this project itself: its extensions would be compiled anew. PySpark comes
# as a source archive, of which pip makes a wheel and keeps it.
WANTED := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["pipeline"])
$(SPARK): $(PACKAGES)
	.ci/system-packages test $(PYTHON)
	$(PIP) install -q -c constraints.txt --no-build-isolation $$($(BIN)/python -c '$(WANTED)')
	@touch $@

# Another engine's client for the system tests.
$(NODE): | $(PACKAGES)
	.ci/system-packages test $(PYTHON)
	npm install --silent --no-save --prefix $(VENV)/node $(RHEA)
	@touch $@

clean:
	rm -rf build bench/build *.egg-info */*.so */*/*.so */*/*/*.so $(addsuffix .c,$(basename $(wildcard */*.pyx */*/*.pyx */*/*/*.pyx))) $(COMPILED)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

clean-all: clean
	rm -rf $(VENV)
