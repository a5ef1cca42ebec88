# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs scripts on the file system core (`rtl/sim/hwfs_bench.cpp`), and volumes on plain files with the
`straightway` command."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import benches  # noqa: E402
import cores  # noqa: E402

(OK, DEVICE, TIMED_OUT, GONE) = (0, 6, 7, 9)
(BAD_COMMAND, NOT_MOUNTED, NOT_A_VOLUME, NEWER_VERSION, UNSUITABLE, CORRUPT, STALE, READ_ONLY, BAD_NAME, NOT_FOUND,
 EXISTS, TABLE_FULL, NO_SPACE, MAP_FULL, IN_USE, NOT_OPEN, NOT_WRITABLE, PAST_END, UNSUPPORTED) = range(16, 35)

# The approximate number of power cuts per test, sampled by the seed. 0: all of them.
CUTS = int(os.environ.get("STRAIGHTWAY_CUTS", "60"))

# A core with the block size that the command uses for plain files.
PARAMETERS = {"DataWidth": 32, "BlockSizeLog2": 9, "NodeLog2Max": 9, "Files": 4, "IndexSlots": 1024,
              "Outstanding": 2, "TimeoutCycles": 20000}


def straightway():
    """The command: built by `make build`, or the one that STRAIGHTWAY names."""
    return os.environ.get("STRAIGHTWAY", str(cores.ROOT / "target" / "release" / "straightway"))


def build(name, fast=False, level=None, **parameters):
    return benches.build(f"hwfs_{name}" + ("_fast" if fast else ""), "hwfs_sim", "hwfs_bench.cpp",
                             {**PARAMETERS, **parameters}, fast, level=level, shared=True)


@dataclass
class Result:
    status: int
    value: int
    cycles: int
    rest: str = ""


class Session:
    """Builds a script. `run` executes it and returns a Result for each command, or None for a command during a power cut."""

    def __init__(self, program, folder, image, **options):
        self.program, self.folder, self.lines, self.inputs = program, Path(folder), [], 0
        self.lines.append(" ".join(["device", str(image), *(f"{key}={value}" for key, value in options.items())]))

    def __getattr__(self, verb):
        def add(*words):
            self.lines.append(" ".join([verb, *map(str, words)]))
        return add

    def write(self, file, offset, data):
        """Writes the data (bytes) to the open file `file` at `offset`."""
        path = self.folder / f"in{self.inputs}"
        self.inputs += 1
        path.write_bytes(data)
        self.lines.append(f"write {file} {offset} {path}")

    def put(self, name, data):
        """Stores the data (bytes) as a new file of that name."""
        path = self.folder / f"in{self.inputs}"
        self.inputs += 1
        path.write_bytes(data)
        self.lines.append(f"put {name} {path}")

    def run(self, timeout_s=600):
        done = subprocess.run([self.program], input="\n".join(self.lines) + "\n", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="surrogateescape", cwd=self.folder,
                              timeout=timeout_s)
        if done.returncode != 0:
            raise AssertionError("\n".join(self.lines) + "\n" + done.stdout[-3000:])
        results = []
        for line in done.stdout.splitlines():
            words = line.split()
            if words[0] == "CUT":
                results.append(None)
            elif words[0] == "count":
                results.append([int(word) for word in words[1:]])
            else:
                results.append(Result(int(words[0]), int(words[1]), int(words[2]), " ".join(words[3:])))
        return results


def command(*arguments, good=True, stdin=None):
    """Runs the command with these bytes as its input. With `good` it must exit with 0. Returns the completed process."""
    done = subprocess.run([straightway(), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          input=stdin or b"")
    done.stdout = done.stdout.decode()
    if good and done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.returncode}: {done.stdout}")
    return done


def make_volume(path, size="4M", unit=512, node=512, slots=64):
    command("format", path, "--size", size, "--unit", unit, "--node", node, "--slots", slots)
    return path


def check(path):
    """Runs `straightway check`, which must succeed, and returns its output."""
    return command("check", path).stdout


def contents(path, name, folder):
    """The file's contents, as read by the command."""
    target = folder / "fetched"
    target.unlink(missing_ok=True)
    command("get", path, name, target)
    return target.read_bytes()


