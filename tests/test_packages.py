# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Debian packages of tools/packages: what they contain, that dpkg installs and removes them in a folder, that lintian finds
nothing in them, and that DKMS builds CharIO from its package for the lab's kernels."""

import gzip
import os
import re
import shutil
import stat
import subprocess

import pytest

from scripted import ROOT

BUILD = ROOT / "target" / "release"


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=ROOT, **options)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    if not shutil.which("dpkg-deb"):
        pytest.skip("no dpkg-deb")
    for name in ("straightway", "libstraightway.so", "libstraightway.a", "libstraightway_preload.so"):
        if not (BUILD / name).exists():
            pytest.skip(f"no target/release/{name}; run: make build")
    folder = tmp_path_factory.mktemp("packages")
    # Good compression takes most of the time.
    quick = {"DPKG_DEB_COMPRESSOR_TYPE": "gzip", "DPKG_DEB_COMPRESSOR_LEVEL": "1"}
    made = run("tools/packages", "--no-lint", "--output", folder, env=os.environ | quick).split()
    return {path.rpartition("/")[2].partition("_")[0]: path for path in made}


def files(package):
    lines = run("dpkg-deb", "--contents", package).splitlines()
    return {line.split()[5].removeprefix("./") for line in lines if not line.startswith("d")}


def test_each_file_is_in_the_package_that_it_belongs_to(packages):
    command = files(packages["straightway"])
    assert {"usr/bin/straightway", "usr/lib/straightway/libstraightway_preload.so", "usr/share/man/man1/straightway-selftest.1.gz",
            "usr/share/bash-completion/completions/straightway", "usr/share/zsh/vendor-completions/_straightway",
            "usr/share/fish/vendor_completions.d/straightway.fish", "lib/systemd/system/straightway-record@.service"} <= command  # fmt: skip
    names = {name.rpartition("/")[2] for name in files(packages["libstraightway-dev"])}
    assert {"straightway.h", "straightway.pc", "libstraightway.a", "libstraightway.so"} <= names
    shared = {name.rpartition("/")[2] for name in files(packages["libstraightway0"])}
    assert "libstraightway.so.0" in shared
    assert not {name for name in names & shared if name.startswith("libstraightway")}
    module = files(packages["straightway-chario-dkms"])
    sources = {name.rpartition("/")[2] for name in module}
    missing = {path.name for path in (ROOT / "kernel" / "chario").glob("*.[ch]")} - sources
    assert not missing and {"Kbuild", "Makefile", "dkms.conf"} <= sources
    for package in packages.values():
        owners = {line.split()[1] for line in run("dpkg-deb", "--contents", package).splitlines()}
        assert owners == {"root/root"}, package


