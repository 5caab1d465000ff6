# make help lists the targets. MUJOCO=3.17.0 uses another release of MuJoCo: every release has its own
# virtual environment and build directory.

NEWEST := $(firstword $(shell cat cmake/mujoco_releases.txt))
MUJOCO ?= $(NEWEST)
PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)

SUFFIX := $(if $(filter $(NEWEST),$(MUJOCO)),,-$(MUJOCO))
VENV := .venv$(SUFFIX)
BUILD := build$(SUFFIX)
VENV_PYTHON := $(CURDIR)/$(VENV)/bin/python

# ninja, and cmake where the system's is too old, are in the virtual environment
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

CONFIGURE = cmake -DDIFFMJ_PYTHON=$(VENV_PYTHON) --preset
CTEST = ctest --output-on-failure --no-tests=error --parallel $(JOBS) --test-dir
PYTEST = PYTHONPATH=$(CURDIR)/$(BUILD)/python $(VENV_PYTHON) -m pytest tests/python
CXX_FILES = find include src tests bench examples python -name '*.h' -o -name '*.cc'
CMAKE_FILES = find CMakeLists.txt cmake bench examples python tests -name CMakeLists.txt -o -name '*.cmake'

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(VENV)/.ready: scripts/setup.sh scripts/apt_install.sh scripts/requirements.txt scripts/requirements-fixtures.txt
	scripts/setup.sh $(PYTHON) $(VENV) $(MUJOCO)
	@touch $@

.PHONY: setup
setup: $(VENV)/.ready ## the virtual environment, and packages that are missing

$(BUILD)/build.ninja: $(VENV)/.ready CMakePresets.json
	$(CONFIGURE) dev -B $(BUILD)
	@touch $@

.PHONY: build
build: $(BUILD)/build.ninja ## library, command-line program, Python package, tests
	cmake --build $(BUILD) --parallel $(JOBS)

.PHONY: package
package: $(BUILD)/build.ninja ## the Python package alone, which is what make demo needs
	cmake --build $(BUILD) --parallel $(JOBS) --target diffmj_python

# the set-up installs MyoSuite's models: tests that do not find them fail instead of being skipped
export DIFFMJ_REQUIRE_MYOSUITE = 1

.PHONY: browser
browser:
	@scripts/setup_browser.sh

.PHONY: test
test: build browser ## all tests, C++ and Python
	$(CTEST) $(BUILD)
	$(PYTEST)

.PHONY: test-unit
test-unit: build ## the quick C++ tests
	$(CTEST) $(BUILD) -L unit

.PHONY: test-smoke
test-smoke: build ## a few tests of every part, for another release of MuJoCo
	$(CTEST) $(BUILD) -L smoke
	$(PYTEST) -m smoke

# PyTorch is large: its environment is apart, and make clean-torch removes it
VENV_TORCH := .venv-torch$(SUFFIX)

$(VENV_TORCH)/.ready: $(VENV)/.ready scripts/setup_extra.sh scripts/requirements-torch.txt
	scripts/setup_extra.sh $(VENV) $(VENV_TORCH) scripts/requirements-torch.txt
	@touch $@

TORCH_TESTS = tests/python/test_torch.py tests/python/test_package.py::test_examples_with_pytorch

.PHONY: test-torch
test-torch: package $(VENV_TORCH)/.ready ## the tests of diffmj.torch, with PyTorch in an environment of its own
	DIFFMJ_REQUIRE_TORCH=1 PYTHONPATH=$(CURDIR)/$(BUILD)/python $(VENV_TORCH)/bin/python -m pytest $(TORCH_TESTS)

.PHONY: clean-torch
clean-torch: ## remove the environment with PyTorch
	rm -rf $(VENV_TORCH)

# so is that of Ray, which nothing else here needs
VENV_RAY := .venv-ray$(SUFFIX)

$(VENV_RAY)/.ready: $(VENV)/.ready scripts/setup_extra.sh scripts/requirements-ray.txt
	scripts/setup_extra.sh $(VENV) $(VENV_RAY) scripts/requirements-ray.txt
	@touch $@

.PHONY: test-ray
test-ray: package $(VENV_RAY)/.ready ## the tests of diffmj.ray, on a cluster of two nodes on this machine
	DIFFMJ_REQUIRE_RAY=1 PYTHONPATH=$(CURDIR)/$(BUILD)/python $(VENV_RAY)/bin/python -m pytest tests/python/test_ray.py

# the site and the type checker have environments of their own, too
VENV_DOCS := .venv-docs$(SUFFIX)

$(VENV_DOCS)/.ready: $(VENV)/.ready scripts/setup_extra.sh scripts/requirements-docs.txt
	scripts/setup_extra.sh $(VENV) $(VENV_DOCS) scripts/requirements-docs.txt
	@touch $@

DOCS_PYTHON = PYTHONPATH=$(CURDIR)/$(BUILD)/python $(VENV_DOCS)/bin/python
SPHINX = $(DOCS_PYTHON) -m sphinx -W --keep-going

