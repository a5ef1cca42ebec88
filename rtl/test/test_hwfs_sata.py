# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The file system core on Serial ATA drives: one behind a clock crossing, and two that are striped or mirrored. Power cuts
with active write caches, drives that answer out of order, fail and are unplugged; the command reads the core's volumes.
STRAIGHTWAY_SEED=... repeats a run; STRAIGHTWAY_CUTS sets the number of cuts (0: 100 for each configuration).
"""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
import make_volume  # noqa: E402
from hwfs_script import benches, cores  # noqa: E402
from test_hwfs import SEED, appending_workload, seeded, volume_with  # noqa: E402
from test_hwfs_disks import pattern, run, statuses  # noqa: E402

SHAPES = {
    "one": {"Disks": 1, "Slots": 0, "StripeBlocks": 32768},
    "two_striped": {"Disks": 2, "Slots": 4, "SlotBlocks": 2, "StripeBlocks": 4},
    "two_mirrored": {"Disks": 2, "Mirror": 1, "Slots": 4, "SlotBlocks": 2, "StripeBlocks": 8},
}
BYTES = 1 << 20
BLOCKS = BYTES // 512


@pytest.mark.cells("top")
@pytest.mark.parametrize("top,core,parameters", [
    ("hwfs_sata", "hwfs_sata", {}),
    ("hwfs_sata", "hwfs_sata", {"Disks": 2, "Slots": 16, "SlotBlocks": 32, "DataChecksums": 1}),
    ("hwfs_sata", "hwfs_sata", {"Disks": 3, "Mirror": 1, "Slots": 8}),
    ("hwfs_sata_sim", "hwfs_sata_sim", {"Disks": 2, "Slots": 4, "StripeBlocks": 8}),
])
def test_lint(top, core, parameters):
    assert cores.lint(top, core, parameters) == ""


def build(name):
    return benches.build(f"hwfs_sata_{name}", "hwfs_sata_sim", "sata/hwfs_sata_bench.cpp",
                             {"Mirror": 0, "DriveTimeoutCycles": 20000, "TimeoutCycles": 200000, **SHAPES[name]}, core="hwfs_sata_sim", shared=True)


@pytest.fixture(scope="module", params=SHAPES)
def shape(request):
    """A bench and its name."""
    return build(request.param), request.param


def options(pick, **more):
    """Random clock ratios and drive properties."""
    return {"host_period": pick.randint(2, 9), "drive_period": pick.randint(2, 9), "read_latency": pick.choice([0, 300]),
            "write_latency": pick.choice([0, 100]), "cable": pick.choice([0, 5]), "hold": pick.choice([0, 5]),
            **pick.choice([{}, {"read_rate": 700, "write_rate": 600, "read_cycles": 200, "write_cycles": 100}]),
            "queue": int(pick.random() < 0.8), "reorder": 1, "app_stall": pick.choice([0, 10]), "seed": pick.randint(1, 1 << 30),
            **more}


class Session(hw.Session):
    """A script for the bench with drives."""

    def __init__(self, program, folder, image, **chosen):
        self.program, self.folder, self.inputs = program, Path(folder), 0
        self.lines = [" ".join([f"drives {BLOCKS}", *(f"{key}={value}" for key, value in chosen.items())]), f"load {image}"]

    def write(self, file, offset, data):
        super().write(file, offset, data)
        self.lines[-1] = self.lines[-1].replace("write", "writefrom", 1)

    def put(self, name, data):
        super().put(name, data)
        self.lines[-1] = self.lines[-1].replace("put", "putfrom", 1)


def test_files_on_drives(shape, tmp_path):
    """Reads the command's file, creates and deletes files, and compares them with the command, with two clock ratios."""
    program, name = shape
    pick = seeded(f"drives {name}")
    theirs = pattern(7, 0, 30001)
    image = volume_with(tmp_path / "v", {"theirs": theirs, "gone": b"x" * 5000}, size="1M", slots=16)
    for clocks in ({"host_period": 1, "drive_period": 2}, {"host_period": 7, "drive_period": 3}):
        chosen = options(pick, **clocks)
        lines = [" ".join([f"drives {BLOCKS}", *(f"{key}={value}" for key, value in chosen.items())]), f"load {image}", "mount",
                 "get theirs 0 30001 7", "delete gone", "put whole 50000 1", "create 0 pieces 4000"]
        size = 0
        for _ in range(6):
            piece = pick.choice([1, 64, 3000, pick.randint(1, 9000)])
            lines.append(f"write 0 {size} {piece} 2")
            size += piece
        lines += ["close 0", "openw 0 pieces"]
        for _ in range(3):
            offset = pick.randrange(size)
            lines.append(f"write 0 {offset} {pick.randint(1, size - offset)} 2")
            offset = pick.randrange(size)
            lines.append(f"read 0 {offset} {pick.randint(1, size - offset)} 2")
        lines += ["close 0", "rename whole other", "unmount", f"save {tmp_path / 'after'} {BYTES}"]
        what = f"STRAIGHTWAY_SEED={SEED} {lines[0]}"
        assert set(statuses(run(program, lines))) == {hw.OK}, what
        assert "3 files" in hw.check(tmp_path / "after"), what
        for file, data in (("theirs", theirs), ("other", pattern(1, 0, 50000)), ("pieces", pattern(2, 0, size))):
            assert hw.contents(tmp_path / "after", file, tmp_path) == data, f"{what} {file}"


