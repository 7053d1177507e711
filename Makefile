# SPDX-License-Identifier: Apache-2.0
# A thin front for CMake + Ninja. Each goal installs the packages it misses (RLX_NO_INSTALL=1 only
# lists them), configures, builds and runs.
BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
FLAGS  ?=# more for cmake, such as -DRLX_WERROR=ON

CONFIGURE = cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release $(FLAGS)
NINJA     = cmake --build $(BUILD) --parallel $(JOBS)
CTEST     = ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS)

.PHONY: all demo test test-full bench install clean format

all:
	@scripts/install-deps.sh build
	@$(CONFIGURE) --log-level=WARNING
	@$(NINJA) --target rlx_product

demo: all
	@$(BUILD)/rlx demo

# The quick tier: everything that is not labelled `full`.
test:
	@scripts/install-deps.sh build test
	@$(CONFIGURE) --log-level=WARNING -DRLX_BUILD_TESTS=ON
	@$(NINJA)
	@$(CTEST) -LE full

# With clang and its runtimes, for libFuzzer; the quick tier again on what clang optimises and on
# another architecture.
test-full:
	@scripts/install-deps.sh build test mpi ci
	@$(CONFIGURE) --log-level=WARNING -DRLX_BUILD_TESTS=ON
	@$(NINJA)
	@$(CTEST)
	@.ci/run clang-tests aarch64-whole

# With the packages of other libraries, to compare with them.
bench:
	@scripts/install-deps.sh build mpi bench
	@$(CONFIGURE) --log-level=WARNING
	@$(NINJA)
	@$(BUILD)/rlx bench

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	@rm -rf build build-*

format:
	@git ls-files '*.c' '*.h' '*.cpp' | xargs clang-format -i
