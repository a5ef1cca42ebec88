# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The recipes of Buildroot and Yocto (packaging/) without their trees: GNU make expands Buildroot's and runs its install steps; the
shell runs Yocto's. Their versions, licences, options and kernel configuration are those of the sources."""

import hashlib
import os
import re
import subprocess

import pytest

from scripted import ROOT

BUILDROOT = ROOT / "packaging" / "buildroot"
YOCTO = ROOT / "packaging" / "yocto" / "recipes-straightway"
BUILD = ROOT / "target" / "release"
INSTALLED = {"usr/bin/straightway", "usr/lib/straightway/libstraightway_preload.so", "usr/include/straightway.h"}
VERSION = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text("utf-8"), re.M)[1]
# What Buildroot does with a package, for one target each: its steps run in the folder of the target.
STEPS = """
include $(BR2_EXTERNAL_STRAIGHTWAY_PATH)/external.mk
%/.stamp_shown: ; @echo '$(STRAIGHTWAY_VERSION)|$(STRAIGHTWAY_CHARIO_VERSION)|$(STRAIGHTWAY_CARGO_BUILD_OPTS)|$(STRAIGHTWAY_LICENSE_FILES)'
%/.stamp_built: ; $(foreach hook,$(STRAIGHTWAY_PRE_BUILD_HOOKS),$($(hook)))
%/.stamp_target_installed: ; $(STRAIGHTWAY_INSTALL_TARGET_CMDS)
%/.stamp_staging_installed: ; $(STRAIGHTWAY_INSTALL_STAGING_CMDS)
"""


def buildroot(target, **variables):
    words = [f"{name}={value}" for name, value in {"BR2_EXTERNAL_STRAIGHTWAY_PATH": BUILDROOT, **variables}.items()]
    return subprocess.run(["make", "-s", "-f", "-", str(target), *words], input=STEPS, capture_output=True, text=True, cwd=ROOT)


def built():
    for name in ("straightway", "libstraightway.so", "libstraightway.a", "libstraightway_preload.so"):
        if not (BUILD / name).exists():
            pytest.skip(f"no target/release/{name}; run: make build")


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def packages_of_make_build():
    return re.search(r"^build:\n(?:\t.*\n)*?\tcargo build --release --locked (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.M)[1]


def test_buildroot_builds_what_make_build_builds():
    version, chario, options, licences = buildroot("x/.stamp_shown").stdout.strip().split("|")
    assert version == chario == VERSION and options == packages_of_make_build()
    assert all((ROOT / name).is_file() for name in licences.split())
    source = BUILDROOT / "Config.in"
    named = re.findall(r'^source "\$BR2_EXTERNAL_STRAIGHTWAY_PATH/(.+)"$', source.read_text("utf-8"), re.M)
    assert {BUILDROOT / name for name in named} == set(BUILDROOT.glob("package/*/Config.in"))


def test_buildroot_installs_the_command_and_the_library(tmp_path):
    built()
    # Buildroot's builds are for a named target; this machine's are not.
    variables = {"TARGET_DIR": tmp_path / "target", "STAGING_DIR": tmp_path / "staging", "RUSTC_TARGET_NAME": "."}
    for step in ("target", "staging"):
        done = buildroot(ROOT / f".stamp_{step}_installed", **variables)
        assert done.returncode == 0, done.stderr
    target = files(tmp_path / "target")
    assert INSTALLED | {"usr/lib/libstraightway.so.0", "usr/lib/systemd/system/straightway-record@.service"} <= target
    assert not [name for name in target if name.startswith("usr/share")]
    assert {"usr/lib/libstraightway.a", "usr/lib/pkgconfig/straightway.pc"} <= files(tmp_path / "staging")
    run = subprocess.run([tmp_path / "target/usr/bin/straightway", "--version"], capture_output=True, text=True, check=True)
    assert VERSION in run.stdout


def test_sources_without_crates_are_refused_with_a_hint(tmp_path):
    done = buildroot(tmp_path / ".stamp_built")
    assert done.returncode != 0 and "hint: use the archive of `make source`" in done.stderr
    (tmp_path / "vendor").mkdir()
    assert buildroot(tmp_path / ".stamp_built").returncode == 0


def recipe(name):
    text = next((YOCTO / name).glob("*.bb")).read_text("utf-8").replace("\\\n", " ")
    return text, dict(re.findall(r'^([\w:${}]+) \+?= "(.*)"$', text, re.M))


def test_yocto_s_recipes_state_the_sources_version_licences_and_options():
    for name in ("straightway", "straightway-chario"):
        assert [path.name for path in (YOCTO / name).iterdir()] == [f"{name}_{VERSION}.bb"]
    _, variables = recipe("straightway")
    licences = re.findall(r"file://(\S+);md5=(\w+)", variables["LIC_FILES_CHKSUM"])
    assert licences == [(file, hashlib.md5((ROOT / file).read_bytes()).hexdigest()) for file in ("LICENSE-APACHE", "LICENSE-MIT")]
    assert variables["CARGO_BUILD_FLAGS:append"].strip() == packages_of_make_build()
    assert "SPDX-License-Identifier: " + recipe("straightway-chario")[1]["LICENSE"] in (ROOT / "kernel/chario/main.c").read_text("utf-8")


def test_yocto_installs_the_command_and_the_library_where_its_variables_say(tmp_path):
    built()
    text, variables = recipe("straightway")
    step = re.search(r"^do_install\(\) \{\n(.*?)^\}", text, re.M | re.S)[1]
    folders = {"S": ROOT, "B": ROOT, "D": tmp_path, "CARGO_TARGET_SUBDIR": "release", "prefix": "/usr", "libdir": "/usr/lib64",
               "systemd_system_unitdir": "/lib/systemd/system"}  # fmt: skip
    script = 'oe_runmake() { make "$@"; }\n' + step
    subprocess.run(["sh", "-ec", script], env=os.environ | {name: str(value) for name, value in folders.items()}, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    unit = variables["SYSTEMD_SERVICE:${PN}"]
    assert INSTALLED | {"usr/lib64/libstraightway.so.0", "usr/lib64/pkgconfig/straightway.pc", f"lib/systemd/system/{unit}"} <= files(tmp_path)
    assert "libdir=${prefix}/lib64" in (tmp_path / "usr/lib64/pkgconfig/straightway.pc").read_text("utf-8").splitlines()


@pytest.mark.parametrize("kernel", ["backports-x86_64", "16k-aarch64"])
def test_the_fragment_names_options_that_kernels_have(kernel):
    configurations = list((ROOT / "build" / "lab" / "kernel" / kernel / "boot").glob("config-*"))
    if not configurations:
        pytest.skip(f"no kernel {kernel}; run: tools/setup backports")
    known = set(re.findall(r"^(CONFIG_\w+)=[ym]$", configurations[0].read_text("utf-8"), re.M))
    wanted = re.findall(r"^(CONFIG_\w+)=y$", (ROOT / "packaging" / "linux.cfg").read_text("utf-8"), re.M)
    assert wanted and not set(wanted) - known