class Model:
    """The files' contents, and the lengths that each file may have after a power cut. None among the lengths: the file may
    be missing."""

    def __init__(self):
        self.data, self.lengths = {}, {}

    def settle(self, name):
        """Marks the file's current contents as durable."""
        self.lengths[name] = {len(self.data[name])}


def add_commands(script, commands):
    for words, _, _ in commands:
        if words[0] == "put":
            script.put(*words[1:])
        elif isinstance(words[0], str):
            getattr(script, words[0])(*words[1:])
        else:
            script.write(*words)


def names_on(path):
    """The names of the volume's files, as listed by the command."""
    return set(command("ls", path).stdout.split("\n")) - {""}


def expect_after_cut(path, model, folder, what):
    """Asserts that the volume has only files that the model allows, with the written contents."""
    names = names_on(path)
    everything = {**getattr(model, "gone", {}), **model.data}
    pair = getattr(model, "pair", None)
    for name, lengths in model.lengths.items():
        if name not in names:
            assert None in lengths or lengths == set(), f"{what}: {name} is lost"
            continue
        data = contents(path, name, folder)
        assert len(data) in lengths, f"{what}: {name} has {len(data)} bytes, not {lengths}"
        assert data == everything[name][:len(data)], f"{what}: {name} has other contents"
    assert names <= set(model.lengths) | {"probe"}, f"{what}: {names - set(model.lengths)}"
    if pair:
        assert (pair[0] in names) != (pair[1] in names), f"{what}: the rename is incomplete"


def run_workload(program, folder, image, commands, options):
    """The workload's script: mount, commands, unmount, and the counters at the end."""
    script = Session(program, folder, image, journal=1, **options)
    script.mount()
    add_commands(script, commands)
    script.unmount()
    script.count()
    return script


def share(parts):
    """A part of CUTS, for tests that call `sweep` several times."""
    return max(1, CUTS // parts) if CUTS else 0


def cut_points(writes, flushes):
    """All cuts of a workload: after each write and flush, and at each flush before it has any effect, each with the unflushed
    writes lost, kept or torn."""
    ways = ("lost", "kept", "torn")
    return [("cut", point, how) for point in range(1, writes + flushes + 1) for how in ways] + \
        [("cut_flush", point, how) for point in range(1, flushes + 1) for how in ways]


def sweep(program, folder, image, fresh, pick, number, what, **options):
    """Cuts the power at `number` points of a workload (0: at all), chosen by `pick`. After each cut the core and then the
    command recover the volume: the check must pass, and each file must have its synced or later committed contents. `fresh`
    returns a model and the commands that change it. Between the two recoveries it yields (what, model, the volume as the core
    left it)."""
    whole = run_workload(program, folder, image, fresh()[1], options).run()
    assert all(result.status == OK for result in whole[:-1]), f"{what}: {whole}"
    _, writes, flushes, _ = whole[-1]
    points = cut_points(writes, flushes)
    # Half of a limited number are at flushes, where most data are at risk.
    late = [point for point in points if point[0] == "cut_flush"]
    if 0 < number < len(points):
        points = pick.sample(points, (number + 1) // 2) + pick.sample(late, min(len(late), number // 2))
    for kind, point, how in points:
        cut = {kind: point, "cut_delay": pick.choice([0, pick.randint(1, 400)])}
        where = f"{what}, {cut}, {how}"
        model, commands = fresh()
        script = run_workload(program, folder, image, commands, {**options, **cut})
        script.cut(how, point, folder / "cut")
        results = script.run()
        if results[0] is not None:
            for (_, begin, end), result in zip(commands, results[1:]):
                begin()
                if result is None:
                    break
                end()
        # The core repairs it; the command's check passes.
        script = Session(program, folder, folder / "cut")
        script.mount()
        script.unmount()
        script.save(folder / "repaired")
        assert [result.status for result in script.run()] == [OK, OK], where
        check(folder / "repaired")
        expect_after_cut(folder / "repaired", model, folder, f"{where}, core")
        yield where, model, folder / "repaired"
        # The command repairs it.
        (folder / "probe").write_bytes(b"x")
        command("put", folder / "cut", folder / "probe", "probe")
        check(folder / "cut")
        expect_after_cut(folder / "cut", model, folder, f"{where}, command")
