# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page of partners (docs/partners.md): the marks in the tests, and what tests/partners.toml knows of each partner.

A mark is a comment line above a test, or above the imports of a file for all of its tests:

    # partner: NAME[, NAME]... | ROLE[, ROLE]...      (`//` in Rust and C++)

NAME is one of tests/partners.toml, ROLE one of `ROLES`; partners with other roles have a line of their own.
"""

import re
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROLES = ["drive", "target", "initiator", "host kernel", "guest driver", "reader", "writer", "program", "machine"]
REGISTRY, PAGE = Path("tests/partners.toml"), Path("docs/partners.md")
LOCKS = ["requirements.lock", "requirements-rtl.lock", "requirements-python.lock", "requirements-data.lock", "Cargo.lock"]
MARK = re.compile(r"^[ \t]*(?:#|//) partner: ([^|\n]+)\|([^\n]+)$", re.M)
TEST = re.compile(r"\s*(?:async )?(?:def (test_\w+)|(?:pub )?fn (\w+)|(?:TEST|static \w+) ?\(?(\w+))")
# Between a mark and its test: comments, attributes, decorators.
BETWEEN = re.compile(r"\s*(?:#|//|@)")
SEARCHED = {".py", ".rs", ".cpp", ".hpp", ".c"}


@dataclass
class Mark:
    """A test, or with an empty name a file of tests, that plays against partners."""

    file: str
    test: str
    names: list[str]
    roles: list[str]


@dataclass
class Registry:
    """tests/partners.toml."""

    partners: list[dict] = field(default_factory=list)
    models: list[dict] = field(default_factory=list)

    def names(self):
        return [partner["name"] for partner in self.partners]


def split(text):
    return [word.strip() for word in text.split(",") if word.strip()]


def marks_of(file, text):
    """The marks of one source file, in order."""
    for found in MARK.finditer(text):
        test = ""
        for line in text[found.end() + 1 :].splitlines():
            if BETWEEN.match(line):
                continue
            named = TEST.match(line)
            test = next(filter(None, named.groups()), "") if named else ""
            break
        yield Mark(file, test, split(found[1]), split(found[2]))


def marks(root, files):
    for file in sorted(files):
        if file.suffix in SEARCHED and "partners" not in file.name:
            yield from marks_of(str(file.relative_to(root)), file.read_text(encoding="utf-8"))


def registry(root):
    known = tomllib.loads((root / REGISTRY).read_text(encoding="utf-8"))
    return Registry(known.get("partner", []), known.get("model", []))


def locked(root, package, locks=LOCKS):
    """The version that a lock file pins, or None."""
    for lock in locks:
        text = (root / lock).read_text(encoding="utf-8")
        found = re.search(rf'^{re.escape(package)}==(\S+)|^name = "{re.escape(package)}"\nversion = "([^"]+)"', text, re.M)
        if found:
            return found[1] or found[2]
    return None


def kernels(root, flavours):
    """The kernels of the lab, as 6.1 and 6.12: their updates change the last number."""
    found = []
    for flavour in flavours:
        images = sorted((root / "build/lab/kernel").glob(f"{flavour}/boot/vmlinuz-*"))
        version = images and re.match(r"vmlinuz-(\d+\.\d+)", images[0].name)
        found.append(version[1] if version else None)
    return ", ".join(dict.fromkeys(found)) if found and all(found) else None


def printed(command, pattern):
    """What a program on this machine prints of its version, or None if it is not here."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(pattern, done.stdout + done.stderr)
    return found[1] if found else None


def version(root, partner, before):
    """A partner's version as it printed it here or as a lock file pins it; `before` is what the page says, of a partner that is not here."""
    if "package" in partner:
        return locked(root, partner["package"], [partner["lock"]] if "lock" in partner else LOCKS)
    if "kernels" in partner:
        return kernels(root, partner["kernels"]) or before
    return printed(partner["command"], partner["pattern"]) or before


def on_page(text):
    """The versions that the page has: {name: version}."""
    return dict(re.findall(r"^\| \*\*(.+?)\*\* \| [^|]*\| ([^|]*?) \|", text, re.M))


