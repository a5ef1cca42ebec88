# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a script in a lab guest whose first drive is at CharIO's driver.

Besides what `scripted` gives, the script has $NODE, $COUNTERS (its folder), `chario_load WORDS...` and `to_chario`, which
were run already unless the test says otherwise, and `no_trouble`, which fails if the kernel complained.
"""

import subprocess

import pytest
import scripted
from scripted import ROOT, guest, own_guest

FUNCTIONS = r"""
NODE=/dev/chardisk0n1
CLASS=/sys/class/chario/chardisk0n1
COUNTERS=$CLASS/counters
export PYTHONPATH=tests/chario PYTHONDONTWRITEBYTECODE=1
chario_load() { insmod build/chario/$MODULE/chario.ko "$@" || fail "the module does not load"; }
to_chario() { rc 0 $S bind $BDF --driver chario; driver_is chario; }
counter() { cat $COUNTERS/$1; }
pages_out() { # pinned and not given back, all together
  # Each CPU's part is added to the displayed value once per second, unless it is requested.
  cat /proc/sys/vm/stat_refresh
  awk '/^nr_foll_pin_acquired/ { a = $2 } /^nr_foll_pin_released/ { r = $2 } END { print a - r }' /proc/vmstat
}
no_trouble() {
  dmesg | grep -E 'WARNING|BUG|Oops|hung task|blocked for more|suspicious RCU|DMAR:.*fault|arm-smmu-v3 .*event|INFO: task|Call Trace' | grep -v 'DMAR: .*enabled' >/tmp/trouble
  [ ! -s /tmp/trouble ] || { dmesg | tail -60 >&2; fail "the kernel complained: $(head -n 1 /tmp/trouble)"; }
}
"""


def window():
    """Where a guest that stays up has memory that its Linux does not use."""
    return scripted.TARGET.window.partition(":")[0]


# The module runs on several processors and on one, and both kernels have it.
CPUS = {"stock": "2", "rt": "1", "backports": "2", "iommufd": "2"}


def built(kernel=None):
    """Builds the module for a kernel of the lab, by default that of the tests; skips where its headers are not set up."""
    name = f"{kernel or scripted.TARGET.kernel}-{scripted.TARGET.arch}"
    done = subprocess.run([ROOT / "kernel/chario/build", name], capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(f"{done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    return name


def prelude(kernel="stock", load="", bind=True):
    module = built(kernel)
    text = f"MODULE={module}\nexport WINDOW={window()}\n" + FUNCTIONS
    if bind:
        text += f"pinned_before=$(pages_out)\nchario_load {load}\nto_chario\n"
    return text


def chario(script, *options, kernel="stock", load="", bind=True, timeout=600, own=False):
    """Runs `script` in a guest (`own`: that boots for it alone) with the drive at CharIO's driver, and fails if the kernel
    complained."""
    run = own_guest if own else guest
    machine = ("--kernel", kernel, "--cpus", CPUS[kernel])
    return run(prelude(kernel, load, bind) + script + "\nno_trouble\n", *machine, *options, timeout=timeout)