@pytest.mark.parametrize("queue", [0, 1])
def test_a_drive_is_no_faster_than_its_medium(queue, tmp_path):
    """Half and two fifths of the line, and nothing beyond it; each command of 4 KiB costs the medium 1,000 cycles besides."""
    (tmp_path / "v").write_bytes(make_volume.make(BYTES, 4096, 512, 16, 512))
    found = {}
    for limits in ("", "read_rate=500 write_rate=400", "read_rate=500 write_rate=400 read_cycles=1000 write_cycles=1000"):
        lines = [f"drives {BLOCKS} queue={queue} host_period=1 drive_period=2 {limits}", f"load {tmp_path / 'v'}", "mount", "put warm 1 1",
                 "put file 262144 2", "get file 0 262144 2"]
        results = run(build("one"), lines)
        assert set(statuses(results)) == {hw.OK}, limits
        # Words in a thousand cycles of the line.
        found[limits] = [1000 * 65536 / (int(results[at][2]) / 2) for at in (3, 2)]
    free, limited, slow = found.values()
    assert free[0] > 900 and free[1] > 850
    # The last of 32 frames waits for nothing.
    assert 450 < limited[0] <= 520 and 360 < limited[1] <= 415
    assert slow[0] < limited[0] and slow[1] < limited[1]


def test_a_power_cut_loses_nothing_that_was_synced(shape, tmp_path):
    """Cuts the power at any cycle of a workload; each drive loses or keeps each sector of its cache. The core and the command
    both recover the volume: the check passes, and each file has its synced or later committed contents. A mirror's copies
    may then differ: either is consistent alone, and so are both once they were made equal."""
    program, name = shape
    pick = seeded(f"cuts {name}")
    image = hw.make_volume(tmp_path / "v", size="1M", slots=16)
    state, chosen = pick.getstate(), options(pick)
    what = f"STRAIGHTWAY_SEED={SEED} {chosen}"

    def fresh():
        again, model = random.Random(), hw.Model()
        again.setstate(state)
        return model, appending_workload(again, model, 10)

    def script(*cut):
        begun = Session(program, tmp_path, image, **chosen)
        begun.mount()
        begun.lines += cut
        hw.add_commands(begun, fresh()[1])
        begun.unmount()
        return begun

    whole = script().run()
    assert {result.status for result in whole} == {hw.OK}, what
    cycles = sum(result.cycles for result in whole[1:])
    for number in range(hw.share(6) if hw.CUTS else 100):
        where = f"{what} cut {number}"
        model, commands = fresh()
        begun = script(f"cut {pick.randint(1, cycles)}")
        # A mirror: either drive alone, or (once, it takes a while) both, made equal.
        enable = 255 if name != "two_mirrored" else pick.choice([1, 2]) if number else "255 1"
        begun.lines += [f"power {enable}", f"save {tmp_path / 'cut'} {BYTES}", "mount", "unmount", f"save {tmp_path / 'repaired'} {BYTES}"]
        results = begun.run()
        for (_, begin, end), result in zip(commands, results[1:]):
            begin()
            if result is None:
                break
            end()
        assert [result.status for result in results[-2:]] == [hw.OK, hw.OK], where
        for by, left in (("core", tmp_path / "repaired"), ("command", tmp_path / "cut")):
            if by == "command":
                (tmp_path / "probe").write_bytes(b"x")
                hw.command("put", left, tmp_path / "probe", "probe")
            hw.check(left)
            hw.expect_after_cut(left, model, tmp_path, f"{where}, {by}")


