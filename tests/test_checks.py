# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rules of tools/checks: each finds what it is there for, and passes over what it is not."""

import json
import os
import re
import shutil
import subprocess

import pytest

from checks import abi, api, lean, licences, lints, options, spdx, width, wording
from scripted import ROOT

HEADER = ROOT / "crates/c/include/straightway.h"
# {what: (pattern, replacement, whether a program that was built before goes on working)}
CHANGES = {
    "a member at the end": (r"(const char \*hardware;\n)(};)", r"\1  uint64_t more;\n\2", True),
    "a new function": (r"(enum straightway_status) straightway_kick\(", r"\1 straightway_kack(uint32_t x);\n\1 straightway_kick(", True),
    "a new value": (r"(  STRAIGHTWAY_STATUS_FULL = 8,)", r"\1\n  STRAIGHTWAY_STATUS_NEW = 18,", True),
    # In front of padding: no other member moves.
    "a member of another type": (r"uint32_t commit_ms;", "uint64_t commit_ms;", False),
    "a member of another name": (r"uint32_t commit_ms;", "uint32_t commit_us;", False),
    "a member in the middle": (r"(  uint32_t commit_ms;)", r"  uint32_t more;\n\1", False),
    "a member less": (r"  const char \*hardware;\n};", "};", False),
    "a function less": (r"enum straightway_status straightway_kick\([^;]*;", "", False),
    "a parameter": (r"straightway_kick\(straightway_device device\)", "straightway_kick(straightway_device device, uint32_t n)", False),
    "another value": (r"STRAIGHTWAY_STATUS_FULL = 8", "STRAIGHTWAY_STATUS_FULL = 18", False),
}


@pytest.mark.skipif(not shutil.which("abidw"), reason="abigail-tools is not installed: tools/setup check")
@pytest.mark.parametrize("what", CHANGES)
def test_the_interface_of_the_c_library_only_grows(tmp_path, what):
    pattern, replacement, is_kept = CHANGES[what]
    text, count = re.subn(pattern, replacement, HEADER.read_text("utf-8"), count=1)
    assert count == 1
    changed = tmp_path / "straightway.h"
    changed.write_text(text, "utf-8")
    assert (not list(abi.broken(ROOT, changed))) == is_kept


TOOLS = sorted(file.name for file in (ROOT / "tools").iterdir() if file.is_file() and os.access(file, os.X_OK))


