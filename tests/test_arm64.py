# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of other files on 64-bit Arm: the same scripts in guests with an SMMUv3 and without, on Debian's two kernels, with the
command that tools/cross built. `make test-arm64` runs all that can run there.

Own guests: those of the tests, and one whose root is not this machine's.
"""

# partner: Linux on Arm | host kernel
# partner: QEMU's nvme | drive

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import chario_guest
import pytest
import scripted
import test_chario_faults
import test_compare
import test_coprocessor
import test_data
import test_events
import test_faults
import test_power
import test_sustain
import test_unplug
import test_volumes
from pool import image
from scripted import ARM64, DRIVE, ROOT, guest, own_guest
from suites import arm64 as suite
from suites import programs as programs_of


@pytest.fixture(autouse=True, scope="session")
def programs():
    if why := suite.why_not():
        pytest.skip(why)
    done = suite.build()
    assert done.status == 0, done.output


@pytest.fixture(autouse=True)
def arm64(monkeypatch):
    monkeypatch.setattr(scripted, "TARGET", ARM64)


@pytest.mark.cells("arm64")
@pytest.mark.parametrize("kernel", ["stock", "rt", "16k"])
def test_every_path_reads_what_every_path_wrote(kernel):
    try:
        image.find_kernel(kernel, "aarch64")
    except image.NotSetUp:
        pytest.skip(f"the kernel {kernel} is not there; run: tools/setup lab-aarch64 backports")
    test_data.test_every_path_reads_what_every_path_wrote(DRIVE, ("--kernel", kernel), chario_guest.built(kernel))


@pytest.mark.cells("arm64")
def test_every_path_without_an_iommu():
    test_data.test_without_an_iommu()


@pytest.mark.cells("arm64")
def test_what_one_path_puts_every_path_gets():
    test_volumes.test_what_one_path_puts_every_path_gets(DRIVE, 512)


def test_a_put_that_is_interrupted_or_killed_leaves_a_sound_volume():
    test_volumes.test_a_put_that_is_interrupted_or_killed_leaves_a_sound_volume()


def test_a_power_cut_amid_a_recording():
    test_power.test_nothing_acknowledged_is_lost_when_the_power_goes({"path": "vfio"})


def test_a_media_error_is_reported_and_the_rest_is_read(tmp_path):
    test_faults.test_a_media_error_is_reported_and_the_rest_is_read(tmp_path)


@pytest.mark.cells("arm64")
def test_a_killed_process_leaves_nothing_bound():
    test_faults.test_a_killed_process_leaves_nothing_bound()


def test_a_drive_that_is_unplugged_amid_a_recording(tmp_path):
    test_unplug.test_a_drive_that_is_unplugged_amid_a_recording_is_let_go_and_keeps_what_was_durable("vfio", tmp_path)


@pytest.mark.cells("arm64")
def test_late_commands_are_ended_once_and_the_drive_works_again():
    test_chario_faults.test_late_commands_are_ended_once_and_the_drive_works_again("stock")


@pytest.mark.cells("arm64")
def test_every_path_is_compared():
    test_compare.test_every_path_is_compared_and_counted()


@pytest.mark.cells("arm64")
def test_the_processor_s_own_counters_count_instructions_and_rank_the_paths():
    test_compare.test_instructions_are_counted_and_rank_the_paths_where_times_cannot()


@pytest.mark.cells("arm64")
def test_sustain_gives_verdicts():
    test_sustain.test_verdicts_exit_codes_and_bad_input()


@pytest.mark.cells("arm64")
def test_a_read_of_chario_is_a_timeline():
    test_events.test_a_read_of_chario_is_a_timeline("stock")


@pytest.mark.cells("arm64")
def test_a_linux_guest_is_the_coprocessor_s_main_cpu(tmp_path):
    test_coprocessor.test_a_linux_guest_is_the_main_cpu(tmp_path)


# The guest of CharIO's tests, which has two processors.
CHARIO_GUEST = ("--kernel", "stock", "--cpus", "2", "--drive", DRIVE)

STORE, LOAD = r"\tstr\s+[wx]\d+, \[x", r"\tldr\s+[wx]\d+, \[x"
# Parts of a function's symbol, and what its code has, in this order: barriers (crates/block/src/barrier.rs), and the accesses that they
# order. A generic function for the model has no registers, so only one of each must have accesses.
ORDERED = {
    "Registers write64": ("dmb oshst", STORE),
    "Registers read64": (LOAD, "dmb oshld"),
    # Entries, the shadow doorbell, the drive's event index, the doorbell.
    "QueuePair ring_submission": ("dmb osh", STORE, "dmb osh", "dmb oshst", STORE),
    "QueuePair acknowledge": ("dmb osh", STORE, "dmb osh", "dmb oshst", STORE),
    "QueuePair drain": ("dmb oshld",),
    "CompletionRing specific": ("dmb oshld",),
    "Admin take": ("dmb oshld",),
    "Admin ring": ("dmb oshst", STORE),
    "straightway_coprocessor Client has_news": ("dmb oshld",),
    "straightway_coprocessor Client begin": ("dmb osh",),
    "straightway_linux Coprocessor Device kick": ("dmb osh",),
}


@pytest.mark.cells("arm64")
def test_the_compiled_code_has_the_barriers_where_the_drive_sees_the_difference():
    if not shutil.which("aarch64-linux-gnu-objdump"):
        pytest.skip("no aarch64-linux-gnu-objdump")
    listing = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", ARM64.command], cwd=ROOT, check=True,
                             capture_output=True, text=True).stdout  # fmt: skip
    functions = re.findall(r"^[0-9a-f]+ <(.+)>:\n((?:.+\n)+)", listing, re.M)
    for words, expected in ORDERED.items():
        found = [code for name, code in functions if all(re.search(rf"(\d|\b){word}", name) for word in words.split())]
        assert found, f"no function {words}"
        order = r"[\s\S]*?".join(r"\t" + one.replace(" ", r"\s+") + r"\b" if one.startswith("dmb") else one for one in expected)
        enough = any if STORE in expected or LOAD in expected else all
        assert enough(re.search(order, code) for code in found), f"{words}: {expected} is not in {enough.__name__} of {len(found)} functions"


LITMUS_ROUNDS = 20_000


@pytest.mark.cells("arm64")
def test_no_outcome_that_the_barriers_forbid_is_seen_on_two_processors():
    """QEMU's processors are this machine's, which on x86-64 reorder only a store with a later load: what the other barriers forbid
    cannot be seen here even without them."""
    said = guest(f"{ROOT}/target/aarch64-unknown-linux-gnu/debug/examples/litmus {LITMUS_ROUNDS}", *CHARIO_GUEST)
    print(said)
    assert "processors 2\n" in said
    found = {name: (int(seen), int(without)) for name, seen, without in re.findall(r"^(\S+) with (\d+) without (\d+) of", said, re.M)}
    assert set(found) == {"store-buffering", "message-passing", "entry", "shadow-doorbell"}
    assert not any(seen for seen, _ in found.values()), found
    if not any(without for _, without in found.values()):
        print("SKIPPED: this emulator on this machine did not reorder in these rounds")


def test_simulated_worlds_run_the_same_steps_as_on_x86():
    """A few seeds of each kind of world: the hash is of all that happened in them."""
    program = ROOT / "target/release/straightway-simulator"
    subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", *programs_of.selection(programs_of.SIMULATOR)], cwd=ROOT, check=True)
    there = ROOT / "target/aarch64-unknown-linux-gnu/debug/straightway-simulator"
    runs = [["--seed", "1", "--steps", "3000", "--only", kind] for kind in programs_of.worlds()]
    here = [subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout for words in runs]
    said = guest("uname -m; " + "; ".join(f"rc 0 {there} {' '.join(words)}; tail -n 1 /tmp/out" for words in runs), "--drive", DRIVE)
    hashes = [output.splitlines()[-1] for output in here]
    assert said.splitlines() == ["aarch64", *hashes] and all(re.fullmatch("hash [0-9a-f]{16}", line) for line in hashes), said


@pytest.mark.cells("arm64")
def test_the_package_for_arm64_is_installed_and_runs(tmp_path):
    """dpkg unpacks it here, and the guest runs it from there."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("no dpkg-deb")
    if not (ROOT / "target/release/straightway").exists():
        pytest.skip("no target/release/straightway; run: make build")
    quick = {"DPKG_DEB_COMPRESSOR_TYPE": "gzip", "DPKG_DEB_COMPRESSOR_LEVEL": "1"}
    done = subprocess.run(["tools/packages", "--no-lint", "--arm64", "--build", "target/aarch64-unknown-linux-gnu/debug", "--output", tmp_path],
                          cwd=ROOT, env=os.environ | quick, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    packages = {path.rpartition("/")[2].partition("_")[0]: path for path in done.stdout.split()}
    with tempfile.TemporaryDirectory(dir=ROOT / "out") as root:
        for name in ("straightway", "libstraightway0", "libstraightway-dev"):
            field = subprocess.run(["dpkg-deb", "--field", packages[name], "Architecture"], capture_output=True, text=True)
            assert field.stdout.strip() == "arm64", name
            subprocess.run(["dpkg-deb", "--extract", packages[name], root], check=True)
        assert (Path(root) / "usr/lib/aarch64-linux-gnu/libstraightway.so").resolve().exists()
        said = own_guest(f"uname -m; S={root}/usr/bin/straightway; rc 0 $S info nvme0n1 --json; cat /tmp/out", "--drive", DRIVE)
    assert said.startswith("aarch64") and '"LAB1"' in said


@pytest.mark.cells("arm64")
def test_stores_are_found_although_the_kernel_does_not_tell_them():
    """User fault handling for write protection is x86's in this kernel."""
    said = own_guest(f"uname -m; {ROOT}/target/aarch64-unknown-linux-gnu/debug/examples/map soak 400").splitlines()
    assert (said[0], said[2]) == ("aarch64", "400 rounds, and the disk has every store"), said
