# SPDX-License-Identifier: Apache-2.0 OR MIT
"""VFIO without groups: a function is opened by its own node, and iommufd lets it reach memory. Tests of other files, and of what differs, on
a kernel that has only this. `make test-iommufd` builds the kernel and runs them.

Own guests: those of the tests, and a machine that cannot remap interrupts.
"""

# partner: Linux | host kernel

from dataclasses import replace

import chario_guest
import pytest
import scripted
import test_arrays
import test_boards
import test_compare
import test_data
import test_faults
import test_map
import test_mount
import test_power
import test_unplug
import test_volumes
from pool import image
from scripted import DRIVE, guest, own_guest

KERNEL = "iommufd"


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    try:
        image.find_kernel(KERNEL, "x86_64")
    except image.NotSetUp:
        pytest.skip("the kernel whose VFIO has no groups is not there; run: tools/setup iommufd")
    monkeypatch.setattr(scripted, "TARGET", replace(scripted.X86, kernel=KERNEL))


FUNCTIONS = r"""
nodes_of() { echo /sys/bus/pci/devices/$1/vfio-dev/*; }
node() { echo /dev/vfio/devices/$(basename $(nodes_of ${1-$BDF})); }
"""


def test_there_is_no_other_way_and_doctor_names_this_one():
    guest(
        FUNCTIONS + r"""
        [ ! -e /dev/vfio/vfio ] || fail "there are containers"
        rc 0 $S bind nvme0
        [ "$(ls /dev/vfio)" = devices ] || fail "there are groups: $(ls /dev/vfio)"
        rc 0 $S doctor $BDF; cat /tmp/out
        for word in /dev/iommu $(node); do grep -q "^ok  *$word .*can be opened" /tmp/out || fail "doctor on $word"; done
        ! grep -q 'type1\|vfio/vfio' /tmp/out || fail "doctor on what there is not"
        $S doctor --report /tmp/report >/dev/null
        grep -q '"devices/vfio' /tmp/report || fail "the report"
        exec 5<>$(node)
        rc 3 $S release $BDF; said "is open in process"
        exec 5>&-
        rc 0 $S release $BDF
        driver_is nvme
        # The nodes leave with the binding; before it, there is a hint.
        [ ! -e "$(nodes_of $BDF)" ] || fail "a node is left"
        """,
        "--drive", DRIVE,
    )  # fmt: skip


def test_a_drive_that_another_program_has_open_is_named():
    """By VFIO_DEVICE_BIND_IOMMUFD: a node that is only open refuses no one."""
    guest(
        FUNCTIONS + r"""
        rc 0 $S bind nvme0
        mkfifo /tmp/end
        python3 - $(node) >/tmp/has 2>&1 <<'P' &
import fcntl, os, struct, sys
iommufd, device = os.open("/dev/iommu", os.O_RDWR), os.open(sys.argv[1], os.O_RDWR)
fcntl.ioctl(device, 0x3B76, struct.pack("=IIiI", 16, 0, iommufd, 0))
print("bound", flush=True)
open("/tmp/end").read()
P
        other=$!
        until grep -q bound /tmp/has; do kill -0 $other || fail "$(cat /tmp/has)"; done
        rc 3 $S read $BDF --path vfio --length 1M --checksum; said 'is open in another process'; said "fuser -v $(node)"
        rc 3 $S release $BDF; said 'is open in process'
        echo >/tmp/end; wait $other
        rc 0 $S read $BDF --path vfio --length 1M --checksum
        rc 0 $S release $BDF
        driver_is nvme
        """,
        "--drive", DRIVE,
    )  # fmt: skip


def test_a_user_without_root_and_with_a_small_lock_limit():
    guest(
        FUNCTIONS + r"""
        rc 0 $S bind nvme0
        user() { setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs env HOME=/tmp XDG_RUNTIME_DIR=/tmp/u "$@"; }
        mkdir -p /tmp/u; chown 1000:1000 /tmp/u; chmod 777 /tmp
        rm -f /tmp/out /tmp/err
        for missing in /dev/iommu $(node); do
          rc 3 user $S read $BDF --path vfio --length 1M --checksum; said "chown \$USER $missing"
          user $S doctor $BDF >/tmp/told
          grep -q "hint: sudo chown \$USER $missing" /tmp/told || { cat /tmp/told >&2; fail "doctor on $missing"; }
          chown 1000 $missing
        done
        rc 0 user $S read $BDF --path vfio --length 1M --checksum
        same "$(cat /tmp/out)" "$(head -c 1M /dev/zero | sum)" "what a user without root read"
        ulimit -l 64
        rc 3 user $S read $BDF --path vfio --length 1M --checksum; said 'ulimit -l'
        chown 0 /dev/iommu
        rc 0 $S release $BDF
        driver_is nvme
        """,
        "--drive", DRIVE,
    )  # fmt: skip


