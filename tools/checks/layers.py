# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Who imports whom: the rules between crates and between the command's modules, from real imports, and the picture of both.

`python3 -m checks.layers --write`, in `tools`, draws the picture again.
"""

import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.dont_write_bytecode = True
from checks import architecture

PICTURE = "docs/layers.svg"
# Packages of others that parse arguments or draw on a terminal: the command's alone.
OF_COMMAND = {"clap", "clap_complete", "clap_mangen", "indicatif"}
# What a crate never imports, whatever its layer, and why.
NEVER = {
    "devices": ({"measure"}, "a device is opened without the instrument"),
    "files": ({"measure"}, "a volume is used without the instrument"),
    "measure": ({"linux", "devices"}, "`bench` gives it the paths"),
}
# Crates that `formats` may have: it imports no device and no volume.
OF_FORMATS = {"block", "remedy", "stream", "units"}
# The modules of the command: one imports only from those below its own.
MODULES = {"choices": 0, "exit": 0, "grave": 0, "console": 1, "examples": 0, "path_options": 1, "recording_options": 1, "working_set": 1, "remedies": 0, "output": 2,
           "measuring": 3, "verbs": 4, "arguments": 5, "advice": 6, "manual": 6, "lib": 7, "main": 8}
# Arrows upward, with their reasons.
UPWARD = {("verbs/man.rs", "manual"): "prints the manual", ("verbs/man.rs", "arguments"): "prints the manual of all verbs",
          ("verbs/completions.rs", "arguments"): "prints what completes all verbs"}
USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.M)


def leaves(tree, before=()):
    """The paths that a use tree names: `a::{b, c::d}` has `a::b` and `a::c::d`."""
    tree = tree.strip()
    begin = tree.find("{")
    if begin < 0:
        yield before + tuple(part.strip() for part in tree.split(" as ")[0].split("::"))
        return
    before += tuple(part.strip() for part in tree[:begin].split("::") if part.strip())
    depth, item = 0, ""
    for letter in tree[begin + 1:tree.rindex("}")] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if item.strip():
                yield from leaves(item, before)
            item = ""
        else:
            item += letter


def imports(text):
    """The paths that the code of a file names in `use`, or in full as `crate::...`; its tests may import anything."""
    code = re.sub(r"//[^\n]*", "", text.partition("#[cfg(test)]\nmod ")[0])
    for tree in USE.findall(code):
        yield from leaves(tree)
    for path in re.findall(r"\bcrate(?:::\w+)+", USE.sub("", code)):
        yield tuple(path.split("::"))


def module_of(path, here):
    """The module of the crate that a path is in, seen from the module `here` (a tuple); None for another crate's."""
    here = list(here)
    if path[0] == "crate":
        return path[1] if len(path) > 1 else None
    if path[0] not in ("super", "self"):
        return None
    for part in path:
        if part == "super":
            here = here[:-1]
        elif part != "self":
            here.append(part)
    return here[0] if here else "lib"


def of_command(root, files):
    """Modules of the command that import from their own layer's right or from above, and modules without a layer."""
    source = root / "crates/cli/src"
    for file in files:
        if file.suffix != ".rs" or source not in file.parents or file.name.endswith("tests.rs"):
            continue
        where = file.relative_to(source)
        parts = where.with_suffix("").parts
        own = parts[0]
        if own not in MODULES:
            yield f"crates/cli/src/{where}: give `{own}` a layer in tools/checks/layers.py"
            continue
        here = parts[:-1] if parts[-1] == "mod" else parts
        for path in imports(file.read_text(encoding="utf-8")):
            other = module_of(path, here)
            if other in MODULES and other != own and MODULES[other] >= MODULES[own] and (str(where), other) not in UPWARD:
                yield f"crates/cli/src/{where} imports from `{other}`, which is not below `{own}` (tools/checks/layers.py)"


def arrows(packages):
    """The crates of ours that each of ours imports; those for tests are left out."""
    ours = {package["name"].removeprefix("straightway-"): package for package in packages if package["source"] is None}
    return {name: {other for one in package["dependencies"] if one["kind"] is None and (other := one["name"].removeprefix("straightway-")) in ours}
            for name, package in ours.items() if name in architecture.LAYERS}


