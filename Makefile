# make demo    from a clone to a trained network on the emulated Kunlun stack
# make test    everything that must pass; .ci/run calls it
# make sweep   the loader model against every shared object at hand; make fuzz, make test-pythons
# make soak    1,000 imports of torch_fl, each in a fresh process; how many failed. Half an hour.
# make setup   what both need: .venv, the emulated SDK, the native build
# make bench   ratios against named peers; make lint, make generate, make clean

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
SDK := $(CURDIR)/build/sdk

# The emulated SDK stands in for the vendor's. Name a real one to build against that instead.
export FLAGOS_ACCELERATOR ?= kunlunxin
export XPU_ROOT ?= $(SDK)/xpu
export XDNN_ROOT ?= $(SDK)/site-packages/torch_xmlir
export XCUDART_ROOT ?= $(SDK)/xcudart

SWEEP := build/sweep
# Most tests wait for a child that imports torch. By file, because fixtures of a module build things.
IN_PARALLEL := --numprocesses 2 --dist loadfile

.PHONY: setup demo test bench lint tidy generate clean native sweep fuzz soak test-pythons

setup: native

demo: setup
	$(PY) -m tests.demo

test: setup lint
	$(PY) -m pytest $(IN_PARALLEL) tests/unit tests/loader tests/golden
	$(PY) -m pytest $(IN_PARALLEL) tests/native

# The loader model against reality: every shared object of big wheels and of the system. Minutes.
sweep: $(VENV)/.registered $(SWEEP)/.installed
	$(PY) -m tests.loader.sweep $(SWEEP)
	$(PY) -m tests.loader.sweep

# 100,000 damaged ELF files through the reader and the resolver. Minutes.
fuzz: $(VENV)/.registered
	$(PY) -m tests.loader.fuzz

soak: setup
	$(PY) -m tests.soak

# The part that needs no torch, on every Python that is installed; 3.8 and one newer than 3.11 have to be.
test-pythons: $(VENV)/.registered
	$(PY) -m tests.pythons

bench: setup
	$(PY) -m tests.bench

lint: setup
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/clang-format --dry-run --Werror $$(git ls-files '*.cc' '*.h')

# Minutes, not seconds: clang-tidy parses torch's headers once for each file.
tidy: setup
	$(VENV)/bin/clang-tidy -p build/native-* --quiet $$(git ls-files 'csrc/*.cc')

generate: setup
	$(PY) -m torch_fl._codegen

clean:
	rm -rf build $(VENV) torch_fl/_build_config.py torch_fl/lib torch_fl/_C*.so torch_fl.egg-info

# torch first and by its exact version, so that no later requirement can pull another build of it.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install torch==2.13.0
	$(PY) -m pip install "setuptools>=77" "pybind11>=2.13" cmake ninja
	touch $@

# An environment of its own for what is swept: nothing of it is imported.
$(SWEEP)/.installed:
	$(PYTHON) -m venv $(SWEEP)
	$(SWEEP)/bin/python -m pip install torch==2.13.0 numpy scipy pyarrow opencv-python-headless
	touch $@

$(SDK)/.installed: $(VENV)/.installed $(shell find tests/emulated_sdk -type f)
	$(VENV)/bin/cmake -S tests/emulated_sdk -B build/emulated_sdk -G Ninja -DCMAKE_BUILD_TYPE=Release \
	    -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja -DCMAKE_INSTALL_PREFIX=$(SDK)
	$(VENV)/bin/cmake --build build/emulated_sdk --target install
	touch $@

# Registers the checkout with the interpreter once; the native part is brought up to date every time.
$(VENV)/.registered: setup.py pyproject.toml $(VENV)/.installed $(SDK)/.installed
	$(PY) -m pip install --no-build-isolation -e ".[test,bench]"
	touch $@

native: $(VENV)/.registered
	$(PY) setup.py --quiet build_ext --inplace
