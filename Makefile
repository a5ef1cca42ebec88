# The common commands. Each sets up what it needs; see CONTRIBUTING.md.
SHELL := /bin/bash
ONLY ?=
STATES ?= 10000000
SEED ?=
PREFIX ?= /usr/local
DESTDIR ?=
# The build of the command to install.
COMMAND ?= target/release/straightway
# The command that writes the manual pages and the completions: another one if COMMAND does not run here; empty to leave them out.
WRITER ?= $(COMMAND)
# The folder of the C library.
LIBDIR ?= $(PREFIX)/lib
# The folder of systemd's units.
UNITS ?= $(PREFIX)/lib/systemd/system
# The folder with the C library to install.
LIBRARY ?= $(dir $(COMMAND))
VERSION = $(shell sed -n '0,/^version = /s/^version = "\(.*\)"/\1/p' Cargo.toml)
MAJOR = $(firstword $(subst ., ,$(VERSION)))

.PHONY: help demo test test-all test-fast test-rtl sim-hwfs test-arm64 test-iommufd soak figures reproduce check build link-c setup install install-c fio-engine wheel wheel-arm64 packages packages-arm64 static static-arm64 source

help:
	@echo "make demo       set up, then compare every path to an emulated NVMe drive (out/demo/)"
	@echo "make test       set up, then run every test (ONLY=lab, or ONLY=a part of a test's name)"
	@echo "make test-all   the same with every kernel, machine and width for every test (make test deals them over four commits)"
	@echo "make test-fast  the tests that need no virtual machine, with short searches (ONLY=crates/volume for one crate, or a part of a test's name)"
	@echo "make test-rtl   the hardware's tests and proofs"
	@echo "make sim-hwfs   serve a volume through the simulated file system core, as hwfs:SOCKET (DISK=disk.img SOCKET=front.sock)"
	@echo "make test-arm64 whole files of the lab's tests on 64-bit Arm (make test has a part of them)"
	@echo "make test-iommufd the tests of VFIO on a kernel whose VFIO has no groups, which this builds first (ten minutes of one processor)"
	@echo "make soak       the crash search over 10 million states (STATES=n SEED=n), simulated worlds for SECONDS=600, then 1,000 lives of a SATA drive (LIVES=), then ten minutes of maps amid failures (STORM=600s), then ThreadSanitizer"
	@echo "make figures    measure the published figures into docs/figures.md (ONLY=volume for one area)"
	@echo "make reproduce  repeat a thesis's figures in the lab (docs/reproduce.md; ONLY=sweep for a part)"
	@echo "make check      formatting, lints, documentation, licences, links, sizes"
	@echo "make build      build the straightway command (target/release/straightway)"
	@echo "make fio-engine build fio's engine over libstraightway (target/release/straightway_fio.so)"
	@echo "make wheel      build the Python module (build/wheels/release); wheel-arm64 for 64-bit Arm"
	@echo "make install    install it with its manual pages and completions, and libstraightway (PREFIX=/usr/local DESTDIR=)"
	@echo "make packages   Debian packages of the command, the C library and CharIO (out/packages); packages-arm64 for 64-bit Arm"
	@echo "make static     the command as one file that needs no libraries (out/packages/straightway-static); static-arm64 for 64-bit Arm"
	@echo "make source     the sources with all crates, from which Buildroot and Yocto build without a network (out/packages)"
	@echo "make setup      install what all of these need"

setup:
	@tools/setup base tests check lab lab-aarch64 aarch64 backports trixie chario fio gstreamer packages riscv blast mkfs instrument python wheel rtl

build:
	@tools/setup base
	cargo build --release --locked -p straightway-cli -p straightway-preload -p straightway-c
	@$(MAKE) --no-print-directory link-c

# The name of the interface beside the library that was built, so that a program linked with it there also runs.
link-c:
	@ln -sfn libstraightway.so $(LIBRARY)/libstraightway.so.$(MAJOR)

# target/release/straightway_fio.so, for exactly the installed fio.
fio-engine: build
	@tools/setup fio
	crates/c/fio/build

# build/wheels/release/straightway-*.whl, for `pip install`.
wheel:
	@tools/setup base wheel
	crates/python/build

# The same for arm64.
wheel-arm64:
	@tools/setup base wheel aarch64
	crates/python/build --aarch64

# Debian packages for this machine's architecture: out/packages/*.deb.
packages: build
	tools/packages

# The command as one file that needs no libraries, for any x86-64 Linux: out/packages/straightway-static.
static: export STRAIGHTWAY_COMMIT = $(shell git rev-parse HEAD 2>/dev/null)
static:
	@tools/setup base static
	tools/cross --static cargo build --release --locked -p straightway-cli
	@mkdir -p out/packages
	strip -o out/packages/straightway-static target/x86_64-unknown-linux-musl/release/straightway

# For any 64-bit Arm Linux: out/packages/straightway-static-arm64.
static-arm64: export STRAIGHTWAY_COMMIT = $(shell git rev-parse HEAD 2>/dev/null)
static-arm64:
	@tools/setup base static-aarch64
	tools/cross --static-aarch64 cargo build --release --locked -p straightway-cli
	@mkdir -p out/packages
	aarch64-linux-gnu-strip -o out/packages/straightway-static-arm64 target/aarch64-unknown-linux-musl/release/straightway

