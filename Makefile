# SPDX-License-Identifier: Apache-2.0
# The front door: everything from a fresh Debian 12+ or Ubuntu 24.04+ on. CMake presets do the work.
.DEFAULT_GOAL := help
.PHONY: help deps build test demo check clean

help:
	@echo "make demo    install what is missing, build, train a small model on pictures of shapes, show what it learnt"
	@echo "make test    install what is missing, build, run all tests"
	@echo "make build   install what is missing, build build/release/lathe"
	@echo "make check   what CI runs: the tests, format, lint, include order, sanitizers (.ci/run)"
	@echo "make clean   remove build/"

deps:
	@tools/install-deps.sh

build: deps
	cmake --preset release
	cmake --build --preset release --target lathe

test: build
	cmake --build --preset release
	ctest --preset release

demo: build
	examples/shapes/demo.sh build/release/lathe

check:
	.ci/run

clean:
	rm -rf build
