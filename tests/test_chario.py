# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CharIO: the file interface, the data, the controllers that it must support.

Own guests: QEMU adds no second namespace, and no zoned one, to a guest that is up.
"""

# partner: Linux | host kernel
# partner: QEMU's nvme | drive

import pytest

from chario_guest import chario
from scripted import DRIVE

KERNELS = ("stock", "rt")


@pytest.mark.cells("kernel")
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_call_does_what_the_manual_says(kernel):
    chario("python3 tests/chario/calls.py || fail 'a call'", "--drive", f"{DRIVE},mdts=5", kernel=kernel)


# Each kind of controller goes through the same calls. In every part: with an IOMMU and without, blocks of 512 bytes and of 4 KiB, one queue and more.
DEALT = pytest.mark.cells("controller")


@pytest.mark.parametrize(
    ("drive", "machine", "load", "facts"),
    [
        pytest.param(f"{DRIVE},logical_block_size=4096", (), "", "block_bytes=4096", id="4k-blocks"),
        pytest.param(f"{DRIVE},mdts=0", (), "", "command_bytes=2097152", id="no-mdts", marks=DEALT),
        pytest.param(f"{DRIVE},mdts=1", (), "", "command_bytes=8192 queue_depth=1024", id="mdts-1", marks=DEALT),
        pytest.param(f"{DRIVE},mdts=7", ("--no-iommu",), "", "command_bytes=524288 lanes=2", id="no-iommu"),
        pytest.param(DRIVE, ("--kernel-args", "iommu=nopt"), "", "lanes=2", id="iommu-39-bits"),
        pytest.param(DRIVE, ("--iommu-width", "48", "--kernel-args", "iommu=nopt iommu.strict=1"), "", "lanes=2",
                     id="iommu-48-bits-strict", marks=DEALT),
        pytest.param(f"{DRIVE},msix_qsize=1", (), "", "lanes=1 queues=2", id="one-vector", marks=DEALT),
        pytest.param(f"{DRIVE},max_ioqpairs=1", (), "", "lanes=1 queues=1", id="one-queue"),
        pytest.param(f"{DRIVE},max_ioqpairs=3,msix_qsize=4", ("--cpus", "4"), "", "lanes=1 queues=2", id="three-queues", marks=DEALT),
        pytest.param(DRIVE, (), "irq=intx", "lanes=1 queues=2", id="intx", marks=DEALT),
        pytest.param(DRIVE, (), "queue_depth=3", "queue_depth=3", id="depth-3", marks=DEALT),
        pytest.param(f"{DRIVE},mdts=1", ("--cpus", "1"), "queue_depth=1", "queue_depth=1 lanes=1", id="depth-1", marks=DEALT),
    ],
)  # fmt: skip
def test_controllers_of_every_kind(drive, machine, load, facts):
    script = f"""
    for fact in {facts}; do same "$(cat $CLASS/${{fact%%=*}})" "${{fact##*=}}" $fact; done
    grep -q 'chario0q1' /proc/interrupts || fail 'no line'
    python3 tests/chario/calls.py || fail 'a call'
    same "$(counter errors) $(counter timeouts) $(counter stray_completions)" "0 0 0" "errors"
    """
    chario(script, *machine, "--drive", drive, load=load, timeout=400)


@pytest.mark.cells("kernel")
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_usual_tools_work_on_the_node(kernel):
    chario(
        r"""
        head -c 8M /dev/urandom >/tmp/data
        dd if=/tmp/data of=$NODE bs=1M conv=fsync status=none || fail "dd to it"
        dd if=$NODE bs=64K count=128 status=none | cmp - /tmp/data || fail "dd from it"
        head -c 4M /dev/urandom >/tmp/half; cat /tmp/half /tmp/half >/tmp/data
        cp /tmp/data $NODE || fail "cp to it"
        [ -c $NODE ] || fail "cp replaced the node"
        cp $NODE /tmp/whole; same "$(stat -c %s /tmp/whole)" $((40 << 20)) "length of a copy"
        head -c 8M /tmp/whole | cmp - /tmp/data || fail "cp from it"
        # cmp's own buffers are not aligned to blocks: the node is set to accept them.
        cmp -n 8388608 $NODE /tmp/data 2>/dev/null && fail "cmp read with a buffer that is not aligned"
        echo 4 >$CLASS/buffer_align_bytes
        cmp -n 8388608 $NODE /tmp/data || fail "cmp"
        cmp $NODE /tmp/whole || fail "cmp to the end"
        printf x | dd of=/tmp/data bs=1 seek=5000000 conv=notrunc status=none
        cmp -n 8388608 $NODE /tmp/data >/dev/null && fail "cmp saw no difference"
        echo 512 >$CLASS/buffer_align_bytes
        rm /tmp/whole
        # The small root of Arm's guests has no fio.
        command -v fio >/dev/null && engines='psync libaio io_uring' || engines=
        for engine in $engines; do
          # One process writes the first 8 MiB, and three read and write separate ranges after that, simultaneously.
          fio --filename=$NODE --ioengine=$engine --direct=1 --verify_fatal=1 --verify_state_save=0 \
            --name=v --size=8M --rw=randwrite --bsrange=4k-256k --blockalign=4k --verify=crc32c --iodepth=4 \
            --name=p --offset=8M --size=4M --rw=randrw --bs=16k --numjobs=3 --offset_increment=10M --verify=md5 \
            >/tmp/fio 2>&1 || { cat /tmp/fio >&2; fail "fio by $engine"; }
        done
        same "$(blockdev --getsize64 $NODE)" $((40 << 20)) "blockdev"
        """,
        "--drive", "size=40M,serial=LAB1", kernel=kernel, timeout=400,
    )  # fmt: skip


def test_blocks_above_a_page_and_namespaces_that_are_left_alone():
    chario(
        r"""
        head -c 3M /dev/urandom >/tmp/data
        drive() { local d; for d in /sys/class/nvme/nvme*; do [ "$(tr -d ' ' <$d/serial)" = $1 ] && linked $d/device; done; }
        drives=($BDF $(drive LAB2) $(drive ZONED))
        for index in 0 1; do
          BDF=${drives[index]}; block=$((8192 << index))
          [ $index = 0 ] || to_chario
          same "$(cat /sys/class/chario/chardisk*n1/block_bytes)" $block "the block size"
          rc 0 $S write $BDF --path chario --destroy-data LAB$((1 + index)) --input /tmp/data --flush --block-size $((block * 3))
          for mode in poll interrupt; do
            same "$(checksum $BDF --path chario --length 3M --mode $mode)" "$(sum </tmp/data)" "blocks of $block, $mode"
          done
          rc 0 $S release $BDF; driver_is nvme
          same "$(checksum $BDF --path vfio --length 3M)" "$(sum </tmp/data)" "blocks of $block by vfio"
        done
        BDF=${drives[2]}; to_chario
        same "$(ls /sys/class/chario)" "" "what CharIO shows of a zoned drive"
        dmesg | grep -q 'chario.*namespace 1: zoned (command set 2)' || fail "CharIO did not report the reason"
        """,
        "--drive", f"{DRIVE},logical_block_size=8192", "--drive", "size=64M,serial=LAB2,logical_block_size=16384",
        "--drive", "size=64M,serial=ZONED,zoned=on,zoned.zone_size=16M", own=True,
    )  # fmt: skip


@pytest.mark.parametrize(("drive", "namespace"), [(DRIVE, 1), (f"{DRIVE},namespaces=3,logical_block_size=4096", 2)])
def test_the_block_device_and_chario_hold_the_same_data(drive, namespace):
    chario(
        rf"""
        N={namespace}
        head -c 24M /dev/urandom >/tmp/data
        dd if=/tmp/data of=/dev/nvme0n$N bs=1M oflag=direct status=none
        pinned_before=$(pages_out); chario_load; to_chario
        dd if=/dev/chardisk0n$N bs=4M count=6 status=none | cmp - /tmp/data || fail "written by the block device"
        for mode in poll interrupt; do
          same "$(checksum /dev/chardisk0n$N --length 24M --mode $mode)" "$(sum </tmp/data)" "read by $mode"
        done
        head -c 24M /dev/urandom >/tmp/data
        rc 0 $S write /dev/chardisk0n$N --destroy-data LAB1 --input /tmp/data --offset 8M --flush --block-size 96K
        same "$(checksum $BDF --namespace $N --offset 8M --length 24M)" "$(sum </tmp/data)" "by the address"
        rc 0 $S release /dev/chardisk0n$N; driver_is nvme
        dd if=/dev/nvme0n$N bs=1M skip=8 count=24 iflag=direct status=none | cmp - /tmp/data || fail "written by CharIO"
        # Borrowed for one command and returned.
        same "$(checksum /dev/nvme0n$N --path chario --offset 8M --length 24M)" "$(sum </tmp/data)" "borrowed"
        driver_is nvme
        same "$(pages_out)" "$pinned_before" "pinned pages"
        """,
        "--drive", drive, bind=False, own=namespace > 1,
    )  # fmt: skip


def test_windows_of_memory_that_is_not_the_kernel_s():
    for arguments in ((), ("--kernel-args", "iommu=nopt")):
        chario(
            r"""
            same "$(cat $CLASS/windows)" "$WINDOW:67108864" "the window of the module's parameter"
            python3 - <<'P' || fail "a transfer"
