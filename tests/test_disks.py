# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Block devices that are not NVMe drives: SATA, virtio, a RAM disk and a loop device, measured and used by the same verbs.

Own guests: the pool's slots are for NVMe drives. One guest serves every test here.
"""

# partner: QEMU's disks | drive
# partner: Linux | host kernel

import json

import pytest

from scripted import ROOT, disturbed, own_guest

OUT = ROOT / "out" / "test-disks"

SCRIPT = r"""
rm -rf out/test-disks; mkdir -p out/test-disks
modprobe loop; modprobe brd rd_nr=1 rd_size=65536
truncate -s 64M /tmp/disk.img; losetup /dev/loop0 /tmp/disk.img
head -c 3M /dev/urandom >/tmp/data

# What each is, and what it must be named by.
while read -r disk name kind; do
  rc 0 $S info $disk --json; cp /tmp/out out/test-disks/info-${disk##*/}.json
  rc 2 $S format $disk; said "this would overwrite data on ${disk##*/} ($kind"; said "destroy-data .*$name"
  rc 2 $S format $disk --destroy-data LAB9; said 'nothing was done'
  rc 0 $S format $disk --destroy-data $name
  rc 0 $S put $disk /tmp/data a
  for path in auto io_uring block-direct sync; do
    rc 0 $S get $disk a - --path $path; cmp /tmp/out /tmp/data || fail "$disk over $path"
  done
  rc 0 $S put $disk /tmp/data b --path block-direct --hybrid
  rc 0 $S record $disk r --from pattern --size 2M --rate 100M --deadline 60s
  rc 0 $S check $disk
  rc 4 $S ls $disk --path vfio; said 'this block device has no path'
  rc 4 $S ls $disk --path ext4-direct; said 'separate file system'
done <<END
/dev/sda LAB1 a SCSI, SATA or USB disk
/dev/vda LAB2 a virtio disk
/dev/ram0 /dev/ram0 a RAM disk
/dev/loop0 loop0 a loop device
END

# What is in use is refused, by whatever name.
mkfs.ext4 -qF /dev/vda; mkdir /tmp/at; mount /dev/vda /tmp/at
rc 3 $S put /dev/vda /tmp/data c; said 'is mounted at'
rc 3 $S compare /dev/vda --destroy-data LAB2; said 'is mounted at'
umount /tmp/at
rc 3 $S format /tmp/disk.img --force; said 'is the backing store of loop0'
rc 2 $S put /dev/sda /dev/sda c; said 'itself'
rc 3 $S info /dev/sdz; said 'there is no device'

# One array of them, and the instrument on each.
rc 0 $S array stripe:64K,/dev/vda,/dev/loop0 --create --destroy-data LAB2,loop0
rc 0 $S format stripe:64K,/dev/vda,/dev/loop0 --destroy-data LAB2,loop0
rc 0 $S put stripe:64K,/dev/vda,/dev/loop0 /tmp/data a
rc 0 $S get stripe:64K,/dev/vda,/dev/loop0 a -; cmp /tmp/out /tmp/data || fail "the array"
rc 0 $S list --json; cp /tmp/out out/test-disks/list.json
rc 0 $S list; grep -q 'a SCSI, SATA or USB disk .*LAB1 .*a Straightway volume' /tmp/out || fail "$(cat /tmp/out)"
rc 0 $S list --quick; grep -q 'unknown' /tmp/out || fail "$(cat /tmp/out)"
mount -t tracefs none /sys/kernel/tracing 2>/tmp/err || true
SHORT="--rounds 5 --cell-duration 5ms --span 8M"
measured $S compare /dev/sda --destroy-data LAB1 --sizes 4K $SHORT --output out/test-disks/compare
measured $S sweep /dev/ram0 --destroy-data /dev/ram0 --sizes 4K --depths 1,4 --paths block-direct,io_uring $SHORT \
  --output out/test-disks/sweep
measured $S periodic /dev/loop0 --destroy-data loop0 --paths block-direct --period 20ms --firings 10 --loads none --span 8M \
  --output out/test-disks/periodic
for disk in sda vda; do
  measured $S trace /dev/$disk --path block-direct --block 40K --requests 60 --span 8M --output out/test-disks/trace-$disk
done
rc 0 $S format /dev/ram0 --destroy-data ram0
measured $S workload varmail /dev/ram0 --dataset 2M --duration 50ms --output out/test-disks/workload
[ -z "$(ls /sys/kernel/tracing/instances)" ] || fail "an instance of tracefs was left"
"""


@pytest.fixture(scope="module")
def used():
    own_guest(SCRIPT, "--drive", "interface=sata,size=96M,serial=LAB1", "--drive", "interface=virtio,size=64M,serial=LAB2")

    def load(*path):
        return json.loads(OUT.joinpath(*path).read_text("utf-8"))

    return load


def test_a_disk_is_described(used):
    sata = used("info-sda.json")
    assert (sata["model"], sata["serial"], sata["asked_by"]) == ("QEMU HARDDISK", "LAB1", "block layer")
    assert sata["namespaces"][0]["size_bytes"] == 96 << 20 and sata["features"]["volatile_write_cache"]
    assert (used("info-vda.json")["serial"], used("info-ram0.json")["serial"]) == ("LAB2", "")


def test_what_is_on_the_disks_is_listed(used):
    listed = {disk["block_device"]: disk["holds"] for disk in used("list.json")["disks"]}
    volume, member = ["a Straightway volume"], ["a part of an array (straightway)"]
    assert listed["sda"] == listed["ram0"] == volume
    assert set(listed["vda"]) >= set(member) and set(listed["loop0"]) >= set(member), listed


def test_its_paths_are_compared_and_its_commands_counted(used):
    compared = used("compare", "compare.json")
    assert disturbed(compared), compared["invalid_reasons"]
    measured = {result["path"] for result in compared["results"]}
    assert {"ext4-buffered", "ext4-direct", "block-buffered", "block-direct", "io_uring"} <= measured
    # SATA has no queue to poll.
    assert {path["path"] for path in compared["missing"]} <= {"io_uring-polled"}, compared["missing"]
    direct = [result for result in compared["results"] if result["path"] == "block-direct"]
    for one in direct:
        # The block layer counts the flush at the end of a round as a write.
        flushes = 5 if one["operation"] == "write" else 0
        assert 0 <= one["device_commands"] - one["operations"] <= flushes and one["interrupts"], one
    swept = used("sweep", "sweep.json")
    assert disturbed(swept), swept["invalid_reasons"]
    assert {one["path"] for part in swept["comparisons"] for one in part["results"]} == {"block-direct", "io_uring"}


@pytest.mark.parametrize("disk", ["sda", "vda"])
def test_the_block_layer_tells_where_a_request_s_time_goes(used, disk):
    traced = used(f"trace-{disk}", "trace.json")
    assert traced["coverage"] >= 0.95 and traced["commands_per_request"] == 1, traced
    assert {part["name"] for part in traced["parts"]} >= {"device"}, traced["parts"]


def test_tasks_and_applications_run_on_it(used):
    assert all(cell["response"]["count"] == 10 for cell in used("periodic", "periodic.json")["cells"])
    assert disturbed(used("workload", "workload.json"))
