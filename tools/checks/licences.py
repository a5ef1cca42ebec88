# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Licences of dependencies: those of crates, which are linked into what is shipped, and those of Python packages, which only tests run."""

import os
import re
import shutil
import subprocess
import tomllib
from importlib.metadata import distributions

ACCEPTED = {"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "Unicode-3.0",
            "Unlicense", "CC0-1.0", "0BSD", "MIT-0", "BSL-1.0", "MPL-2.0",
            "Apache-2.0 WITH LLVM-exception"}  # fmt: skip

# Python packages whose licence would bind what is shipped with them. Nothing shipped depends on them: they stay in build/venv.
TEST_ONLY = {
    "mcap-ros2-support-fast": "GPL-3.0: of pymcap-cli",
    "pymcap-cli": "GPL-3.0: a program that reads what `export` writes",
    "ros-parser": "GPL-3.0: of pymcap-cli",
    "scapy": "GPL-2.0-only: of cocotb-bus, which cocotbext-axi needs; the benches import neither it nor what imports it",
    "sigmf": "LGPL-3.0-or-later: a library that reads what `export` writes",
    "small-mcap": "GPL-3.0: of pymcap-cli",
}
# The folders whose programs may use them: tests, and the benches of the hardware.
TESTS = re.compile(r"(lab/)?tests/|rtl/test/|crates/[a-z]+/tests/")
LOCKS = ("requirements.lock", "requirements-rtl.lock")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==", re.M)
COPYLEFT = re.compile(r"\b[AL]?GPL|General Public License", re.I)


def of_crates(packages):
    """Crates with a licence that is not accepted."""
    for package in packages:
        expression = package["license"] or ""
        alternatives = re.split(r"\s+OR\s+|/", expression.replace("(", "").replace(")", ""))
        acceptable = any(
            all(part.strip() in ACCEPTED for part in alternative.split(" AND "))
            for alternative in alternatives
        )
        if not acceptable:
            yield f"{package['name']} {package['version']}: licence {expression or 'unknown'!r} is not on the list"


def of_python(root, files):
    """Python packages that bind what uses them and are not known as test-only, or that something shipped uses."""
    pinned = {_plain(name) for lock in LOCKS for name in PIN.findall((root / lock).read_text("utf-8"))}
    for name in TEST_ONLY.keys() - pinned:
        yield f"{name}: it is test-only in tools/checks/licences.py, and in no lock file"
    installed = [str(path) for path in root.glob("build/venv/lib/python3*/site-packages")]
    for package in distributions(path=installed):
        name = _plain(package.name)
        if name in pinned and name not in TEST_ONLY and (licence := _copyleft(package.metadata)):
            yield f"{name} {package.version}: licence {licence!r}: name it in TEST_ONLY of tools/checks/licences.py, or use another package"
    wheel = tomllib.loads((root / "crates/python/pyproject.toml").read_text("utf-8"))["project"]
    needs = [*wheel.get("dependencies", []), *(word for words in wheel.get("optional-dependencies", {}).values() for word in words)]
    for need in needs:
        if _plain(re.split(r"[^A-Za-z0-9._-]", need)[0]) in TEST_ONLY:
            yield f"crates/python/pyproject.toml: {need} is a test-only dependency (tools/checks/licences.py)"
    modules = "|".join(re.escape(name.replace("-", "_")) for name in TEST_ONLY)
    imports = re.compile(rf"^\s*(?:import|from)\s+({modules})\b", re.M)
    for file in files:
        where = str(file.relative_to(root))
        if file.suffix == ".py" and not TESTS.match(where) and (found := imports.search(file.read_text("utf-8"))):
            yield f"{where}: it imports {found[1]}, a test-only dependency (tools/checks/licences.py)"


def lines():
    """The packages that only tests may use, to print."""
    return [f"test-only: {name} ({why})" for name, why in sorted(TEST_ONLY.items())]


def _plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def _copyleft(metadata):
    """The licence that binds, if the package has no other one."""
    said = [metadata.get("License-Expression") or "", (metadata.get("License") or "").partition("\n")[0]]
    said += [line for line in metadata.get_all("Classifier", []) if line.startswith("License")]
    return next((text.strip() for text in said if COPYLEFT.search(text)), None)


# Where crates may come from, and those that would bring what the project does without.
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"
BANNED = {
    "openssl-sys": "TLS is rustls'",
    "native-tls": "TLS is rustls'",
    "libz-sys": "nothing shipped links a C library but the system's own",
    "zstd-sys": "decompression is ruzstd's",
    "lz4-sys": "decompression is lz4_flex's",
    "bindgen": "structures of the kernel are written down with their tests",
    "async-std": "programs bring their own loop",
    "tokio": "programs bring their own loop",
}


def locked(root, files):
    """Crates of a lock file from elsewhere, without a checksum, or banned. `cargo deny` has the same rules in deny.toml."""
    for file in files:
        if file.name != "Cargo.lock":
            continue
        for package in tomllib.loads(file.read_text("utf-8"))["package"]:
            what = f"{file.relative_to(root)}: {package['name']} {package['version']}"
            if source := package.get("source"):
                if source != REGISTRY:
                    yield f"{what} comes from {source}: only crates.io is allowed"
                elif not package.get("checksum"):
                    yield f"{what} has no checksum"
            if why := BANNED.get(package["name"]):
                yield f"{what} is banned: {why}"
    deny = tomllib.loads((root / "deny.toml").read_text("utf-8"))
    if set(deny["licenses"]["allow"]) != ACCEPTED:
        yield "deny.toml: [licenses] allow is not ACCEPTED of tools/checks/licences.py"
    if {one["crate"]: one["reason"] for one in deny["bans"]["deny"]} != BANNED:
        yield "deny.toml: [bans] deny is not BANNED of tools/checks/licences.py"


def denied(root, files):
    """What `cargo deny` finds in each lock file, by deny.toml; without it nothing, which is printed."""
    if (program := deny(root)) is None:
        print("SKIPPED: cargo deny is not installed; run: tools/setup deny")
        return
    for file in files:
        if file.name != "Cargo.lock":
            continue
        # What it looks at has been fetched to build it; no other machine's crates are fetched for this.
        command = [program, "--log-level", "error", "--offline", "--locked", "--config", root / "deny.toml",
                   "--manifest-path", file.with_name("Cargo.toml"), "check", "--hide-inclusion-graph", "licenses", "bans", "sources"]  # fmt: skip
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if done.returncode != 0:
            yield f"{file.relative_to(root)}: cargo deny refuses it:\n{done.stdout}{done.stderr}"


def deny(root):
    """The program, as tools/setup installs it or another one; None without."""
    return shutil.which("cargo-deny", path=f"{root / 'build/deny/bin'}{os.pathsep}{os.environ.get('PATH', '')}")
