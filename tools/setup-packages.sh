# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash disable=SC2034 # tools/setup uses them
# The packages of each part of tools/setup, which reads this file.

readonly BASE_PACKAGES=(gcc g++ make pkg-config libc6-dev ca-certificates git)
# What the tests of the crates run besides: memory checks and counts of instructions.
readonly TESTS_PACKAGES=(valgrind file)
# What `make check` runs besides: a lint of shell scripts, and the comparison of the C library's interface.
readonly CHECK_PACKAGES=(shellcheck abigail-tools)
# A second look at the licences, bans and sources of crates, built from crates.io.
readonly DENY_VERSION=0.20.2
readonly RUST_PACKAGES=(cargo-web rustc-web)
readonly DEMO_PACKAGES=(qemu-system-x86 busybox-static kmod)
readonly LAB_PACKAGES=(qemu-system-x86 qemu-utils strace libnbd-bin nbdkit nbd-client busybox-static fio nvme-cli e2fsprogs kmod pciutils
    tcpdump tshark vblade)
# Programs that use mapped files and mounted folders in the tests, and what takes a recorder's finished files away.
readonly MAP_PACKAGES=(sqlite3 ripgrep python3-numpy python3-lmdb rsync fuse3 stress-ng rclone restic)
# A bare RISC-V machine: its linker, and Debian's Rust with the sources of the core library.
readonly RISCV_PACKAGES=(binutils-riscv64-unknown-elf cargo-web rustc-web rust-web-src)
readonly RISCV_TARGET=riscv32imac-unknown-none-elf
# The machine that the coprocessor runs on in the lab.
readonly RISCV_MACHINE=qemu-system-misc
# The programs in the arm64 machine, with the libraries that apt adds. Other packages that these depend on (adduser, perl-base)
# serve their installation, which does not happen here. What has no program of its own there is busybox's.
readonly AARCH64_TREE=(busybox-static libc6 libgcc-s1 nvme-cli bash coreutils util-linux mount e2fsprogs grep sed tar kmod pciutils
    python3-minimal python3.11-minimal python3.11 fio linux-perf
    python3-numpy python3-pytest python3-attr python3-iniconfig python3-packaging python3-pluggy)
# Programs for 64-bit Arm, and bare ones that count instructions (firmware/count).
readonly CROSS_TARGETS=(aarch64-unknown-linux-gnu aarch64-unknown-none riscv64imac-unknown-none-elf)
# The command as one static file, for this machine and for 64-bit Arm.
readonly STATIC_TARGETS=(x86_64-unknown-linux-musl)
readonly STATIC_AARCH64_TARGETS=(aarch64-unknown-linux-musl)
# What builds a kernel from its source.
readonly KERNEL_PACKAGES=(gcc make flex bison bc libelf-dev libssl-dev xz-utils kmod)
# The module is checked by sparse and built for arm64 too.
readonly CHARIO_PACKAGES=(gcc make sparse gcc-aarch64-linux-gnu)
# fio, and what unpacks and configures its sources for the engine in crates/c/fio.
readonly FIO_PACKAGES=(fio gcc make dpkg-dev)
# GStreamer's headers and its launcher, for the element in crates/c/gstreamer.
readonly GSTREAMER_PACKAGES=(libgstreamer1.0-dev gstreamer1.0-tools gcc pkg-config)
# What checks the Debian packages, and builds the module from its package.
readonly PACKAGES_PACKAGES=(lintian dkms kmod pahole)
# A browser that renders the reports, and perf, which takes the profiles.
readonly INSTRUMENT_PACKAGES=(chromium linux-perf)
# What makes file systems, partition tables and parts of arrays in a file, with the libraries that few machines have.
readonly MKFS_TREE=(dosfstools xfsprogs btrfs-progs f2fs-tools ntfs-3g jfsutils nilfs-tools reiserfsprogs reiser4progs exfatprogs
    squashfs-tools erofs-utils genisoimage udftools cryptsetup-bin bcache-tools gfs2-utils ocfs2-tools mtd-utils hfsutils makefs
    genromfs fdisk gdisk parted drbd-utils mdadm
    libcorosync-common4 libcpg4 libquorum5 libinih1 libntfs-3g89 libparted2 liburcu8 libcmap4 libdlm3 libiniparser1)
# What reads metrics: promtool, which also tests alerts, and the exporter that collects them from files.
readonly PROMETHEUS_TREE=(prometheus prometheus-node-exporter)
# The reference for the nucleotide search, and a genome with contigs to search in.
readonly BLAST_PACKAGES=(ncbi-blast+ abacas-examples)
