# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds C++ benches on verilated tops.

A program has three parts, each of which is compiled once: Verilator's library, the model of a top in one shape, and the bench. Its
object depends on the ports' types and on the parameters. All shapes with the same types share the object of a bench for which the
parameters are constants that the model defines.
"""

import contextlib
import fcntl
import os
import re
import subprocess
from pathlib import Path

import cores
import kept

SIM = cores.RTL / "sim"
# Compiled before anything else. What half of the benches include, too: GCC reads the precompiled header faster than <map>.
PRELUDE = "".join(f"#include {name}\n" for name in (
    '"verilated.h"', '"verilated_dpi.h"', *(f"<{name}>" for name in (
        "algorithm", "array", "cinttypes", "cstdio", "cstdlib", "cstring", "deque", "fstream", "functional", "iostream", "map", "memory",
        "set", "sstream", "string", "vector"))))  # fmt: skip
LIBRARY = ("verilated", "verilated_dpi", "verilated_threads")
DEFINES = ("VERILATOR=1", *(f"VM_{what}=0" for what in ("COVERAGE", "SC", "TIMING", "TRACE", "TRACE_FST", "TRACE_VCD", "TRACE_SAIF")))


def build(name, top, source, parameters, fast=False, libraries=(), instead=None, core="sim", level=None, shared=False):
    """Builds the bench `source` on the top of the core and returns the program. Parameters become -G, and macros of the bench (UpWidth is
    UP_WIDTH), or constants of a `shared` one. `instead` maps names of the core's files to files of rtl/sim that replace them. `fast`
    omits assertions. `level` is the optimisation of the model. At -O0 the compiler takes a fifth less and the simulation four to ten
    times as long."""
    folder = cores.BUILD / name
    options = ["--noassert", "--x-assign", "fast", "--x-initial", "fast"] if fast else ["--assert"]
    level = level or ("-O3" if fast else "-O1")
    files = [SIM / instead[file.name] if file.name in (instead or {}) else file for file in cores.files(core)]
    verilate = ["verilator_bin", "--cc", "-O3", "-Wall", *options, "--top-module", top, "--Mdir", str(folder),
                *(f"-G{key}={value}" for key, value in parameters.items()), *map(str, files)]
    shape = {snake(key): value for key, value in parameters.items()}
    bench = Bench(SIM / source, shape, shared, level if fast else "-O1")
    words = [*verilate, level, bench.text, *map(str, libraries)]
    inputs = [*files, *bench.files, *(Path(file) for file in libraries if Path(file).is_file())]

    def make():
        run(verilate)
        link(folder, "bench", level, defined(shape), [str(bench.built(folder)), *map(str, libraries)])

    return made(folder, "bench", words, inputs, make)


def made(folder, program, words, inputs, make):
    """The program, which `make` makes in the folder unless one from the same words and files exists, in this folder or another."""
    wanted = kept.key(*(word.replace(str(folder), "").replace(str(cores.ROOT), "") for word in words), Path(__file__), *inputs)
    folder.mkdir(parents=True, exist_ok=True)
    # Test files that run at the same time share a bench, and so do those whose benches are the same under other names.
    with locked(cores.BUILD / f".{wanted[:16]}.lock"):
        for other in (folder, *(note.parent for note in cores.BUILD.glob("*/.made"))):
            if kept.found(other / ".made", wanted) is not None and (other / program).is_file():
                return other / program
        with locked(folder / ".lock"):
            for file in (folder / ".made", folder / "model.o", *folder.glob("V*")):  # of a model before this one
                file.unlink(missing_ok=True)
            try:
                make()
            except RuntimeError as error:
                raise RuntimeError(f"{folder.name} did not build:\n{error}") from None
            # Half of the space, and the next program here makes them again. Headers are read by the key of a bench's object.
            for file in (folder / "model.o", folder / "model.cpp", *folder.glob("V*.cpp")):
                file.unlink(missing_ok=True)
            kept.keep(folder / ".made", wanted)
    return folder / program


def link(folder, program, level, text, others, library=LIBRARY):
    """Compiles the folder's model with the text behind it, and links it with these objects and libraries."""
    model = compiled(folder / "model.cpp", one_unit(folder) + text, level, [f"-I{folder}"])
    run(["c++", "-o", str(folder / program), str(model), *map(runtime, library), *others])


class Bench:
    """A bench's source, and its object, which depends on the headers of the model that it includes."""

    def __init__(self, source, shape, shared, level):
        self.files = [source, *sorted({*SIM.glob("*.hpp"), *source.parent.glob("*.hpp")})]
        words = {word for file in self.files for word in re.findall(r"\w+|\"V\w+\.h\"", file.read_text("utf-8"))}
        self.headers = sorted(word.strip('"') for word in words if word.startswith('"'))
        # Macros behind the prelude: GCC refuses a precompiled header that contains the name of one.
        lines = [f"extern const int {name};" for name in sorted(words & shape.keys())] if shared else macros(shape)
        self.text = "\n".join([*lines, f'#include "{source}"', ""])
        self.level = level

    def built(self, folder):
        headers = [folder / name for name in self.headers if (folder / name).is_file()]
        key = kept.key(self.text.replace(str(cores.ROOT), ""), self.level, Path(__file__), *self.files, *headers)
        return compiled(cores.BUILD / "benches" / f"{key[:16]}.cpp", self.text, self.level, [f"-I{folder}", "-Werror=undef"])


