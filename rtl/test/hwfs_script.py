"""Runs scripts on the file system core (`rtl/sim/hwfs_bench.cpp`), and volumes on plain files with the
`straightway` command."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cores  # noqa: E402

(OK, DEVICE, TIMED_OUT, GONE) = (0, 6, 7, 9)
(BAD_COMMAND, NOT_MOUNTED, NOT_A_VOLUME, NEWER_VERSION, UNSUITABLE, CORRUPT, STALE, READ_ONLY, BAD_NAME, NOT_FOUND,
 EXISTS, TABLE_FULL, NO_SPACE, MAP_FULL, IN_USE, NOT_OPEN, NOT_WRITABLE, PAST_END, UNSUPPORTED) = range(16, 35)

# A core whose blocks are those of the command's plain files.
PARAMETERS = {"DataWidth": 32, "BlockSizeLog2": 9, "NodeLog2Max": 9, "Files": 4, "IndexSlots": 1024,
              "Outstanding": 2, "TimeoutCycles": 20000}


def straightway():
    """The command: built by `make build`, or the one that STRAIGHTWAY names."""
    return os.environ.get("STRAIGHTWAY", str(cores.ROOT / "target" / "release" / "straightway"))


def build(name, fast=False, **parameters):
    return cores.build_bench(f"hwfs_{name}" + ("_fast" if fast else ""), "hwfs_sim", "hwfs_bench.cpp",
                             {**PARAMETERS, **parameters}, fast)


@dataclass
class Result:
    status: int
    value: int
    cycles: int
    rest: str = ""


class Session:
    """A script in the making; `run` gives a Result for each command, None where the power was cut."""

    def __init__(self, program, folder, image, **options):
        self.program, self.folder, self.lines, self.inputs = program, Path(folder), [], 0
        self.lines.append(" ".join(["device", str(image), *(f"{key}={value}" for key, value in options.items())]))

    def __getattr__(self, verb):
        def add(*words):
            self.lines.append(" ".join([verb, *map(str, words)]))
        return add

    def write(self, file, offset, data):
        """The data, as bytes, go to the file `file` at `offset`."""
        path = self.folder / f"in{self.inputs}"
        self.inputs += 1
        path.write_bytes(data)
        self.lines.append(f"write {file} {offset} {path}")

    def put(self, name, data):
        """The data become a new file of that name."""
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


def command(*arguments, good=True):
    """Runs the command; its output. With `good`, it must end with 0."""
    done = subprocess.run([straightway(), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if good and done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.returncode}: {done.stdout}")
    return done


def make_volume(path, size="4M", unit=512, node=512, slots=64):
    command("format", path, "--size", size, "--unit", unit, "--node", node, "--slots", slots)
    return path


def check(path):
    """`straightway check` says that the volume is sound; what it printed."""
    return command("check", path).stdout
