# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The interface of libstraightway.so.0: programs that were built against it go on working, so functions, members and their places stay.

crates/c/abi/libstraightway.so.0.abi is the interface that programs were promised, as abidw of Debian's abigail-tools describes it. The library itself has no debug
information of its types, so a library of empty functions is made from the header, which crates/c's tests compare with the library.

    python3 -m checks.abi --write    (in tools) describes today's header; without it the two are compared
"""

import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

STORED = "crates/c/abi/libstraightway.so.0.abi"
PROTOTYPE = re.compile(r"^((?:enum |const )?\w+ \*?(straightway_\w+)\([^;{}]*\));", re.M)


def described(header, folder):
    """What abidw says of a library of the header's functions."""
    text = header.read_text("utf-8")
    bodies = PROTOTYPE.sub(lambda found: found[1] + " { __builtin_trap(); }", text)
    source, library, out = folder / "stub.c", folder / "libstraightway.so.0", folder / "abi"
    source.write_text(bodies, "utf-8")
    subprocess.run(["cc", "-g", "-shared", "-fPIC", "-w", "-nostdlib", "-Wl,-soname,libstraightway.so.0", source.name, "-o", library.name],
                   cwd=folder, check=True)  # fmt: skip
    subprocess.run(["abidw", "--no-comp-dir-path", "--no-show-locs", "--type-id-style", "hash", "--out-file", out, library.name],
                   cwd=folder, check=True)  # fmt: skip
    # It names the compiler.
    return re.sub(r" (?:producer|comp-dir-path)='[^']*'", "", out.read_text("utf-8"))


def interface(text):
    """{name: what it is}: a function's types, a structure's members with their types and places, an enumeration's values."""
    found = {}
    for element in xml.etree.ElementTree.fromstring(text).iter():
        name = element.get("name", "")
        if element.tag == "function-decl" and name.startswith("straightway_"):
            found[f"{name}()"] = [(part.tag, part.get("type-id")) for part in element]
        elif element.tag == "class-decl" and element.get("size-in-bits"):
            members = [(part[0].get("name"), part[0].get("type-id"), part.get("layout-offset-in-bits")) for part in element]
            found[f"struct {name}"] = [("size", element.get("size-in-bits")), *members]
        elif element.tag == "enum-decl":
            found[f"enum {name}"] = [(part.get("name"), part.get("value")) for part in element if part.tag == "enumerator"]
    return found


def is_kept(name, old, new):
    """Whether a program that knows the old one can use the new one. A structure that begins with its size may get members at its end."""
    if new is None or name.endswith("()"):
        return new == old
    if name.startswith("enum "):
        return set(old) <= set(new)
    grows = old[1][0] == "size" and int(new[0][1]) >= int(old[0][1])
    return new == old or grows and new[1 : len(old)] == old[1:]


def broken(root, header=None):
    """What a program that was built before would no longer find. abidiff is not used: with the suppression that lets a structure grow
    it (2.2) also passes over a member of another type whose size fits the padding behind it."""
    if not shutil.which("abidw"):
        yield f"{STORED} cannot be compared: abidw is missing; run: tools/setup check"
        return
    header = header or root / "crates/c/include/straightway.h"
    old = interface((root / STORED).read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        new = interface(described(header, Path(folder)))
    for name, before in old.items():
        if not is_kept(name, before, new.get(name)):
            yield f"crates/c/include/straightway.h: {name} is no longer that of {STORED}: {before}, now {new.get(name)}"


def main():
    root = Path(__file__).resolve().parent.parent.parent
    if "--write" in sys.argv:
        header = Path(sys.argv[2]) if len(sys.argv) > 2 else root / "crates/c/include/straightway.h"
        with tempfile.TemporaryDirectory() as folder:
            (root / STORED).write_text(described(header.absolute(), Path(folder)), "utf-8")
        return 0
    problems = list(broken(root))
    print(*problems, sep="\n")
    return len(problems)


if __name__ == "__main__":
    sys.exit(main())