def macros(shape):
    return [f"#define {name} {value}" for name, value in shape.items()]


def defined(shape):
    return "".join(f"extern const int {name} = {value};\n" for name, value in shape.items())


def one_unit(folder):
    """The model as one unit of translation: the headers are read once. What runs once, the initial values and the first settling,
    is a third of a model: it is not optimised."""
    files = sorted(file.name for file in folder.glob("V*.cpp"))
    slow = [name for name in files if "Slow" in name]
    lines = [f'#include "{name}"' for name in files if name not in slow]
    lines += ["#pragma GCC push_options", '#pragma GCC optimize("O0")', *(f'#include "{name}"' for name in slow)]
    return "\n".join([*lines, "#pragma GCC pop_options", ""])


def flags():
    include = Path(cores.environment()["VERILATOR_ROOT"]) / "include"
    return ["-std=c++17", "-isystem", str(include), "-isystem", str(include / "vltstd"), f"-I{SIM}", *(f"-D{one}" for one in DEFINES)]


def compiled(source, text, level, options):
    """The object of this text, which is written to the file `source`, unless the object exists already (see `once`)."""
    with once(source.with_suffix(".o")) as part:
        if part:
            source.write_text(f'#include "prelude.hpp"\n{text}', "utf-8")
            run(["c++", *flags(), f"-I{prelude(level)}", level, "-Werror=invalid-pch", *options, "-c", "-o", part, str(source)])
    return source.with_suffix(".o")


def tools_folder(*parts):
    """The folder of what depends on the tools only."""
    return cores.BUILD / "runtime" / kept.key(Path(__file__), *parts)[:16]


def prelude(level):
    """The folder of the precompiled header for a level of optimisation: GCC uses it for no other."""
    folder = tools_folder(level)
    with once(folder / "prelude.hpp.gch") as part:
        if part:
            (folder / "prelude.hpp").write_text(PRELUDE, "utf-8")
            run(["c++", *flags(), level, "-x", "c++-header", "-o", part, str(folder / "prelude.hpp")])
    return folder


def runtime(name):
    """An object of Verilator's own. Most of its time is a model's construction: it is not optimised."""
    file = tools_folder() / f"{name}.o"
    with once(file) as part:
        if part:
            run(["c++", *flags(), "-O0", "-c", "-o", part, str(Path(cores.environment()["VERILATOR_ROOT"]) / "include" / f"{name}.cpp")])
    return str(file)


@contextlib.contextmanager
def once(path):
    """The name under which the file is to be made, or None if another process has made it; that of a failed step is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f".{path.name}.lock")):
        if path.exists():
            yield None
            return
        part = path.with_name(f"{path.name}.part")
        yield str(part)
        part.rename(path)


@contextlib.contextmanager
def locked(path):
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(command):
    done = subprocess.run(command, env=cores.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}")


def snake(name):
    """UpWidth -> UP_WIDTH."""
    return "".join("_" + letter if letter.isupper() else letter for letter in name).lstrip("_").upper()


def build_twin():
    """The software's volume as a library for C++ (crates/twin), and the system libraries that it needs."""
    done = subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "-p", "straightway-twin"], cwd=cores.ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"crates/twin did not build:\n{done.stdout}")
    target = Path(os.environ.get("CARGO_TARGET_DIR", cores.ROOT / "target"))
    return [target / "release" / "libtwin.a", "-lpthread", "-ldl", "-lm"]


def build_virtio_driver():
    """A virtio-blk driver in Rust as a library for C++ (crates/twin/examples/virtio_driver.rs), and the system libraries that it
    needs. In the tests' profile: its dependencies are those of the crates' tests, and most of the bench's time is simulation."""
    done = subprocess.run(["cargo", "build", "--profile", "test", "--locked", "--quiet", "-p", "straightway-twin", "--example",
                           "virtio_driver"], cwd=cores.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"crates/twin/examples/virtio_driver.rs did not build:\n{done.stdout}")
    target = Path(os.environ.get("CARGO_TARGET_DIR", cores.ROOT / "target"))
    return [target / "debug" / "examples" / "libvirtio_driver.a", "-lpthread", "-ldl", "-lm"]


def build_twin_bench(program_log2=12):
    """The bench with the file system core and the software's volume in one process."""
    return build("hwfs_twin" if program_log2 == 12 else "hwfs_twin_grown", "hwfs_sim", "hwfs_twin_bench.cpp",
                 {"DataWidth": 32, "BlockSizeLog2": 6, "NodeLog2Max": 12, "Files": 4, "IndexSlots": 1024,
                  "Outstanding": 2, "TimeoutCycles": 20000, "DataChecksums": 1, "ProgramLog2": program_log2, "Registered": 1},
                 fast=True, level="-O1", libraries=build_twin())


def build_barriers_bench():
    """The same with a microprogram that is loaded at each start, in the longer control store."""
    return build("hwfs_barriers", "hwfs_sim", "hwfs_barriers_bench.cpp",
                 {"DataWidth": 32, "BlockSizeLog2": 6, "NodeLog2Max": 9, "Files": 4, "IndexSlots": 512,
                  "Outstanding": 2, "TimeoutCycles": 20000, "ProgramLog2": 13, "Registered": 1},
                 fast=True, level="-O1", libraries=build_twin(), instead={"hwfs_rom.sv": "loaded/hwfs_rom.sv"})