.PHONY: docs
docs: package $(VENV_DOCS)/.ready ## the documentation site: build-docs/html/index.html
	$(DOCS_PYTHON) docs/site/stage.py build-docs/source
	$(SPHINX) -b html build-docs/source build-docs/html
	$(DOCS_PYTHON) docs/site/check_links.py build-docs/html

.PHONY: docs-links
docs-links: docs ## do the links of the site to other sites lead somewhere? Needs a network
	$(SPHINX) -b linkcheck -D nb_execution_mode=off build-docs/source build-docs/linkcheck

.PHONY: types
types: package $(VENV_DOCS)/.ready ## mypy --strict: the package, its stubs, and a program that uses them
	MYPYPATH=$(BUILD)/python $(VENV_DOCS)/bin/python -m mypy -p diffmj
	MYPYPATH=$(BUILD)/python $(VENV_DOCS)/bin/python -m mypy tests/typing/program.py

.PHONY: clean-docs
clean-docs: ## remove the site and its environment
	rm -rf $(VENV_DOCS) build-docs

# wheels for every supported MuJoCo; make wheel WHEEL_PYTHONS="python3.11 python3.12" for several Pythons
WHEEL_PYTHONS ?= $(PYTHON)

.PHONY: wheel
wheel: ## sdist and manylinux wheels into dist/, tested in fresh virtual environments
	$(PYTHON) scripts/build_wheels.py --out dist --work build-wheel $(WHEEL_PYTHONS)
	$(PYTHON) scripts/check_wheels.py --wheels dist --work build-wheel $(WHEEL_PYTHONS)

RUN = PYTHONPATH=$(CURDIR)/$(BUILD)/python $(VENV_PYTHON) -m

.PHONY: demo
demo: package ## the experiments in short, as a page to look at: out/report/index.html
	@$(RUN) experiments.demo

# make experiments EXPERIMENTS=toss runs one of them; every folder with an about.toml is one
EXPERIMENTS ?= $(sort $(patsubst experiments/%/about.toml,%,$(wildcard experiments/*/about.toml)))

.PHONY: experiments
experiments: package ## figures of the paper, with their numbers checked: out/experiments
	@for name in $(EXPERIMENTS); do $(RUN) experiments.$$name.run || exit 1; done

.PHONY: docs-figures
docs-figures: package ## redraw the figures in docs/figures
	$(RUN) experiments.first_gradient.figure docs/figures
	$(RUN) experiments.impact.figure docs/figures

.PHONY: bench
bench: $(VENV)/.ready ## the benchmarks, in an optimised build
	$(CONFIGURE) release -B build-release$(SUFFIX)
	cmake --build build-release$(SUFFIX) --parallel $(JOBS) --target diffmj_benchmarks
	@for bench in build-release$(SUFFIX)/bench/bench_*; do \
	  if [ -f $$bench ] && [ -x $$bench ]; then $$bench || exit 1; fi; done

.PHONY: asan
asan: $(VENV)/.ready ## the C++ tests under the address and undefined behaviour sanitizers
	$(CONFIGURE) asan-ubsan
	cmake --build --preset asan-ubsan --parallel $(JOBS)
	ctest --preset asan-ubsan --parallel $(JOBS) -L "unit|system"

.PHONY: tsan
tsan: $(VENV)/.ready ## the C++ tests under the thread sanitizer
	$(CONFIGURE) tsan
	cmake --build --preset tsan --parallel $(JOBS)
	ctest --preset tsan --parallel $(JOBS) -L "unit|system"

.PHONY: tidy
tidy: $(BUILD)/build.ninja ## clang-tidy
	find src tests bench examples python/src -name '*.cc' -not -path '*/cmake_project/*' | \
	  xargs -P $(JOBS) -n 1 clang-tidy --quiet -p $(BUILD) --extra-arg=-Wno-unknown-warning-option

$(VENV)/.ready-dev: $(VENV)/.ready scripts/requirements-dev.txt
	$(VENV_PYTHON) -m pip install --quiet --disable-pip-version-check -r scripts/requirements-dev.txt
	@touch $@

.PHONY: format
format: $(VENV)/.ready-dev ## format C++, CMake and Python
	$(CXX_FILES) | xargs clang-format -i
	$(CMAKE_FILES) | xargs gersemi --quiet --in-place
	ruff format
	ruff check --fix

.PHONY: lint
lint: $(VENV)/.ready-dev ## is everything formatted?
	$(CXX_FILES) | xargs clang-format --dry-run --Werror
	$(CMAKE_FILES) | xargs gersemi --quiet --check
	ruff format --check
	ruff check

.PHONY: clean
clean: ## remove what was built; virtual environments stay
	rm -rf build build-* dist

.PHONY: distclean
distclean: clean ## remove the virtual environments too
	rm -rf .venv .venv-*
