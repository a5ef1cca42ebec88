# The standing commands. Each sets up what it needs; see CONTRIBUTING.md.
SHELL := /bin/bash
ONLY ?=

.PHONY: help demo test test-fast figures check build setup

help:
	@echo "make demo       set up, then compare every path to an emulated NVMe drive (out/demo/)"
	@echo "make test       set up, then run every test"
	@echo "make test-fast  the tests that need no virtual machine"
	@echo "make figures    measure the published figures (ONLY=nvme for one area)"
	@echo "make check      formatting, lints, documentation, licences, links, sizes"
	@echo "make build      build the straightway command (target/release/straightway)"
	@echo "make setup      install what all of these need"

setup:
	@tools/setup base lab lab-aarch64 chario python

build:
	@tools/setup base
	cargo build --release --locked -p straightway-cli

demo:
	@tools/setup base lab chario
	@cargo build --release --locked -p straightway-cli
	@tools/demo

test:
	@tools/setup base lab lab-aarch64 chario python
	@tools/test rust chario lab

test-fast:
	@tools/setup base
	@tools/test rust

figures:
	@tools/setup base lab chario
	@tools/figures $(ONLY)

check:
	@tools/setup base python
	@tools/check