def never(packages):
    """Imports that no layer explains and that are refused."""
    for package in packages:
        name = package["name"].removeprefix("straightway-")
        if package["source"] is not None or name not in architecture.LAYERS:
            continue
        others = {one["name"] for one in package["dependencies"] if one["kind"] is None}
        if name != "cli" and (bad := others & OF_COMMAND):
            yield f"crates/{name} imports {', '.join(sorted(bad))}: only the command parses arguments and draws"
    for name, others in arrows(packages).items():
        bad, why = NEVER.get(name, (set(), ""))
        if others & bad:
            yield f"crates/{name} imports {', '.join(sorted(others & bad))}: {why}"
        if name == "formats" and (bad := others - OF_FORMATS):
            yield f"crates/formats imports {', '.join(sorted(bad))}: formats are bytes in, bytes out"


# The picture's measures, in its own pixels.
WIDE, HIGH, ACROSS, DOWN, LEFT, TOP = 96, 24, 12, 58, 20, 20


def reached(name, drawn):
    """All crates below one."""
    found, todo = set(), list(drawn[name])
    while todo:
        if (one := todo.pop()) not in found:
            found.add(one)
            todo += drawn[one]
    return found


def picture(packages):
    """The crates by layer, the highest first, and who imports whom; an arrow is left out if another way has it."""
    drawn = arrows(packages)
    rows = sorted({architecture.LAYERS[name] for name in drawn}, reverse=True)
    places, widest = {}, max(sum(architecture.LAYERS[name] == row for name in drawn) for row in rows)
    width = 2 * LEFT + widest * (WIDE + ACROSS) - ACROSS
    for at, row in enumerate(rows):
        names = sorted(name for name in drawn if architecture.LAYERS[name] == row)
        if at:
            # Below what imports them, so that few arrows cross.
            def middle(name):
                above = [places[one][0] for one in places if name in drawn[one]]
                return sum(above) / len(above) if above else width / 2
            names.sort(key=lambda name: (middle(name), name))
        begin = (width - len(names) * (WIDE + ACROSS) + ACROSS) / 2
        places |= {name: (begin + place * (WIDE + ACROSS), TOP + at * DOWN) for place, name in enumerate(names)}
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{2 * TOP + (len(rows) - 1) * DOWN + HIGH}" '
             'font-family="sans-serif" font-size="12">',
             "<title>Straightway's crates: each imports only from those below it</title>",
             '<rect width="100%" height="100%" fill="#ffffff"/>']
    for name in sorted(drawn):
        for other in sorted(drawn[name] - {below for one in drawn[name] for below in reached(one, drawn)}):
            (x, y), (to_x, to_y) = places[name], places[other]
            x, to_x, y = x + WIDE / 2, to_x + WIDE / 2, y + HIGH
            bend = min(40, (to_y - y) / 2)
            lines.append(f'<path d="M{x:.0f} {y:.0f} C{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f} {to_x:.0f} {to_y:.0f}" fill="none" '
                         f'stroke="#7a869a"><title>{name} imports {other}</title></path>')
    for name, (x, y) in sorted(places.items()):
        lines += [f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDE}" height="{HIGH}" rx="4" fill="#eef2f8" stroke="#34507a"/>',
                  f'<text x="{x + WIDE / 2:.0f}" y="{y + 16:.0f}" text-anchor="middle" fill="#101820">{name}</text>']
    return "\n".join([*lines, "</svg>", ""])


def check(root, files, packages):
    """Every rule of this page, and whether the picture is that of the imports."""
    yield from never(packages)
    yield from of_command(root, files)
    path = root / PICTURE
    if not path.exists() or path.read_text(encoding="utf-8") != picture(packages):
        yield f"{PICTURE} is not the picture of the imports: run, in tools, python3 -m checks.layers --write"


if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[2]
    metadata, problems = architecture.metadata(ROOT)
    if problems:
        sys.exit(problems[0])
    if sys.argv[1:] == ["--write"]:
        (ROOT / PICTURE).write_text(picture(metadata["packages"]), encoding="utf-8")
    listed = [*(ROOT / "crates").rglob("*.rs")]
    print(*check(ROOT, listed, metadata["packages"]), sep="\n")