import errno, mmap, os
import device as d
file = d.opened()
block = d.info(file)["block_bytes"]
start, length = int(os.environ["WINDOW"], 0), 64 << 20
window = mmap.mmap(file, length, offset=start)
data = os.urandom(1 << 20) * 9
window[:len(data)] = data
before = d.counters()
assert d.phys(file, 0, len(data), start, d.WRITE) == len(data)
after = d.counters()
assert after["write_commands"] - before["write_commands"] == 18 and after["interrupts"] - before["interrupts"] == 3
plain = d.opened()
got = os.preadv(plain, [area := mmap.mmap(-1, len(data))], 0)
assert got == len(data) and area[:] == data, "what a window wrote"
window[32 << 20:(32 << 20) + len(data)] = bytes(len(data))
d.poll(file)
assert d.phys(file, 0, len(data), start + (32 << 20)) == len(data)
assert window[32 << 20:(32 << 20) + len(data)] == data, "what a window read"
for address, size in ((start - 4096, 4096), (start + length, 4096), (start + length - 4096, 8192), (start, length + 4096),
                      (2**64 - 4096, 4096), (0, 4096)):
    d.fails(errno.EPERM, d.phys, file, 0, size, address)
d.fails(errno.EPERM, d.call, "mmap", 0, 4096, 3, 1, file, start + length)
d.fails(errno.EINVAL, d.call, "mmap", 0, 4096, 3, 2, file, start)
d.fails(errno.EEXIST, d.grant, file, start + 4096, 4096)
d.fails(errno.EBUSY, d.revoke, file, start, length)
d.fails(errno.ENOENT, d.revoke, file, start, 4096)
window.close()
d.revoke(file, start, length)
d.fails(errno.EPERM, d.phys, file, 0, block, start)
d.grant(file, start, 1 << 20)
assert d.phys(file, 0, 1 << 20, start) == 1 << 20
assert d.attribute("windows") == f"{start:#x}:1048576"
if os.fork() == 0:
    os.setgroups([]); os.setgid(1000); os.setuid(1000)
    d.fails(errno.EPERM, d.grant, file, start + (2 << 20), 4096)
    d.fails(errno.EPERM, d.revoke, file, start, 1 << 20)
    os._exit(0)
