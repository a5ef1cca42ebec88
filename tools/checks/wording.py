# SPDX-License-Identifier: Apache-2.0 OR MIT
"""No library speaks of the command's options: it names a setting (`crates/remedy`), which the command words."""

import re

# Options of others' tools, which are the same whoever reads them: by file, the tool and its options.
FIO = ("bs clocksource direct end_fsync filename group_reporting iodepth iodepth_batch iodepth_batch_complete_max ioengine name norandommap "
       "offset output-format ramp_time randrepeat randseed registerfiles runtime rw size thread time_based version")
OF_OTHERS = {
    "crates/bench/src/fio.rs": ("fio", FIO),
    "crates/bench/src/holes.rs": ("cp", "sparse"),
    "crates/bench/src/perf.rs": ("perf", "control delay no-buildid-cache"),
    "crates/devices/src/drive.rs": ("lab/coprocessor, a script of this repository", "window"),
    "crates/files/src/archive.rs": ("tar", "concatenate sparse"),
    "crates/files/src/makers.rs": ("cryptsetup and drbdmeta", "force pbkdf pbkdf-force-iterations type"),
    "crates/linux/src/error.rs": ("blockdev and nvme", "lbaf setrw"),
    "crates/linux/src/vfio/cdev.rs": ("docker", "device"),
    "crates/measure/src/fio.rs": ("fio", "output-format"),
    "crates/serve/src/nbd/no_tls.rs": ("cargo", "release"),
    "crates/serve/src/no_ublk.rs": ("cargo", "release"),
}
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z_-]+)")
# A comment, a raw string, a string and a character, in this order: what begins first hides the others.
TOKEN = re.compile(r'//[^\n]*|r(#*)"(.*?)"\1|"((?:[^"\\]|\\.)*)"|\'(?:\\.|[^\\\'])\'', re.S)


def literals(text):
    """The string literals of Rust code, each with its line."""
    for token in TOKEN.finditer(text):
        literal = token[2] if token[2] is not None else token[3]
        if literal is not None:
            yield text.count("\n", 0, token.start()) + 1, literal


def is_library(where):
    """Whether a file is a library's code, not a test or an example."""
    parts = where.split("/")
    return (where.endswith(".rs") and parts[0] == "crates" and parts[1] not in ("cli", "simulator") and parts[2] == "src"
            and "tests" not in parts and not parts[-1].endswith("tests.rs"))


def options(root, files):
    """String literals of libraries that name an option of a command line."""
    for file in files:
        where = str(file.relative_to(root))
        if not is_library(where):
            continue
        code = file.read_text(encoding="utf-8").partition("#[cfg(test)]\nmod tests {")[0]
        found = [(line, option[1]) for line, literal in literals(code) for option in OPTION.finditer(literal)]
        tool, names = OF_OTHERS.get(where, ("", ""))
        for name in sorted(set(names.split()) - {option for _, option in found}):
            yield f"tools/checks/wording.py: {where} has no option `--{name}` of {tool} any more"
        for line, option in found:
            if option not in names.split():
                yield f"{where}:{line}: `--{option}` is an option of the command: name a `remedy::Setting`, which the command words"