def test_interrupts_that_cannot_be_remapped_are_a_reason():
    own_guest(
        r"""
        rc 4 $S read nvme0 --path vfio --length 1M --checksum; said 'cannot remap interrupts'
        said 'iommufd/parameters/allow_unsafe_interrupts'
        driver_is nvme
        echo 1 >/sys/module/iommufd/parameters/allow_unsafe_interrupts
        rc 0 $S read nvme0 --path vfio --length 1M --checksum
        driver_is nvme
        """,
        "--kernel-args", "intremap=off", "--drive", DRIVE,
    )  # fmt: skip


@pytest.mark.parametrize(("drive", "machine"), [(DRIVE, ()), (f"{DRIVE},logical_block_size=4096,mdts=1", ("--iommu-width", "48"))],
                         ids=["39-bits", "48-bits"])  # fmt: skip
def test_every_path_reads_what_every_path_wrote(drive, machine):
    test_data.test_every_path_reads_what_every_path_wrote(drive, machine, chario_guest.built())


def test_two_drives_are_told_apart():
    test_data.test_two_drives_are_told_apart()


def test_every_path_without_an_iommu():
    test_data.test_without_an_iommu()


def test_what_one_path_puts_every_path_gets():
    test_volumes.test_what_one_path_puts_every_path_gets(DRIVE, 512)


def test_two_processes_cannot_have_one_volume():
    test_volumes.test_two_processes_cannot_have_one_volume()


def test_others_read_what_is_recorded():
    test_volumes.test_others_read_what_is_recorded_whatever_drives_the_drive()


def test_a_put_that_is_interrupted_or_killed_leaves_a_sound_volume():
    test_volumes.test_a_put_that_is_interrupted_or_killed_leaves_a_sound_volume()


def test_stripes_hold_volumes():
    test_arrays.test_stripes_hold_volumes_share_the_commands_and_refuse_other_members()


def test_a_mirror_records_on_when_a_member_is_unplugged(tmp_path):
    test_arrays.test_a_mirror_records_on_when_a_member_is_unplugged_and_rebuilds_it(tmp_path)


def test_a_drive_that_is_unplugged_amid_a_recording(tmp_path):
    test_unplug.test_a_drive_that_is_unplugged_amid_a_recording_is_let_go_and_keeps_what_was_durable("vfio", tmp_path)


def test_a_power_cut_amid_a_recording():
    test_power.test_nothing_acknowledged_is_lost_when_the_power_goes({"path": "vfio"})


def test_a_media_error_is_reported_and_the_rest_is_read(tmp_path):
    test_faults.test_a_media_error_is_reported_and_the_rest_is_read(tmp_path)


def test_a_killed_process_leaves_nothing_bound():
    test_faults.test_a_killed_process_leaves_nothing_bound()


def test_a_drive_that_leaves_the_bus():
    test_faults.test_a_drive_that_leaves_the_bus_in_the_middle()


def test_a_drive_that_is_wanted_back():
    test_faults.test_a_drive_that_is_wanted_back_amid_a_recording_is_let_go_with_what_is_durable()


def test_drives_in_use_are_refused():
    test_faults.test_drives_in_use_are_refused()


def test_a_selftest_and_a_report():
    test_boards.test_a_selftest_and_a_report_of_an_emulated_drive()


def test_a_drive_without_messages_leaves_a_shared_line_alone():
    test_boards.test_a_drive_without_messages_leaves_a_shared_line_alone()


def test_every_path_is_compared():
    test_compare.test_every_path_is_compared_and_counted()


def test_a_drive_is_mapped():
    guest(
        rf"""
        head -c 6M /dev/urandom >/tmp/data
        dd if=/tmp/data of=/dev/nvme0n1 bs=1M oflag=direct status=none
        same "$({test_map.PROGRAM} drive nvme0n1 2>/tmp/err | head -c 6M | sum)" "$(sum </tmp/data)" "the drive"
        driver_is nvme
        """,
        "--drive", "size=16M,serial=LAB1",
    )  # fmt: skip


def test_another_drive_reads_and_writes_the_mapped_memory():
    test_map.test_another_drive_reads_and_writes_the_memory_by_itself([])


def test_programs_read_a_mounted_volume():
    test_mount.test_programs_read_a_volume_over_the_straight_path()