assert os.wait()[1] == 0, "a user without the capability"
P
            """,
            "--drive", DRIVE, *arguments, load="windows=$WINDOW:64M",
        )  # fmt: skip


def test_a_window_in_system_ram_is_not_granted_by_the_parameter():
    chario(
        r"""
        same "$(cat $CLASS/windows)" "" "windows"
        dmesg | grep -q 'windows=.*not granted' || fail "it was not reported"
        """,
        "--drive", DRIVE, load="windows=$((WINDOW - (256 << 20))):1M,nonsense,0x1:2,$WINDOW",
    )  # fmt: skip


def test_loading_takes_no_drive_and_unloading_is_refused_while_open():
    chario(
        r"""
        chario_load; driver_is nvme
        mkfs.ext4 -q /dev/nvme0n1; mkdir /tmp/m; mount /dev/nvme0n1 /tmp/m
        rc 3 $S bind nvme0 --driver chario; said 'is mounted at /tmp/m'
        driver_is nvme; umount /tmp/m
        rc 0 $S bind nvme0 --driver chario --dry-run; driver_is nvme
        to_chario
        sleep 1000 <$NODE &
        until [ "$(cat $CLASS/open_files)" = 1 ]; do :; done
        rmmod chario 2>/tmp/err && fail "it was unloaded under an open file"
        said 'in use'
        rc 3 $S release $NODE; said 'open files on chardisk0n1: 1'
        driver_is chario
        kill $!; wait $! 2>/dev/null
        rc 3 $S read $BDF --path vfio --length 4096 --checksum; said 'bound to chario'
        rc 0 $S release $NODE; driver_is nvme
        rmmod chario || fail "it is not unloaded"
        rc 3 $S read /dev/chardisk0n1 --length 4096 --checksum
        rc 4 $S bind nvme0 --driver chario; said 'insmod'
        driver_is nvme
        """,
        "--drive", DRIVE, bind=False,
    )  # fmt: skip


def test_a_user_without_root_reads_what_the_node_s_owner_allows():
    chario(
        r"""
        user() { setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs env HOME=/tmp XDG_RUNTIME_DIR=/tmp/u "$@"; }
        mkdir -p /tmp/u; chown 1000:1000 /tmp/u; chmod 777 /tmp
        # This user cannot read the clone, as if it were in /root: required files are copied, and the rest hidden.
        cp tests/chario/device.py /tmp/u; export PYTHONPATH=/tmp/u
        clone=$PWD; cd /tmp; mount -t tmpfs -o mode=700 tmpfs "$clone" || fail "the clone is not hidden"
        dd if=/dev/zero of=/dev/null count=1 status=none
        user dd if=$NODE of=/dev/null bs=4096 count=1 2>/dev/null && fail "anyone may read it"
        chown 1000 $NODE; chmod 400 $NODE
        user dd if=$NODE of=/dev/null bs=1M count=4 status=none || fail "the owner may not read it"
        user dd if=/dev/zero of=$NODE bs=4096 count=1 2>/dev/null && fail "it was opened for reading only"
        ulimit -l 64
        user python3 - <<'P' || fail "the limit of locked memory"
