# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rules between files: which module may import which, headings that comments name, and packages."""

import json
import re
import subprocess
from pathlib import Path

# A crate imports only from layers below its own (ARCHITECTURE.md, "The map"); tests may import anything.
LAYERS = {"units": 0, "paths": 0, "remedy": 0, "blast": 0, "block": 0, "events": 0, "hwfs": 0, "statistics": 0, "nvme": 1, "volume": 1, "model": 2, "stream": 2, "coprocessor": 3, "linux": 4, "map": 4, "measure": 4, "workload": 5, "reports": 6, "devices": 5, "files": 6, "formats": 3, "live": 7, "recorder": 8, "serve": 8, "mount": 8, "bench": 8, "board": 8, "preload": 5, "straightway": 9, "cli": 10, "c": 10, "python": 11, "stripe": 1, "fabric": 2, "hybrid": 1, "export": 1, "nbd": 2, "virtio": 2}
# Outside the layers: for tests, simulations and figures; no published crate depends on these.
BESIDE = {"crash", "twin", "figures", "simulator"}
HEADING = re.compile(r'FORMAT\.md`?, (?:section )?"([^"\n]+)"')


def metadata(root):
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        return None, ["cargo metadata failed: " + done.stderr.strip().splitlines()[-1]]
    return json.loads(done.stdout), []


def layers(packages):
    """Crates that import from their own layer or one above."""
    ours = {package["name"].removeprefix("straightway-"): package for package in packages if package["source"] is None}
    for name, package in ours.items():
        if name in BESIDE:
            continue
        if name not in LAYERS:
            yield f"crates/{name}: give it a layer in tools/checks/architecture.py and in ARCHITECTURE.md's map"
            continue
        for dependency in package["dependencies"]:
            other = dependency["name"].removeprefix("straightway-")
            if dependency["kind"] is not None or other not in ours:
                continue
            if other in BESIDE:
                yield f"crates/{name}: it depends on {other}, which is only for tests and figures"
            elif LAYERS.get(other, 0) >= LAYERS[name]:
                yield f"crates/{name} (layer {LAYERS[name]}) imports {other} (layer {LAYERS.get(other)}): move it to a lower layer"


def unnamed(root, packages):
    """Crates that the README's table of components or ARCHITECTURE.md's map does not name."""
    table = (root / "README.md").read_text(encoding="utf-8").split("## Components")[-1].split("\n\n## ")[0]
    page = (root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for package in packages:
        folder = Path(package["manifest_path"]).parent
        if package["source"] is None and folder.parent == root / "crates":
            if f"`{folder.name}`" not in table:
                yield f"README.md: the table of components does not name `{folder.name}`"
            if f"`crates/{folder.name}`" not in page:
                yield f"ARCHITECTURE.md: the map does not name `crates/{folder.name}`"


def headings(root, files):
    """Places that name a heading which FORMAT.md does not have."""
    known = set(re.findall(r"^#+ (.+)$", (root / "FORMAT.md").read_text(encoding="utf-8"), re.M))
    for file in files:
        if file.suffix in {".rs", ".md", ".sv", ".asm", ".py"}:
            for name in HEADING.findall(file.read_text(encoding="utf-8")):
                if name not in known:
                    yield f'{file.relative_to(root)}: FORMAT.md has no heading "{name}"'


def older_compilers(packages):
    """Dependencies that need a newer compiler than the `rust-version` of our crates."""
    def number(text):
        return [int(part) for part in text.split(".")[:2]]

    ours = [package for package in packages if package["source"] is None]
    promised = next((package["rust_version"] for package in ours if package["rust_version"]), None)
    for package in packages:
        needs = package["rust_version"]
        if promised and needs and number(needs) > number(promised):
            yield f"{package['name']} {package['version']} needs Rust {needs}; Cargo.toml promises {promised}"


def publishable(root, packages):
    """What prevents a crate from being packaged: cargo assembles each, without building it again."""
    ours = [package for package in packages if package["source"] is None]
    for package in ours:
        private = package["publish"] == []
        folder = Path(package["manifest_path"]).parent
        if not private and not (folder / "README.md").exists():
            yield f"{folder.relative_to(root)}: a crate that is published has a README.md"
        if not private and not (package["keywords"] and package["categories"]):
            yield f"{folder.relative_to(root)}: a crate that is published has keywords and categories"
    skipped = [word for package in ours if package["publish"] == [] for word in ("--exclude", package["name"])]
    command = ["cargo", "package", "--workspace", *skipped, "--no-verify", "--offline", "--locked", "--allow-dirty", "--quiet"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        error = [line for line in done.stderr.splitlines() if line.startswith("error")] or ["see cargo package"]
        yield f"cargo package: {error[0]}"
