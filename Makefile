# make build   compile everything into a virtual environment, .venv
# make run     build, then run a router on amqp://127.0.0.1:5672; CONFIG=FILE names another configuration
# make lint    build, then run ruff and mypy
# make test    build, then run the linters and all tests; installs PySpark, which takes 500 MB
# make wheel   build, then make a wheel in dist, with the engine built in
# make deb     build, then make Debian packages in dist for the distribution's python3; VERSION=x names another version
# make image   make Debian packages and a Containerfile in dist, then the image, if podman, buildah or docker answers;
#              BASE=x names another image to build it on
# make test-packages  build, then test the packages: in a Debian of its own, under load, by the commands of the page
# make docs    build, then make a site of the pages in dist/site; a dead link fails
# make bench   build, then measure; ARGS="…" go to the runner
# make chaos   build, then attack a router with fuzzers and deaths for MINUTES (1); SEED=n repeats a run
# make soak    build, then do everything at once to a network of three routers for HOURS (1); SEED=n repeats a run
# make fuzz    build, then fuzz each target by coverage for MINUTES (1); TARGETS="…" names some, KEEP=1 adds to the corpora
# make simulate  build, then simulate routers for MINUTES (1) of CPU time; SEED=n begins with that life,
#              LIVES=n ends after so many
# make clean   remove compiled files; make clean-all removes .venv, too

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Python compiles a module when it is first imported; most of those that come along never are.
INSTALL := $(PIP) install -q --no-compile -c constraints.txt
RHEA := rhea@3.0.5 ws@8.18.0

# A container may set this variable; every process of every router would then compile its Python modules anew.
unexport PYTHONDONTWRITEBYTECODE

# The compiler flags of all native code; docs/security.md gives the reasons.
HARDENED := CFLAGS="$$(.ci/hardening cflags $(BIN)/python)" LDFLAGS="$$(.ci/hardening ldflags)"

NATIVE := $(shell find bench core shm workers -name '*.pyx' -o -name '*.p[xy][dix]' -o -name '*.[ch]')
SYSTEM := $(VENV)/.system
TOOLS := $(VENV)/.tools
PACKAGES := $(VENV)/.packages
COMPILED := $(VENV)/.compiled
NODE := $(VENV)/.node-$(subst $(eval ) ,-,$(RHEA))
SPARK := $(VENV)/.spark
FUZZ := $(VENV)/.fuzz
SITE := $(VENV)/.site

.PHONY: build run lint test test-packages wheel deb image docs chaos soak bench fuzz simulate clean clean-all
.DELETE_ON_ERROR:

build: $(COMPILED)

run: build
	@exec $(BIN)/routerd run $(if $(CONFIG),--config "$(CONFIG)")

lint: build $(SPARK)
	$(BIN)/ruff check .
	$(BIN)/mypy

# Four tests run at once, also on two CPUs, because most tests mostly wait. mypy runs meanwhile; its output comes last.
# pytest rewrites the assertions of all tests first, once, so that not each of the four does that.
test: build $(SPARK) $(NODE)
	$(BIN)/ruff check .
	@$(BIN)/mypy >$(VENV)/.types 2>&1 & types=$$!; \
	    $(BIN)/python -m pytest --collect-only -q >/dev/null 2>&1; \
	    $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder; status=$$?; \
	    wait $$types || status=1; cat $(VENV)/.types; exit $$status