import errno, os
import device as d
file = d.opened(os.O_RDONLY)
area, address = d.memory(1 << 20)
d.fails(errno.ENOMEM, d.register, file, address, 1 << 20)
number = d.register(file, address, 32 << 10)
assert d.transfer(file, 0, 32 << 10, 0, number) == 32 << 10
P
        true
        """,
        "--drive", DRIVE,
    )  # fmt: skip


def test_a_transfer_changes_no_other_part_of_a_registered_buffer_behind_bounce_buffers():
    """The drive has another view of all memory (swiotlb): each transfer brings its own range up to date, and nothing else."""
    chario(
        r"""
        mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
        python3 - <<'P' || fail "registered memory behind bounce buffers"
import os
import device as d
file = d.opened()
block = d.info(file)["block_bytes"]
half = 512 << 10
area, address = d.memory(2 * half)
for flags in (0, 1):
    number = d.register(file, address, 2 * half, flags)
    # In slots of 2 KiB.
    assert int(open("/sys/kernel/debug/swiotlb/io_tlb_used").read()) >= 2 * half >> 11, "no bounce buffers"
    def move(name, position, length, offset):
        if flags:
            return d.call(name, file, address + offset, length, position)
        return d.transfer(file, position, length, offset, number, d.WRITE if name == "pwrite" else 0)
    first, second = os.urandom(half), os.urandom(half)
    area[:] = first + second
    assert move("pwrite", 0, 2 * half, 0) == 2 * half
    # The caller fills one part while the drive fills, and takes, another.
    third = os.urandom(half)
    area[:half] = third
    assert move("pread", 0, half, half) == half
    assert area[:half] == third, "a read into one half changed the other"
    assert area[half:] == first
    assert move("pwrite", half, block, block) == block
    assert move("pread", half, block, half) == block
    assert area[:half] == third and area[half:] == third[block:2 * block] + first[block:]
    # A range that is no whole page, at its place.
    area[half:] = second
    assert move("pread", 0, 3 * block, half + 5 * block) == 3 * block
    assert area[half:] == second[:5 * block] + first[:3 * block] + second[8 * block:] and area[:half] == third
    d.unregister(file, number)
    assert area[:half] == third and area[half + 8 * block:] == second[8 * block:]