@pytest.mark.parametrize("name", TOOLS)
def test_each_tool_answers_help_and_does_nothing(name):
    done = subprocess.run([ROOT / "tools" / name, "--help"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"usage: tools/{name}" in done.stdout and len(done.stdout.splitlines()) < 60


def test_an_unknown_part_of_the_checks_is_refused():
    done = subprocess.run([ROOT / "tools/check", "clipy"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith("check: unknown part clipy; hint: format, clippy,")


def test_long_comments_are_broken_where_a_reader_expects_it():
    words = "word " * 30
    long = f"    /// {words.strip()}\n    /// and more.\n    fn f() {{}} // {words}\n"
    broken = width.broken(long)
    lines = broken.splitlines()
    assert [len(line) <= 100 for line in lines] == [True, True, False] and lines[1].endswith("and more.")
    assert width.broken(broken) == broken
    item = width.broken(f"//! * {words}\n//! * {words}\n")
    assert [line[:6] for line in item.splitlines()] == ["//! * ", "//!   ", "//! * ", "//!   "]
    for stays in (f"// | {words} |\n", f"// partner: {words}\n", f"/// ```\n/// {words}\n/// ```\n", "// " + "x" * 120 + "\n", "// short\n"):
        assert width.broken(stays) == stays
    # A line must not begin with what is a heading or an item there.
    assert not re.search(r"^// [-#*]", width.broken("// " + "word - # * " * 20 + "\n"), re.M)


def test_options_are_found_where_they_are_defined():
    found = options.names(ROOT, list((ROOT / "crates/cli/src").rglob("*.rs")))
    assert {"append", "follow", "read", "destroy-data", "cdw13", "once"} <= set(found) and len(found) > 120


def test_a_source_without_a_licence_and_a_crate_from_elsewhere_are_found(tmp_path):
    (tmp_path / "a.rs").write_text("fn main() {}\n")
    (tmp_path / "b.py").write_text("#!/usr/bin/env python3\n# SPDX-License-Identifier: MIT\n")
    lock = tmp_path / "Cargo.lock"
    entry = '[[package]]\nname = "{}"\nversion = "1.0.0"\nsource = "{}"\n'
    lock.write_text(entry.format("one", "git+https://example.org/one") + entry.format("zstd-sys", licences.REGISTRY), "utf-8")
    shutil.copy(ROOT / "deny.toml", tmp_path)
    assert [line.partition(":")[0] for line in spdx.unmarked(tmp_path, [tmp_path / "a.rs", tmp_path / "b.py"])] == ["a.rs"]
    said = "\n".join(licences.locked(tmp_path, [lock]))
    assert "example.org" in said and "zstd-sys 1.0.0 has no checksum" in said and "zstd-sys 1.0.0 is banned" in said


@pytest.mark.skipif(not licences.deny(ROOT), reason="cargo-deny is not installed: tools/setup deny")
def test_cargo_deny_finds_a_licence_and_a_crate_that_are_not_wanted(tmp_path):
    shutil.copy(ROOT / "deny.toml", tmp_path)
    (tmp_path / "build").symlink_to(ROOT / "build")
    package = '[package]\nname = "{}"\nversion = "1.0.0"\nedition = "2024"\nlicense = "{}"\n'
    for name, licence in (("a", "MIT"), ("tokio", "MIT"), ("b", "GPL-3.0-only")):
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "src/lib.rs").touch()
        (tmp_path / name / "Cargo.toml").write_text(package.format(name, licence))

    def found(*needs):
        text = package.format("a", "MIT") + "[dependencies]\n" + "".join(f'{one} = {{ path = "../{one}" }}\n' for one in needs)
        (tmp_path / "a/Cargo.toml").write_text(text)
        subprocess.run(["cargo", "generate-lockfile", "--offline", "--quiet"], cwd=tmp_path / "a", check=True)
        return "\n".join(licences.denied(tmp_path, [tmp_path / "a/Cargo.lock"]))

    assert found() == ""
    assert "bans FAILED" in found("tokio") and "licenses FAILED" in found("b")


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed: tools/setup check")
def test_lints_find_what_they_are_for(tmp_path):
    if not (ROOT / "build/venv/bin/ruff").exists():
        pytest.skip("ruff is not in build/venv: tools/setup python")
    (tmp_path / "build").symlink_to(ROOT / "build")
    shutil.copy(ROOT / "ruff.toml", tmp_path)
    python, shell = tmp_path / "a.py", tmp_path / "b"
    python.write_text("import os\nprint(undefined)\n")
    shell.write_text("#!/usr/bin/env bash\ncd $(pwd)/x\nlocal y=$(false)\n")
    said = "\n".join(lints.check(tmp_path, [python, shell]))
    assert "F401" in said and "F821" in said and "SC" in said


def test_an_option_of_the_command_in_a_library_is_found(tmp_path):
    def found(where, text):
        file = tmp_path / where
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return list(wording.options(tmp_path, [file]))

    library = "crates/devices/src/x.rs"
    assert len(found(library, 'fn f() {\n    hint("a \\" quote, or --path chario, or\n        --mode poll");\n}\n')) == 2
    assert found(library, "fn f() { hint(r#\"--path\"#) }\n")
    for harmless in ('// "--path"\n', 'fn f() { hint("a -- b, x--y, `--`") }\n', "fn f() { put('\"') } // --path\n",
                     'fn f() {}\n#[cfg(test)]\nmod tests {\n    const X: &str = "--path";\n}\n'):
        assert not found(library, harmless), harmless
    assert not found("crates/cli/src/x.rs", 'const X: &str = "--path";\n')
    assert not found("crates/devices/tests/x.rs", 'const X: &str = "--path";\n')
    # An exception that nothing needs any more is named.
    cp = "crates/bench/src/holes.rs"
    assert found(cp, "fn f() {}\n") and not found(cp, 'const X: &str = "--sparse";\n')
    # What a file may say of a tool is no leave for the command's own options.
    assert ["`--path`" in one for one in found(cp, 'const X: &str = "--sparse --path";\n')] == [True]


# A crate, and the lines of its interface.
LIBRARY = """
use std::fmt;
mod inside { pub struct Hidden(pub u8, u16); impl Hidden { pub fn seen(&self, other: &str) -> Option<&str> { None } fn unseen() {} } }
pub use inside::Hidden as Shown;
pub use std::time::Duration;
#[derive(Clone)]
#[non_exhaustive]
pub enum Choice { One, Two(u32), Three { bytes: u64 } }
pub trait Named: fmt::Debug { type Of; fn name(&self) -> String; fn len(&mut self) -> usize { 0 } }
pub const fn most<'a, T: Into<u64> + 'a, const N: usize>(all: [T; N], with: &dyn Fn(u64) -> bool) -> Result<impl Iterator<Item = u64>, ()> {
    let _ = (all, with); Ok(std::iter::empty())
}
pub const LIMIT: u64 = 1 << 20;
pub(crate) fn own() {}
pub struct Options<'a> { pub path: Option<&'a str>, secret: u8 }
"""
INTERFACE = """
impl Clone for Choice (library::Choice)
#[non_exhaustive] enum library::Choice
variant library::Choice::One
variant library::Choice::Three
field library::Choice::Three.bytes: u64
variant library::Choice::Two(u32)
const library::LIMIT: u64 = _
trait library::Named: fmt::Debug
type library::Named::Of
fn library::Named::len(&mut self) -> usize { .. }
fn library::Named::name(&self) -> String
field library::Options.path: Option<&'a str>
struct library::Options<'a> { .. }
struct library::Shown(u8, _);
fn library::Shown::seen(&self, other: &str) -> Option<&str>
const fn library::most<'a, T: Into<u64> + 'a, const N: usize>(all: [T; N], with: &dyn Fn(u64) -> bool) -> Result<impl Iterator<Item = u64>, ()>
use library: std::time::Duration as Duration
"""


def test_an_interface_is_what_a_program_can_name(tmp_path):
    source = tmp_path / "library.rs"
    source.write_text(LIBRARY, "utf-8")
    command = ["rustdoc", "--edition", "2024", "--crate-name", "library", source, "--cap-lints", "allow", "-Z", "unstable-options",
               "--output-format", "json", "-o", tmp_path]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "RUSTC_BOOTSTRAP": "1"})
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "library.json").read_text("utf-8"))
    if document["format_version"] not in api.FORMAT_VERSIONS:
        pytest.skip(f"version {document['format_version']} of rustdoc's JSON is not known")
    found = [re.sub(r"(LIMIT: u64 =) .*", r"\1 _", line) for line in api.lines(document)]
    assert sorted(found) == sorted(INTERFACE.strip().splitlines())
    with pytest.raises(api.Unknown):
        api.lines({**document, "format_version": 0})