def problems(found, known, root):
    names, played = known.names(), {name for mark in found for name in mark.names}
    for mark in found:
        where = f"{mark.file}: the mark of {mark.test or 'the file'}"
        yield from (f"{where} names `{name}`, which {REGISTRY} does not have" for name in mark.names if name not in names)
        yield from (f"{where} has the role `{role}`: one of {', '.join(ROLES)}" for role in mark.roles if role not in ROLES)
    yield from (f"{REGISTRY}: no test has a mark of `{name}`" for name in names if name not in played)
    for model in known.models:
        where = f"{REGISTRY}: the model `{model['name']}`"
        yield from (f"{where}: {file} is not there" for file in model["files"] if not (root / file).exists())
        yield from (f"{where} names the partner `{name}`, which is not there" for name in model["beside"] if name not in names)
        yield from (f"{where}: a claim without its clause: {claim}" for claim, clause in model.get("alone", []) if not clause.strip())


def link(file):
    return f"[{Path(file).name}](../{file})"


def tests(found, name):
    """The tests with a partner, by file."""
    files = {}
    for mark in found:
        if name in mark.names:
            files.setdefault(mark.file, []).append(mark.test)
    return "; ".join(f"{link(file)}" + ("" if "" in named else f": {', '.join(f'`{test}`' for test in named)}") for file, named in files.items())


def roles(found, name):
    played = {role for mark in found if name in mark.names for role in mark.roles}
    return ", ".join(role for role in ROLES if role in played)


HEAD = """# Partners

Whatever Straightway talks to was made by others: drives, targets, initiators, kernels, guests' drivers, readers and writers of formats.
A test against a partner that this project wrote shows only that both sides share a belief. This page says which real partners each
part was played against, what is easily guessed wrong about them, and what so far only a model of this project claims.

`tools/partners --write` makes this page from the marks in the tests (`partner: NAME | ROLE`) and from
[tests/partners.toml](../tests/partners.toml); `make check` compares it. A version is what the partner printed, or what a lock file pins.
"""


def page(found, known, versions):
    lines = [HEAD, "## Who was played against", "", "| partner | what it is | version | role | tests |", "| --- | --- | --- | --- | --- |"]
    for partner in known.partners:
        name = partner["name"]
        lines.append(f"| **{name}** | {partner['is']} | {versions[name] or 'not known'} | {roles(found, name)} | {tests(found, name)} |")
    lines += ["", "## What good guesses get wrong", "", "| partner | what one would guess | what it does | seen with |", "| --- | --- | --- | --- |"]
    for partner in known.partners:
        for guess, fact, source in partner.get("wrong", []):
            lines.append(f"| {partner['name']} | {guess} | {fact} | {source} |")
    lines += ["", "## What only a model claims", "",
              "A model of this project stands in where a real partner cannot be made to fail on demand, or is not to be had. What it does as",
              "its real counterpart does, tests against both. The rest is its word, and the clause that it follows.", ""]
    for model in known.models:
        beside = ", ".join(model["beside"]) or "none"
        lines += [f"### {model['name']}", "", f"{', '.join(link(file) for file in model['files'])}. Real counterparts: {beside}. {model['text']}", ""]
        if model.get("alone"):
            lines += ["| what the model claims | clause |", "| --- | --- |"]
            lines += [f"| {claim} | {clause} |" for claim, clause in model["alone"]] + [""]
    return "\n".join(lines).rstrip("\n") + "\n"


def make(root, files, measured):
    """The page, and what is wrong with marks and registry. Unless `measured`, versions of this machine's programs are those of the page."""
    found, known = list(marks(root, files)), registry(root)
    before = on_page((root / PAGE).read_text(encoding="utf-8")) if (root / PAGE).exists() else {}
    versions = {partner["name"]: version(root, partner, before.get(partner["name"]))
                if measured or "package" in partner else before.get(partner["name"]) for partner in known.partners}
    return page(found, known, versions), list(problems(found, known, root))


def check(root, files):
    """For `make check`."""
    text, wrong = make(root, files, measured=False)
    yield from wrong
    if not (root / PAGE).exists() or text != (root / PAGE).read_text(encoding="utf-8"):
        yield f"{PAGE} is not what the tests' marks say; run: tools/partners --write"