P
        """,
        "--no-iommu", "--kernel-args", "swiotlb=force", "--drive", DRIVE,
    )  # fmt: skip


def test_a_file_is_loaded_into_a_window_and_flushed_back():
    chario(
        r"""
        cat >/tmp/window.py <<'P'
import mmap, os, sys
window = mmap.mmap(os.open("/dev/mem", os.O_RDWR | os.O_SYNC), 1 << 20, offset=int(os.environ["WINDOW"], 0))
data = open("/tmp/data", "rb").read()
if sys.argv[1] == "fill":
    window[:] = b"\xa5" * len(window)
elif sys.argv[1] == "compare":
    assert window[0x10000:0x10000 + len(data)] == data
    # Nothing else changed: before it, and after its last block.
    end = -(-len(data) // 512) * 512
    assert window[:0x10000] == b"\xa5" * 0x10000 and window[0x10000 + end:] == b"\xa5" * (len(window) - 0x10000 - end)
else:
    window[0x10000 + 1000:0x10000 + 1004] = b"new!"
    open("/tmp/data", "wb").write(data[:1000] + b"new!" + data[1004:])
P
        at() { printf '%#x' $((WINDOW + $1)); }
        AT=$(at 0x10000)
        head -c 300001 /dev/urandom >/tmp/data
        rc 0 $S format $NODE --destroy-data LAB1 --checksums
        rc 0 $S put $NODE /tmp/data table --no-checksums; rc 0 $S put $NODE /tmp/data summed --checksums
        for name in table summed; do
          python3 /tmp/window.py fill
          rc 0 $S load $NODE $name $AT; said "loaded .$name."
          python3 /tmp/window.py compare || fail "what was loaded of $name"
        done
        python3 /tmp/window.py change
        rc 2 $S flush $NODE table $AT; said '--force'
        rc 0 $S flush $NODE table $AT --force --json
        rc 0 $S get $NODE table /tmp/got; cmp /tmp/got /tmp/data || fail "what was flushed"
        rc 4 $S flush $NODE summed $AT --force; said 'checksums'
        rc 10 $S load $NODE nothing $AT
        rc 2 $S load $NODE table $(at 0x10200); said 'page'
        rc 4 $S load $NODE table $(at 0x10000000); said 'no granted window'
        rc 2 $S load $NODE table $(at 0xfff000); said 'a larger window'
        rc 0 $S check $NODE --read-data
        """,
        "--drive", DRIVE, load="windows=$WINDOW:16M",
    )  # fmt: skip
