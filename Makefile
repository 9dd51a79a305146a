# Taper's front door. CMake and Ninja (or, without it, Make) do the building, in $(BUILD); `make help` lists what there is.
BUILD  ?= build
PREFIX ?= /usr/local
# In CI what is developed is clean; a warning that only another compiler has does not stop a new user.
WERROR ?= $(if $(CI),ON,OFF)

JOBS  ?= $(shell nproc)
# Tests that run at a time: those of ranks mostly wait for each other.
ATONCE = $(shell expr $(JOBS) + 1)
NINJA = cmake --build $(BUILD) --parallel $(JOBS)
CTEST = ctest --test-dir $(BUILD) --output-on-failure

.PHONY: all lint setup setup-test setup-long configure python demo test test-all fuzz test-device test-clients kernels install dist release wheels test-wheels test-chroots bench docs reference clean help

all: configure
	@$(NINJA)
	@$(MAKE) --no-print-directory reference

# What a goal needs is asked for all at once, before anything is built.
setup:
	@tools/setup.sh build
setup-test:
	@tools/setup.sh build test python
setup-long:
	@tools/setup.sh build test python long

# CMake runs again by itself when the build's files change. CMAKE_ARGS holds options of the first run: make CMAKE_ARGS=-DTAPER_BLAS=MKL.
configure: setup
	@test -f $(BUILD)/build.ninja || test -f $(BUILD)/Makefile || cmake -S . -B $(BUILD) $$(command -v ninja > /dev/null && echo -G Ninja) \
		-DTAPER_WERROR=$(WERROR) -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_ARGS)

demo: configure
	@$(NINJA) --target digits
	@$(BUILD)/examples/digits examples/data $(BUILD)/digits.pt

# CMake keeps what it found of the Python before.
CONFIGURE_PYTHON = cmake -U '_Python3_*' -DTAPER_PYTHON=ON $(BUILD)
LOGGED = > $(BUILD)/configure.log || { cat $(BUILD)/configure.log; exit 1; }

# .venv, and a build that makes the package for it and the tests.
python: setup-test configure
	@tools/venv.sh $(BUILD)
	@$(CONFIGURE_PYTHON) -DTAPER_BUILD_TESTS=ON -DPython3_EXECUTABLE=$(CURDIR)/.venv/bin/python $(LOGGED)

test: python
	@tools/lint.sh
	@$(NINJA) --target all tests
	@$(MAKE) --no-print-directory reference
	@$(CTEST) -LE long -j $(ATONCE)

# Layout and lint of every tracked file; FIX=1 lays out what a tool can lay out.
lint: python
	@tools/lint.sh $(if $(FIX),--fix)

test-all: setup-long test
	@$(CTEST) -L long

# Every parser under libFuzzer with sanitizers, two at a time: make fuzz MINUTES=60 for each (tests/fuzz).
MINUTES ?= 10
fuzz: setup-long
	@TAPER_BUILD_DIR=$(abspath $(BUILD)) tests/fuzz/run.sh $(MINUTES)

# Every operator's samples on a device against the CPU: make test-device DEVICE=cuda, xpu (OpenCL; processors too) or test. In as many parts at once as
# there are processors: what is not compiled ahead is compiled first.
DEVICE ?= test
PARTS ?= $(shell nproc)
test-device: configure
	@$(NINJA) --target operators_device_test gpu_large_test
	@cd $(BUILD) && seq $(PARTS) | TAPER_XPU_DEVICES=$${TAPER_XPU_DEVICES:-all} TAPER_TEST_DEVICE=$(DEVICE) xargs -P $(PARTS) -I{} env TAPER_TEST_PART={}/$(PARTS) tests/operators_device_test
	@test $(DEVICE) = test || (cd $(BUILD) && TAPER_XPU_DEVICES=$${TAPER_XPU_DEVICES:-all} TAPER_TEST_DEVICE=$(DEVICE) tests/gpu_large_test)

# Packages from PyPI with Taper as their PyTorch, in an environment outside the tree: make test-clients CLIENTS="timm_models --pytorch PYTHON".
test-clients: python
	@$(NINJA) --target all
	@.venv/bin/python tests/clients/run.py --taper $(abspath $(BUILD))/python $(CLIENTS)

# GPU programs compiled ahead, where NVRTC is found; the library finds the archive beside itself.
kernels: configure
	@$(NINJA) --target kernels

