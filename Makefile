# A thin face over CMake; `make help` lists what there is. Everything real is in CMakeLists.txt and
# tools/. Variables: BUILD (folder), BUILD_TYPE, KINET_WERROR, KINET_CUDA_ARCHITECTURES, JOBS.
BUILD        ?= build
BUILD_TYPE   ?= Release
KINET_WERROR ?= OFF
JOBS         ?= $(shell nproc 2>/dev/null || echo 2)

# Asked in the recipe, not here: `make deps` may have installed ninja a moment ago.
configure = generator=; test -f $(1)/CMakeCache.txt || ! command -v ninja >/dev/null || generator='-G Ninja'; \
	cmake -S . -B $(1) $$generator -DKINET_WERROR=$(KINET_WERROR) \
	$(if $(KINET_CUDA_ARCHITECTURES),-DKINET_CUDA_ARCHITECTURES="$(KINET_CUDA_ARCHITECTURES)") $(2)
run_tests = tools/run_tests.sh $(1) $(JOBS) $(2)

export CCACHE_SLOPPINESS ?= pch_defines,time_macros  # it may keep what uses precompiled headers

.NOTPARALLEL:
.PHONY: build all configure deps train smoke test check cuda-check cuda-static rdma threads bench format lint sizes install clean help
.DEFAULT_GOAL := build

build: configure  ## the program, build/kinet (the default)
	cmake --build $(BUILD) -j $(JOBS) --target kinet

all: configure  ## the program, all tests and examples
	cmake --build $(BUILD) -j $(JOBS)

configure:
	@$(call configure,$(BUILD),-DCMAKE_BUILD_TYPE=$(BUILD_TYPE))

deps:  ## install the Debian packages that are missing
	@tools/deps.sh

train: deps build  ## train LeNet on Fashion-MNIST
	$(BUILD)/kinet train models/lenet/solver.prototxt

smoke: all  ## the quick gate before a commit: tests of label smoke, under 20 s
	@$(call run_tests,$(BUILD),smoke)

test: deps all  ## all unit and integration tests
	@$(call run_tests,$(BUILD),'unit|integration')

check:  ## tests of label core under the address and undefined-behaviour sanitizers, then cuda-check, cuda-static, threads and rdma
	@$(call configure,build-asan,-DCMAKE_BUILD_TYPE=Debug -DKINET_SANITIZE=address$(comma)undefined -DKINET_TEST_LABEL=core -DKINET_BUILD_BENCH=OFF)
	cmake --build build-asan -j $(JOBS)
	@$(call run_tests,build-asan,core)
	@$(MAKE) --no-print-directory cuda-check
	@$(MAKE) --no-print-directory cuda-static
	@$(MAKE) --no-print-directory threads
	@$(MAKE) --no-print-directory rdma

cuda-check: all  ## every CUDA kernel in the check mode of the emulation (no GPU needed)
	@$(call run_tests,$(BUILD),cuda_check)

cuda-static: configure  ## no spills, and registers and 128-bit accesses of each CUDA kernel; needs nvcc, no GPU
	cmake --build $(BUILD) -j $(JOBS) --target cuda_static

rdma: all  ## RDMA tests in an emulated machine with Soft-RoCE devices, two kernels
	@tests/rdma_vm/run.sh $(BUILD)

threads:  ## tests of label threads under the thread sanitizer
	@$(call configure,build-tsan,-DCMAKE_BUILD_TYPE=Debug -DKINET_SANITIZE=thread -DKINET_TEST_LABEL=threads -DKINET_BUILD_BENCH=OFF)
	cmake --build build-tsan -j $(JOBS)
	@$(call run_tests,build-tsan,threads)

bench: configure  ## build and run bench/
	cmake --build $(BUILD) -j $(JOBS) --target benches
	@set -e; for b in $(BUILD)/bench/*_bench; do if test -x $$b; then echo "== $$b"; $$b; fi; done

format:  ## clang-format all C++ files in place
	@tools/format.sh --fix

lint:  ## format, include rules, file rules, clang-tidy on a share of the files
	@tools/lint.sh

sizes:  ## lines per folder; fails over the budget
	@python3 tools/sizes.py

install: build  ## install under CMAKE_INSTALL_PREFIX
	cmake --install $(BUILD)

clean:  ## remove the build folders
	rm -rf $(BUILD) build-asan build-tsan build-lint

help:  ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1|/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='|' read -r name text; do printf '  make %-11s %s\n' "$$name" "$$text"; done

comma := ,