# A wheel takes the extensions that `make build` has compiled; what an earlier wheel had is not to be in this one.
wheel: build
	rm -rf build/lib* dist/*.whl
	$(PIP) wheel -q --no-deps --no-build-isolation -w dist .

deb: wheel
	.ci/system-packages deb $(PYTHON)
	$(BIN)/python package/deb.py --wheel dist/*.whl $(if $(VERSION),--version "$(VERSION)") dist

# A builder may be installed without the service that it asks.
BUILDER = $(firstword $(foreach one,podman buildah docker,$(shell $(one) info >/dev/null 2>&1 && echo $(one))))
image: deb
	rm -rf dist/image && mkdir dist/image
	cp package/Containerfile package/image.conf dist/image
	cp "$$(ls -t dist/routerd_*.deb | head -n 1)" dist/image/routerd.deb
	@if [ -n "$(BUILDER)" ]; then DOCKER_BUILDKIT=1 $(BUILDER) build -t routerd $(if $(BASE),--build-arg BASE="$(BASE)") -f dist/image/Containerfile dist/image; \
	    else echo "there is no podman, buildah or docker that answers; make the image of dist/image elsewhere"; fi

test-packages: build
	.ci/system-packages test-packages $(PYTHON)
	ROUTERD_TEST_PACKAGES=1 $(BIN)/python -m pytest tests/system/operations/test_deb.py \
	    tests/system/operations/test_deb_service.py tests/system/operations/test_packages.py \
	    tests/system/operations/test_systemd.py

chaos: build
	$(BIN)/python -m tests.support.hostile.chaos $(or $(MINUTES),1) $(SEED)

soak: build
	$(BIN)/python -m tests.support.soak $(or $(HOURS),1) $(SEED)

docs: build $(SITE)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: build
	$(BIN)/python -m bench.run $(ARGS)

fuzz: build $(FUZZ)
	$(BIN)/python -m tests.fuzz.run $(or $(MINUTES),1) $(TARGETS) $(if $(KEEP),--keep)

simulate: build
	$(BIN)/python -m tests.support.simulation.run $(or $(MINUTES),1) $(SEED) $(if $(LIVES),--lives $(LIVES))

$(SYSTEM): .ci/system-packages
	.ci/system-packages build $(PYTHON)
	@mkdir -p $(VENV)
	@touch $@

$(TOOLS): $(SYSTEM) constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) setuptools wheel Cython cffi
	@touch $@

# .ci/engine compiles the AMQP engine with the libraries found above. Installing this project compiles its extensions.
$(PACKAGES): $(TOOLS) constraints.txt pyproject.toml setup.py .ci/engine .ci/hardening
	.ci/engine install $(BIN)/python
	$(HARDENED) $(INSTALL) --no-build-isolation --config-settings editable_mode=compat -e '.[test]'
	@touch $@ $(COMPILED)

# Compiles only sources that changed since the installation, which has compiled all of them.
$(COMPILED): $(PACKAGES) $(NATIVE)
	@test -z "$$(find $(NATIVE) -newer $@ 2>&1)" || \
	    $(HARDENED) $(BIN)/python -W ignore setup.py -q build_ext --inplace
	@touch $@

# Installs the requirements of the data pipeline by name: installing this project's extra would compile the extensions
# again. PySpark is a source archive; pip builds a wheel from it and caches the wheel.
WANTED := import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
    print(*extras["pipeline"], *extras["pipeline-test"])
$(SPARK): $(PACKAGES)
	.ci/system-packages test $(PYTHON)
	$(INSTALL) --no-build-isolation $$($(BIN)/python -c '$(WANTED)')
	@touch $@

# clang's libFuzzer for native targets, and Atheris for those in Python.
$(FUZZ): $(PACKAGES)
	.ci/system-packages fuzz $(PYTHON)
	$(INSTALL) atheris
	@touch $@

# What makes the site, and nothing else needs it. mkdocs-material is maintained until May 2027.
$(SITE): $(PACKAGES)
	$(INSTALL) mkdocs-material
	@touch $@

# A client with another AMQP engine, for system tests.
$(NODE): | $(PACKAGES)
	.ci/system-packages test $(PYTHON)
	npm install --silent --no-save --prefix $(VENV)/node $(RHEA)
	@touch $@

clean:
	rm -rf build dist bench/build *.egg-info */*.so */*/*.so */*/*/*.so $(addsuffix .c,$(basename $(wildcard */*.pyx */*/*.pyx */*/*/*.pyx))) $(COMPILED)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

clean-all: clean
	rm -rf $(VENV)
