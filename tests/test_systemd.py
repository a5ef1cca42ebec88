# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The unit that records: a systemd of its own, in namespaces of the guest, starts what `make install` has put into a folder."""

# partner: systemd | program

import shutil
import subprocess

import pytest

from scripted import DRIVE, ROOT, guest

OUT = ROOT / "out" / "test-systemd"

SCRIPT = r"""
mkdir -p /tmp/units /tmp/etc/straightway; cp /etc/passwd /etc/group /etc/ld.so.cache /tmp/etc/
cp "$UNIT" /tmp/units/
# Nothing of this machine's own units.
for name in lab sysinit basic network shutdown; do printf '[Unit]\nDefaultDependencies=no\n' >/tmp/units/$name.target; done
conf() { printf 'DEVICE=/dev/nvme0n1\nNAME=%s\nOPTIONS=%s\n' "$2" "$3" >/tmp/etc/straightway/$1.conf; }
conf camera camera-%Y "--from pattern --rate 1M --deadline 60s --block 256K --buffers 64 --segment 1M --keep 16M --path io_uring"
conf wrong camera "--rate 1parsec"
conf taken taken "--from pattern --rate 1M --path io_uring"
rc 0 $S format nvme0n1 --destroy-data LAB1
head -c 4K /dev/zero | rc 0 $S put nvme0n1 - taken
unshare --pid --mount --cgroup --fork --mount-proc --kill-child bash -c '
  umount -l /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup
  mount --bind /tmp/etc /etc
  exec setpriv --bounding-set -sys_module env -i container=lab SYSTEMD_UNIT_PATH=/tmp/units PATH=$PATH '$SYSTEMD' --system --unit=lab.target --log-target=kmsg --show-status=no' & outer=$!
alive() { kill -0 $outer 2>/dev/null || { dmesg | grep systemd >&2; fail "systemd ended"; }; }
until init=$(pgrep -P $outer) && [ "$(</proc/$init/comm)" = systemd ]; do alive; sleep 0.2; done
inside() { nsenter -t $init -m -p -C "$@"; }
until inside test -S /run/systemd/private; do alive; sleep 0.2; done
# Who records is known by process numbers, which are the namespace's.
listed() { inside $PWD/$S ls /dev/nvme0n1; }
value() { inside systemctl show -p $2 --value straightway-record@$1; }
unit() { rc 0 inside systemctl $1 straightway-record@$2; }

# It is started when the recording has begun.
unit start camera
same "$(value camera ActiveState)" active "the unit"
listed | grep -q 'camera-.*000001' || fail "started, and nothing is recorded"
value camera StatusText | grep -q ' durable, nothing lost' || fail "no status"
# Alive for longer than the watchdog's time.
inside systemctl show -p WatchdogUSec --value straightway-record@camera | grep -qx 30s || fail "no watchdog"
# A process that is killed is started again, and goes on with the next segment.
before=$(listed | wc -l)
inside kill -9 $(value camera MainPID)
until [ "$(value camera NRestarts)" = 1 ] && [ "$(value camera ActiveState)" = active ]; do alive; sleep 0.2; done
until [ "$(listed 2>/dev/null | wc -l)" -gt $((before + 1)) ]; do alive; sleep 0.2; done
# A stop is an orderly end, and no failure.
unit stop camera
same "$(value camera Result) $(value camera ExecMainStatus)" "success 0" "after the stop"
rc 0 $S check /dev/nvme0n1
driver_is nvme
# What another attempt does not change is not attempted again.
for case in "wrong 2" "taken 9"; do
  set -- $case
  rc 1 inside systemctl start straightway-record@$1
  until [ "$(value $1 ActiveState)" = failed ]; do alive; sleep 0.2; done
  same "$(value $1 Result) $(value $1 ExecMainStatus) $(value $1 NRestarts)" "exit-code $2 0" "the unit $1"
done
kill -9 $init; wait $outer
true
"""


def test_the_unit_records_goes_on_after_a_kill_and_stops_in_order():
    systemd = shutil.which("systemd", path="/lib/systemd:/usr/lib/systemd")
    if not systemd:
        pytest.skip("no systemd")
    if not (ROOT / "target" / "release" / "libstraightway.so").exists():
        pytest.skip("no target/release/libstraightway.so; run: make build")
    shutil.rmtree(OUT, ignore_errors=True)
    subprocess.run(["make", "--silent", "install", f"PREFIX={OUT}"], cwd=ROOT, check=True)
    unit = OUT / "lib/systemd/system/straightway-record@.service"
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stderr
    guest(f"UNIT={unit} SYSTEMD={systemd}\n" + SCRIPT, "--drive", DRIVE, timeout=240)