def test_what_a_library_must_do_without_is_found(monkeypatch):
    assert list(lean.trees(ROOT)) == []
    monkeypatch.setattr(lean, "MOST_OF_C", 10)
    monkeypatch.setattr(lean, "DRIVE_STACK", {"volume"})
    said = "\n".join(lean.trees(ROOT))
    assert "more than 10" in said and "volume is in its tree" in said



def test_libraries_build_the_tests_that_they_have_and_no_others(tmp_path):
    assert list(lean.untested(ROOT)) == []
    library = tmp_path / "crates/one"
    (library / "src").mkdir(parents=True)

    def found(settings, source):
        (library / "Cargo.toml").write_text(f"[lib]\n{settings}\n", "utf-8")
        (library / "src/lib.rs").write_text(source, "utf-8")
        return "".join(line.split(": ", 1)[1] for line in lean.untested(tmp_path))

    assert not found("test = false\ndoctest = false", "//! Text.\n")
    assert not found("doctest = false", "#[test]\nfn one() {}\n") and not found("test = false", "/// ```\n/// ```\n")
    assert "it has tests, which `test = false` leaves out" in found("test = false\ndoctest = false", "#[test]\nfn one() {}\n")
    assert "leaves out" in found("test = false\ndoctest = false", '#![doc = include_str!("../README.md")]\n')
    said = found("", "//! Text.\n")
    assert "it has no tests: `test = false`" in said and "it has no examples in documentation: `doctest = false`" in said