# The Python package and the command go along where PYTHON has its headers; PYTHON=OFF leaves them out. So does the archive if
# `make kernels` made it, the site and man pages if `make docs` did.
PYTHON ?= python3
HAS_HEADERS = import os, sys, sysconfig; sys.exit(sys.version_info < (3, 10) or not os.path.exists(sysconfig.get_path("include") + "/Python.h"))
install: configure
	@if $(PYTHON) -c '$(HAS_HEADERS)' 2> /dev/null; then \
		$(CONFIGURE_PYTHON) -DPython3_EXECUTABLE=$$(command -v $(PYTHON)) $(LOGGED); \
	else \
		test $(PYTHON) = OFF || echo '$(PYTHON): no Python 3.10 or newer with its headers: the C library alone is installed (PYTHON=python3.12 names another)'; \
		cmake -DTAPER_PYTHON=OFF $(BUILD) $(LOGGED); \
	fi
	@$(NINJA)
	@cmake --install $(BUILD) --prefix $(PREFIX)

# The source archive, and the recipes of packaging/ with its checksum.
dist:
	@tools/dist.sh

# May this tree become a release? TAG=1 makes the tag; nothing is pushed.
release:
	@TAG=$(TAG) tools/release.sh

# Wheels that need nothing but a Python, for every Python and for x86-64 and aarch64, and the archive: dist/wheels. Settings are in the script.
wheels:
	@BUILD=$(BUILD) packaging/wheels/build.sh

# Minimal systems, made by debootstrap (root), where an ordinary user installs the wheels and the sources by the page's words.
test-wheels:
	@BUILD=$(BUILD) packaging/try/chroots.sh wheels
test-chroots: test-wheels
	@BUILD=$(BUILD) packaging/try/chroots.sh sources
	@BUILD=$(BUILD) packaging/try/chroots.sh blas

# BENCH holds options of bench/compare.py: make bench BENCH="--only gpt --rounds 1".
bench: setup-test configure python
	@$(NINJA) --target all benchmarks
	@$(BUILD)/bench/figures
	@.venv/bin/python bench/python.py && .venv/bin/python bench/optimisers.py
	@.venv/bin/python bench/compare.py --one-thread --compiled $(BENCH)

# The site, with search, and the man pages: $(BUILD)/site, $(BUILD)/man. `make install` takes them along.
docs: python
	@$(NINJA) --target all
	@$(MAKE) --no-print-directory reference
	@tools/venv.sh --docs $(BUILD)
	@.venv/bin/python tools/site/build.py $(BUILD) --sphinx $(BUILD)/docs-venv/bin/python

# The tables' pages and the type stubs are generated with the code; in CI a test compares instead, so what is stale shows.
reference:
	@test -n "$$CI" || for page in operators layers optimisers devices; do cmp -s $(BUILD)/generated/$$page.md docs/$$page.md || cp $(BUILD)/generated/$$page.md docs/$$page.md; done
	@test -n "$$CI" || ! ls $(BUILD)/python/taper/_C.* > /dev/null 2>&1 || PYTHONPATH=$(BUILD)/python .venv/bin/python tools/stubs.py python/taper

clean:
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-clang $(BUILD)-fuzz $(BUILD)-minimal $(BUILD)-wheels* build-pip dist .venv

help:
	@echo 'make              set up what is missing, configure, build the library and the examples'
	@echo 'make demo         train a small network on handwritten digits'
	@echo 'make test         build and run the tests; leaves .venv/bin/python able to import taper, and .venv/bin/taper'
	@echo 'make lint         clang-format, ruff and shellcheck over all files; FIX=1 lays out what a tool can'
	@echo 'make fuzz         parsers under libFuzzer: MINUTES=60 for an hour each'
	@echo 'make test-all     the long tests too: sanitizers, valgrind, failing allocations, other compilers, the wheel'
	@echo 'make test-device  every operator on a device against the CPU: DEVICE=cuda, xpu or test'
	@echo 'make test-clients packages on top of PyTorch, from PyPI, with Taper in its place: numbers beside those recorded from PyTorch'
	@echo 'make kernels      compile the GPU kernels ahead (NVRTC, no GPU needed), for every NVIDIA family'
	@echo 'make install      install to PREFIX (now $(PREFIX)): the C library, the Python package for PYTHON (now $(PYTHON)), the command'
	@echo 'make docs         the documentation site in $(BUILD)/site and the man pages in $(BUILD)/man (Sphinx from PyPI)'
	@echo 'make reference    the tables'"'"' pages of docs/ and the type stubs, as the code has them now'
	@echo 'make dist         the source archive, and recipes with its checksum, in dist/'
	@echo 'make release      is this tree ready to be a release; TAG=1 tags it'
	@echo 'make wheels       wheels with all they need inside, for every Python, x86-64 and aarch64, in dist/wheels'
	@echo 'make test-chroots as root: wheels and sources in minimal Debians and Ubuntus, as a new user installs them'
	@echo 'make bench        build and run the benchmarks, beside PyTorch (TAPER_PYTORCH=python, or from PyPI)'
	@echo 'make clean        remove what was built'
	@echo 'Settings: BUILD=build PREFIX=/usr/local WERROR=ON CC=clang (with a BUILD of its own), CMAKE_ARGS=-DTAPER_BLAS=MKL (docs/installing.md)'