def test_dpkg_installs_and_removes_the_command_and_the_library(packages, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("dpkg needs root")
    root = tmp_path / "root"
    database = root / "var" / "lib" / "dpkg"
    (database / "info").mkdir(parents=True)
    (database / "updates").mkdir()
    (database / "status").touch()
    # The dependencies are outside of the folder.
    dpkg = ("dpkg", f"--root={root}", "--force-depends")
    run(*dpkg, "--install", packages["straightway"], packages["libstraightway0"], packages["libstraightway-dev"])
    assert run(root / "usr/bin/straightway", "--version").startswith("straightway ")
    page = gzip.decompress((root / "usr/share/man/man1/straightway.1.gz").read_bytes())
    assert b"straightway" in page
    pc = next(root.rglob("straightway.pc"))
    libdir = next(line for line in pc.read_text().splitlines() if line.startswith("libdir=")).replace("libdir=${prefix}/", "")
    assert (root / "usr" / libdir / "libstraightway.so").resolve().exists()
    # A program with the static library: it has the interface, and no other name that a program could have too.
    library = root / "usr" / libdir / "libstraightway.a"
    names = {line.split()[-1] for line in run("nm", "--extern-only", "--defined-only", library).splitlines() if " T " in line}
    interface = set(re.findall(r"\b(straightway_\w+)\(", (root / "usr/include/straightway.h").read_text()))
    # A template for C++, in the header alone.
    interface.discard("straightway_initial")
    assert names == interface, names ^ interface
    needs = next(line for line in pc.read_text().splitlines() if line.startswith("Libs.private:")).split()[1:]
    run("cc", "-I", root / "usr/include", "crates/c/examples/files.c", library, *needs, "-o", tmp_path / "files")
    run(root / "usr/bin/straightway", "format", tmp_path / "image", "--size", "16M")
    assert run(tmp_path / "files", tmp_path / "image", "log", input="stored").split() == ["6", "log"]
    run(*dpkg, "--purge", "straightway", "libstraightway0", "libstraightway-dev")
    left = [path for path in root.rglob("*") if path.is_file() and not path.is_relative_to(root / "var")]
    assert left == []


@pytest.mark.repeated()
def test_lintian_finds_nothing_that_is_not_overridden_with_a_reason(packages, tmp_path):
    if not shutil.which("lintian"):
        pytest.skip("no lintian; run: tools/setup packages")
    done = subprocess.run(["lintian", "--allow-root", "--tag-display-limit", "0", *packages.values()], capture_output=True, text=True)
    print(done.stdout)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    for name, path in packages.items():
        run("dpkg-deb", "--extract", path, tmp_path / name)
        overrides = (tmp_path / name / "usr/share/lintian/overrides" / name).read_text()
        # A reason stands above each group.
        assert overrides.startswith("# ") and len(overrides.splitlines()) == 3, overrides


def test_the_static_command_runs_in_an_empty_root(tmp_path):
    command = ROOT / "out" / "packages" / "straightway-static"
    if not command.exists():
        pytest.skip("no out/packages/straightway-static; run: make static")
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    assert "INTERP" not in run("readelf", "--program-headers", command)
    shutil.copy(command, tmp_path / "straightway")
    # A volume's identifier is random.
    (tmp_path / "dev").mkdir()
    os.mknod(tmp_path / "dev" / "urandom", 0o666 | stat.S_IFCHR, os.makedev(1, 9))
    inside = ("chroot", tmp_path, "/straightway", "--quiet")
    run(*inside, "format", "/image", "--size", "16M")
    content = os.urandom(100_000)
    (tmp_path / "content").write_bytes(content)
    run(*inside, "put", "/image", "/content", "kept")
    run(*inside, "get", "/image", "kept", "/back")
    assert (tmp_path / "back").read_bytes() == content
    # It has no library to start other programs with.
    done = subprocess.run([*map(str, inside), "map", "/image", "--at", "/x", "--", "/straightway"], capture_output=True, text=True)
    assert done.returncode != 0 and "libstraightway_preload.so" in done.stderr, done.stderr


HEADERS = ROOT / "build" / "lab" / "headers" / "usr" / "src"
KERNELS = {"stock-x86_64": r"[0-9.]+-[0-9]+-amd64", "backports-x86_64": r"[0-9.]+\+deb12-amd64"}


def interface(module):
    """What a module's loader looks at: its kernel, parameters and aliases, and the symbols that it needs from the kernel."""
    facts = {line for line in run("modinfo", module).splitlines() if line.split(":")[0] in ("vermagic", "depends", "alias", "parm", "license")}
    return facts, {line.split()[-1] for line in run("nm", "--undefined-only", module).splitlines()}


# Each part builds one of them: that the module is right for each kernel is shown by those that load it.
@pytest.mark.cells("packaged")
@pytest.mark.parametrize("kernel", KERNELS)
def test_dkms_builds_the_module_that_the_lab_loads(packages, tmp_path, kernel):
    # The headers of the newest kernel bring vmlinux, so the kernel's build adds types for tracers, by pahole.
    for tool in ("dkms", "modinfo", *["pahole"] * kernel.startswith("backports")):
        if not shutil.which(tool):
            pytest.skip(f"no {tool}; run: tools/setup packages")
    releases = [path.name.removeprefix("linux-headers-") for path in HEADERS.glob("linux-headers-*")]
    release = next((name for name in releases if re.fullmatch(KERNELS[kernel], name)), None)
    reference = ROOT / "build" / "chario" / kernel / "chario.ko"
    if release is None:
        pytest.skip(f"no headers of {kernel}; run: tools/setup chario")
    run("kernel/chario/build", kernel)
    run("dpkg-deb", "--extract", packages["straightway-chario-dkms"], tmp_path / "root")
    (tmp_path / "dkms").mkdir()
    version = next((tmp_path / "root/usr/src").iterdir()).name.rpartition("-")[2]
    words = ("-m", "straightway-chario", "-v", version, "--dkmstree", tmp_path / "dkms", "--sourcetree", tmp_path / "root/usr/src")
    run("dkms", "add", *words)
    built = words + ("-k", release, "--arch", "x86_64", "--kernelsourcedir", HEADERS / f"linux-headers-{release}")
    run("dkms", "build", *built)
    status = run("dkms", "status", *words[:4], "--dkmstree", tmp_path / "dkms", "--sourcetree", tmp_path / "root/usr/src")
    assert f"{version}, {release}, x86_64: built" in status, status
    module = next((tmp_path / "dkms").rglob("chario.ko*"))
    print(module.relative_to(tmp_path), run("modinfo", "-F", "vermagic", module).strip())
    assert interface(module) == interface(reference)