# Debian packages for arm64.
packages-arm64: build
	@tools/setup base aarch64
	tools/cross cargo build --release --locked -p straightway-cli -p straightway-preload -p straightway-c
	tools/packages --arm64

# The sources of this commit with all crates, for builds without a network: out/packages/straightway-VERSION.tar.gz.
source:
	@tools/setup base
	tools/source

# Installs what `make build` built, so that root needs no compiler.
install: install-c
	@test -x $(COMMAND) || { echo "install: $(COMMAND) does not exist; hint: make build" >&2; exit 1; }
	install -D -m 755 $(COMMAND) $(DESTDIR)$(PREFIX)/bin/straightway
	install -D -m 644 $(dir $(COMMAND))libstraightway_preload.so $(DESTDIR)$(PREFIX)/lib/straightway/libstraightway_preload.so
	install -d $(DESTDIR)$(UNITS)
	sed 's|@PREFIX@|$(PREFIX)|' packaging/systemd/straightway-record@.service.in \
	    >$(DESTDIR)$(UNITS)/straightway-record@.service
ifneq ($(WRITER),)
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	$(WRITER) man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(WRITER) completions bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/straightway
	$(WRITER) completions zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_straightway
	$(WRITER) completions fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/straightway.fish
endif

# libstraightway: shared, static, its header and its description for pkg-config.
install-c:
	@test -e $(LIBRARY)/libstraightway.so || { echo "install: $(LIBRARY)/libstraightway.so does not exist; hint: make build" >&2; exit 1; }
	install -D -m 755 $(LIBRARY)/libstraightway.so $(DESTDIR)$(LIBDIR)/libstraightway.so.$(VERSION)
	ln -sf libstraightway.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libstraightway.so.$(MAJOR)
	ln -sf libstraightway.so.$(MAJOR) $(DESTDIR)$(LIBDIR)/libstraightway.so
	install -D -m 644 $(LIBRARY)/libstraightway.a $(DESTDIR)$(LIBDIR)/libstraightway.a
	install -D -m 644 crates/c/include/straightway.h $(DESTDIR)$(PREFIX)/include/straightway.h
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|; s|@VERSION@|$(VERSION)|' crates/c/straightway.pc.in \
	    >$(DESTDIR)$(LIBDIR)/pkgconfig/straightway.pc

# The build goes on while QEMU and a kernel are fetched.
demo:
	@tools/setup base
	@tools/setup demo & setup=$$!; \
	    cargo build --release --locked -p straightway-cli -p straightway-preload; built=$$?; \
	    wait $$setup && exit $$built
	@tools/demo

test:
	@tools/space
	@tools/setup base tests lab lab-aarch64 aarch64 backports trixie chario fio gstreamer packages riscv blast mkfs instrument python wheel rtl
	@tools/test $(ONLY)

# Every cell of each dimension (tools/suites/deal.py), of which `make test` takes a quarter; and place and route.
test-all:
	@tools/setup pjdfstest readers data
	@STRAIGHTWAY_CELLS=all STRAIGHTWAY_PLACE=1 $(MAKE) --no-print-directory test

test-fast:
	@tools/setup base tests
	@tools/test --fast rust $(ONLY)

soak:
	@tools/setup base tests sources
	cargo run --release --locked -p straightway-volume --example soak -- $(STATES) $(SEED)
	cargo run --release --locked -p straightway-simulator -- --seed $(or $(SEED),$$(date +%s)) --seconds $(or $(SECONDS),600) --report out/simulator
	crates/simulator/mutate
	@tools/setup rtl
	build/venv/bin/python rtl/sata_soak.py $(or $(LIVES),1000) $(SEED)
	@if [ "$$(id -u)" = 0 ]; then \
	    cargo run --release --locked -p straightway-map --example map -- storm $(or $(STORM),600s); \
	else echo "SKIPPED: map storm serves the faults of system calls; run as root"; fi
	tools/tsan
	tools/sanitizers
	tools/fuzz

test-rtl:
	@tools/setup base tests rtl
	@tools/test rtl proofs

# The simulated file system core on hwfs:SOCKET, until it is interrupted.
sim-hwfs:
	@tools/setup base rtl
	@build/venv/bin/python rtl/sim_hwfs.py $(or $(DISK),disk.img) $(or $(SOCKET),front.sock)

# In emulated machines with an SMMUv3 and without, on Debian's two kernels for arm64.
test-arm64:
	@tools/setup base tests lab lab-aarch64 aarch64 backports chario fio-aarch64 static-aarch64 python wheel
	STRAIGHTWAY_ARCH=aarch64 tools/test arm64

# In emulated machines whose kernel has iommufd and the devices' own nodes, and no groups.
test-iommufd:
	@tools/setup base tests lab iommufd python
	tools/test iommufd

figures:
	@tools/setup base tests lab chario fio gstreamer python riscv wheel rtl
	@tools/figures $(ONLY)

# The thesis's figures and tables, repeated (about an hour); ONLY="sweep,counts" takes a part. Writes docs/reproduce.md.
reproduce:
	@tools/setup base tests lab chario instrument
	@tools/reproduce $(if $(ONLY),--only $(ONLY))

check:
	@tools/setup base check python
	@tools/check
