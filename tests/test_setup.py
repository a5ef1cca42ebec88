# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`tools/setup` and `tools/test` where something is wrong with the machine: one line says what to do, and the next run goes on.

Programs that would change this machine, or use a network, are stand-ins in the PATH of a set-up in a folder of its own.
"""

import fcntl
import os
import shutil
import subprocess

import pytest

from scripted import ROOT

# apt-get: without a network, or with packages that are not whole. It notes its words.
APT = r"""#!/bin/sh
echo "$@" >>"$NOTES"
case " $* " in
    *" download "*)
        [ "$NETWORK" = none ] && { echo "E: Could not resolve 'deb'" >&2; exit 100; }
        [ "$NETWORK" = half ] && head -c 1000 /dev/zero >linux-image.deb || cp "$WHOLE" linux-image.deb ;;
    *) [ "$NETWORK" != none ] || { echo "E: Could not resolve 'deb'" >&2; exit 100; } ;;
esac
"""
CACHE = "#!/bin/sh\necho '  Depends: linux-image-6.1.0-1-amd64'\n"
QUERY = '#!/bin/sh\n[ "$INSTALLED" = yes ] && echo installed\n'
# A package, for dpkg -x: a kernel and its modules.
DPKG = r"""#!/bin/sh
[ "$(head -c 5 "$2")" = whole ] || { echo "dpkg-deb: error: $2 is not a Debian format archive" >&2; exit 2; }
mkdir -p "$3/boot" "$3/lib/modules/6.1.0-1-amd64/kernel"; : >"$3/boot/vmlinuz-6.1.0-1-amd64"
"""
DEPMOD = '#!/bin/sh\necho x >"$2/lib/modules/$3/modules.dep"\n'


@pytest.fixture
def clone(tmp_path):
    """A clone with nothing but the set-up, below a folder that only its owner may read."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    clone, programs = private / "clone", private / "bin"
    (clone / "tools").mkdir(parents=True)
    programs.mkdir()
    for name in ("setup", "setup-packages.sh"):
        shutil.copy(ROOT / "tools" / name, clone / "tools" / name)
    for name, text in (("apt-get", APT), ("apt-cache", CACHE), ("dpkg-query", QUERY), ("dpkg", DPKG), ("depmod", DEPMOD)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (private / "whole").write_text("whole")
    (private / "debian").write_text('ID=debian\nVERSION_ID="12"\n')
    return clone


def environment(clone, **more):
    top = clone.parent
    return {**os.environ, "PATH": f"{top / 'bin'}:{os.environ['PATH']}", "NOTES": str(top / "notes"), "WHOLE": str(top / "whole"),
            "STRAIGHTWAY_OS_RELEASE": str(top / "debian"), "NETWORK": "", "INSTALLED": "yes", **more}  # fmt: skip


def setup(clone, *words, **more):
    done = subprocess.run([clone / "tools" / "setup", *words], env=environment(clone, **more), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout, [line for line in done.stderr.splitlines() if line.startswith("setup: ")]


# One part that unpacks a kernel, after what it needs.
KERNEL = "trixie"
UNPACKED = "build/lab/kernel/trixie-x86_64/boot/vmlinuz-6.1.0-1-amd64"


@pytest.mark.skipif(os.geteuid() != 0, reason="packages are installed by root")
def test_without_a_network_a_line_says_so_and_the_next_set_up_goes_on(clone):
    status, _, (said,) = setup(clone, "base", NETWORK="none", INSTALLED="no")
    assert status == 3 and "apt-get could not install gcc" in said and "check the network" in said
    # This part's tests can be left out.
    status, told, (said,) = setup(clone, KERNEL, NETWORK="none")
    assert status == 0 and "check the network" in said and "will be skipped" in told.splitlines()[-1]
    assert setup(clone, KERNEL)[0] == 0 and (clone / UNPACKED).exists()


def test_half_a_package_is_downloaded_anew(clone):
    status, _, (said,) = setup(clone, KERNEL, NETWORK="half")
    assert status == 0 and "linux-image.deb could not be unpacked" in said and "are free here" in said and "run this again" in said
    assert not (clone / UNPACKED).exists() and not list(clone.glob("build/lab/kernel/.unpack.*"))
    assert setup(clone, KERNEL)[0] == 0 and (clone / UNPACKED).exists()


def test_what_is_below_a_private_folder_is_downloaded_by_its_owner(clone):
    assert setup(clone, KERNEL)[0] == 0
    notes = (clone.parent / "notes").read_text()
    downloads = [line for line in notes.splitlines() if " download " in line]
    # apt's own user cannot write there.
    assert downloads and all("APT::Sandbox::User=root" in line for line in downloads), notes


def test_another_system_than_debian_12_is_refused_in_one_line(clone):
    other = clone.parent / "other"
    for text, name in (('ID=debian\nVERSION_ID="13"\n', "debian 13"), ('ID=ubuntu\nVERSION_ID="24.04"\n', "ubuntu 24.04"), (None, "unknown")):
        other.unlink(missing_ok=True)
        if text:
            other.write_text(text)
        status, told, (said,) = setup(clone, "base", STRAIGHTWAY_OS_RELEASE=str(other))
        assert status == 3 and name in said and "Debian 12" in said and "container" in said and not told, said
        assert not (clone / "build").exists()
    assert setup(clone, "base", STRAIGHTWAY_OS_RELEASE=str(other), STRAIGHTWAY_ANY_RELEASE="1")[0] == 0


def waits_for(command, env, lock, said):
    """Whether the command says this line while the file is locked, and ends with 0 when it is not any more."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write("4711")
        held.flush()
        second = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        line = second.stdout.readline()
        assert said in line and second.poll() is None, line
    rest = second.communicate(timeout=300)[0]
    assert second.returncode == 0, rest


def test_a_second_set_up_waits_for_the_first(clone):
    waits_for([clone / "tools" / "setup", "base"], environment(clone), clone / "build" / ".setup.lock", "another set-up is running; waiting for it")


@pytest.fixture
def runner(tmp_path):
    """tools/test in another folder: this test is part of a run itself."""
    shutil.copytree(ROOT / "tools" / "suites", tmp_path / "tools" / "suites")
    for name in ("test", "usage.py"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools" / name)
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=lambda folder, names: [name for name in names if not name.endswith(".json")])
    return tmp_path / "tools" / "test"


def test_a_second_run_of_the_tests_waits_for_the_first(runner):
    # No test has this name, which is found when the other run has ended.
    with pytest.raises(AssertionError, match="no test's name contains"):
        waits_for([runner, "proofs", "nothing_of_this_name"], dict(os.environ), runner.parents[1] / "build" / "test" / ".lock",
                  "another run of the tests is going on in this clone (process 4711): waiting for it")  # fmt: skip


def test_a_fast_run_takes_a_part_of_the_cells_and_short_searches_and_leaves_no_costs(runner):
    free = {name: value for name, value in os.environ.items() if name not in ("STRAIGHTWAY_CELLS", "STRAIGHTWAY_BUDGET")}
    fast, whole = (subprocess.run([runner, *words, "proofs", "nothing"], env=free, capture_output=True, text=True) for words in (["--fast"], []))
    assert "cells: part 0" in fast.stdout and "cells: part" not in whole.stdout, fast.stdout + fast.stderr
    assert not (runner.parents[1] / "build" / "test" / "taken.json").exists()