def test_a_drive_that_fails_or_leaves(shape, tmp_path):
    """A failed read is reported as Device; a mirror reads from the other drive. When a drive is unplugged its requests end, and a
    mirror continues with the other drive alone, also when the drive returns with old data. A mirror stops using a drive that
    fails a write. When the last drive is unplugged, no write succeeds."""
    program, name = shape
    mirror = "Mirror" in SHAPES[name]
    image = volume_with(tmp_path / "v", {"one": pattern(3, 0, 40000)}, size="1M", slots=16)
    lines = [f"drives {BLOCKS} reorder=1", f"load {image}", "mount", "error 0 2", "get one 0 40000 3", "get one 0 40000 3",
             "leave 0", "put two 9000 4", "get one 20000 10000 3", "failed"]
    if mirror:
        lines += ["return 0", "put three 9000 5", "get three 0 9000 5", "get two 0 9000 4", "get one 0 40000 3", "failed",
                  "leave 1", "put four 9000 6", "return 1", "power 2", "mount", "unmount", f"save {tmp_path / 'after'} {BYTES}"]
    results = run(program, lines)
    failed = next(int(result[1]) for result in results if result[0] == "failed")
    got = [int(result[0]) for result in results if result[0] != "failed"]
    if not mirror:
        assert got == [hw.OK, hw.DEVICE, hw.OK, hw.GONE, hw.GONE] or got == [hw.OK, hw.DEVICE, hw.OK, hw.GONE, hw.NOT_MOUNTED], got
        return
    assert failed == 1 and got.pop(9) == hw.GONE and set(got) == {hw.OK}, (got, failed)
    assert "3 files" in hw.check(tmp_path / "after")
    assert hw.contents(tmp_path / "after", "two", tmp_path) == pattern(4, 0, 9000)
    failing = [f"drives {BLOCKS}", f"load {image}", "mount", "error 1 3", "put two 9000 4", "failed", "get two 0 9000 4"]
    assert [result[:2] for result in run(program, failing)][1:] == [["0", "9000"], ["failed", "2"], ["0", "9000"]]
    # A write that fails after its data, and a flush that drops a block: in the queue among others.
    for fault in ("late 1 2", "late 1 5", "unflushed 1"):
        failing[3] = fault
        assert [result[:2] for result in run(program, failing)][1:] == [["0", "9000"], ["failed", "2"], ["0", "9000"]], fault


def test_reads_and_writes_of_pieces_overlap(tmp_path):
    """Two drives with a long latency that answer out of order: 8 reads from each take far less than 8 latencies, and 4 writes
    far less than 4 latencies."""
    latency = 4000
    image = volume_with(tmp_path / "v", {"one": pattern(3, 0, 16384)}, size="1M", slots=16)
    results = run(build("two_striped"), [f"drives {BLOCKS} reorder=1 read_latency={latency} write_latency={latency}",
                                         f"load {image}", "mount", "openw 0 one", "read 0 0 16384 3", "write 0 0 16384 5",
                                         "read 0 0 16384 5"])
    assert statuses(results) == [hw.OK] * 5
    # The core's clock is twice as fast as the drives'.
    assert int(results[2][2]) < 0.6 * 2 * 8 * latency, results
    assert int(results[3][2]) < 0.6 * 2 * 4 * latency, results
