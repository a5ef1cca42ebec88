# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a program that uses a library compiles: trees of crates that may not grow unnoticed; and what the tests compile for nothing."""

import re
import subprocess
import tomllib

# Lines of `cargo tree -p straightway-c -e normal --prefix none | sort -u`.
MOST_OF_C = 60
# Crates that volumes on files do without.
DRIVE_STACK = {"nvme", "model", "fabric", "coprocessor", "hwfs", "recorder", "live", "map"}
# Crates whose code runs in the compiler, or that only reports need.
NOT_IN_A_LIBRARY = {"askama", "clap", "fuser", "nix", "rustls", "schemars", "signal-hook", "tar"}
# Crates that the command without features does without.
OF_FEATURES = {"askama", "bench", "fuser", "measure", "nix", "reports", "rustls", "workload"}


def tree(root, *arguments):
    """The lines of cargo's tree, each once."""
    command = ["cargo", "tree", "--locked", "--offline", "-e", "normal", "--prefix", "none", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return sorted({line for line in done.stdout.splitlines() if line})


def trees(root):
    """Trees that have what they should not."""
    of_c = tree(root, "-p", "straightway-c")
    if len(of_c) > MOST_OF_C:
        yield f"crates/c: its tree has {len(of_c)} lines, more than {MOST_OF_C}: put what is new behind a feature (tools/checks/lean.py)"
    least = tree(root, "-p", "straightway", "--no-default-features")
    bare = tree(root, "-p", "straightway-cli", "--no-default-features")
    for who, lines, refused in (("c", of_c, NOT_IN_A_LIBRARY), ("cli without features", bare, OF_FEATURES), ("straightway without features", least, NOT_IN_A_LIBRARY | DRIVE_STACK)):
        names = {line.split(" ")[0].removeprefix("straightway-") for line in lines}
        for name in sorted(names & refused):
            yield f"crates/{who}: {name} is in its tree: put it behind a feature"


EXAMPLE = re.compile(r"^\s*//[/!] ```|README\.md\"\)", re.M)


def untested(root):
    """Libraries whose tests or documentation's examples are not built although there are some, or are built although there are none."""
    for manifest in sorted(root.glob("crates/*/Cargo.toml")):
        library = tomllib.loads(manifest.read_text("utf-8")).get("lib", {})
        sources = [path.read_text("utf-8") for path in manifest.parent.glob("src/**/*.rs")]
        for key, what, found in (("test", "tests", lambda text: "#[test]" in text), ("doctest", "examples in documentation", EXAMPLE.search)):
            has, builds = any(map(found, sources)), library.get(key, True)
            if has and not builds:
                yield f"{manifest.relative_to(root)}: it has {what}, which `{key} = false` leaves out: remove that line"
            elif builds and not has:
                yield f"{manifest.relative_to(root)}: it has no {what}: `{key} = false` below [lib] saves their build"
