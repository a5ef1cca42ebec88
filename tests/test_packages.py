"""The Debian packages of tools/packages: what they contain, and that dpkg installs and removes them in a folder."""

import gzip
import os
import shutil
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
    # Compressing the static library well takes a minute.
    quick = {"DPKG_DEB_COMPRESSOR_TYPE": "gzip", "DPKG_DEB_COMPRESSOR_LEVEL": "1"}
    made = run("tools/packages", "--output", folder, env=os.environ | quick).split()
    return {path.rpartition("/")[2].partition("_")[0]: path for path in made}


def files(package):
    lines = run("dpkg-deb", "--contents", package).splitlines()
    return {line.split()[5].removeprefix("./") for line in lines if not line.startswith("d")}


def test_each_file_is_in_the_package_that_it_belongs_to(packages):
    command = files(packages["straightway"])
    assert {"usr/bin/straightway", "usr/lib/straightway/libstraightway_preload.so", "usr/share/man/man1/straightway-selftest.1.gz",
            "usr/share/bash-completion/completions/straightway", "usr/share/zsh/vendor-completions/_straightway",
            "usr/share/fish/vendor_completions.d/straightway.fish"} <= command  # fmt: skip
    library = files(packages["libstraightway-dev"])
    names = {name.rpartition("/")[2] for name in library}
    assert {"straightway.h", "straightway.pc", "libstraightway.a", "libstraightway.so"} <= names
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
    run(*dpkg, "--install", packages["straightway"], packages["libstraightway-dev"])
    assert run(root / "usr/bin/straightway", "--version").startswith("straightway ")
    page = gzip.decompress((root / "usr/share/man/man1/straightway.1.gz").read_bytes())
    assert b"straightway" in page
    pc = next(root.rglob("straightway.pc"))
    libdir = next(line for line in pc.read_text().splitlines() if line.startswith("libdir=")).replace("libdir=${prefix}/", "")
    assert (root / "usr" / libdir / "libstraightway.so").resolve().exists()
    run(*dpkg, "--purge", "straightway", "libstraightway-dev")
    left = [path for path in root.rglob("*") if path.is_file() and not path.is_relative_to(root / "var")]
    assert left == []
