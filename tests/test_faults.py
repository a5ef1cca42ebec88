# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Drives that fail, processes that die, and users without permission, on a real kernel.

Own guests: QEMU adds no drive with virtual functions, zones or metadata to a guest that is up.
"""

# partner: Linux | host kernel
# partner: QEMU's nvme | drive

import os

from scripted import DRIVE, ROOT, guest, own_guest


def test_a_media_error_is_reported_and_the_rest_is_read(tmp_path):
    rules = ROOT / "out" / f"blkdebug-{os.getpid()}-{tmp_path.name}.cfg"
    rules.parent.mkdir(exist_ok=True)
    # Sector 2048 (1 MiB) can never be read.
    rules.write_text('[inject-error]\nevent = "read_aio"\nerrno = "5"\nsector = "2048"\n')
    try:
        guest(
            r"""
            for path in vfio io_uring passthrough sync; do
              rc 0 $S read /dev/nvme0n1 --path $path --length 1M --checksum
              "$S" read /dev/nvme0n1 --path $path --offset 1M --length 4096 --checksum >/tmp/out 2>/tmp/err
              status=$?
              [ $status = 1 ] || [ $status = 3 ] || fail "$path ended with $status on a media error"
              grep -qE '2/81|a medium error|Input/output error' /tmp/err || { cat /tmp/err >&2; fail "$path hid the error"; }
              driver_is nvme
              rc 0 $S read /dev/nvme0n1 --path $path --offset 2M --length 1M --checksum
            done
            """,
            "--drive", f"{DRIVE},blkdebug={rules}",
        )
    finally:
        rules.unlink()


def test_a_killed_process_leaves_nothing_bound():
    guest(
        r"""
        head -c 4M /dev/urandom >/tmp/data
        rc 0 $S write /dev/nvme0n1 --destroy-data LAB1 --input /tmp/data --path io_uring --flush
        for turn in 1 2 3; do
          "$S" read $BDF --path vfio --block-size 4K --queue-depth 1 --output /dev/null >/tmp/out 2>/tmp/err &
          victim=$!
          # Until it has bound the drive and reads from it.
          until grep -q vfio /proc/interrupts || [ "$(driver)" = vfio-pci ]; do kill -0 $victim || fail "it ended"; done
          kill -9 $victim; wait $victim
          driver_is vfio-pci
          # The next run first returns the drive to its driver, then does its own work.
          same "$(checksum $BDF --length 4M --path vfio)" "$(sum </tmp/data)" "data after kill -9"
          driver_is nvme
        done
        same "$(checksum /dev/nvme0n1 --length 4M --path io_uring)" "$(sum </tmp/data)" "data by the kernel"
        """,
        "--drive", DRIVE,
    )


def test_a_drive_that_leaves_the_bus_in_the_middle():
    guest(
        r"""
        "$S" read $BDF --path vfio --block-size 4K --queue-depth 1 --output /dev/null >/tmp/out 2>/tmp/err &
        victim=$!
        until [ "$(driver)" = vfio-pci ] && grep -q path: /tmp/err; do kill -0 $victim || fail "it ended"; done
        sleep 1
        # Memory space off: its registers read as ones, like those of a removed drive.
        setpci -s ${BDF#0000:} COMMAND=0000
        wait $victim; status=$?
        cat /tmp/err >&2
        same $status 3 "the exit status"
        grep -q 'no longer answers' /tmp/err || fail "the reason was not reported"
        driver_is nvme
        rc 0 $S read /dev/nvme0n1 --path vfio --length 1M --checksum
        """,
        "--drive", DRIVE,
    )


def test_a_controller_that_is_refused_at_the_first_look_goes_back():
    # A virtual function without resources from its physical function: its registers are zeroes.
    own_guest(
        r"""
        PF=0000:01:00.0; BDF=0000:01:00.1
        echo 0 >/sys/bus/pci/devices/$PF/sriov_drivers_autoprobe
        echo 1 >/sys/bus/pci/devices/$PF/sriov_numvfs
        driver_is none
        status=4 why='NVM command set'
        # Arm's machine has both functions in one group, so this one is refused even before its registers are read.
        [ ! -e /sys/bus/pci/devices/$BDF/iommu_group/devices/$PF ] || status=3 why="it also holds $PF"
        for turn in 1 2; do
          # A process that unbinds a function that it has open hangs until the guest's time limit.
          rc $status $S read $BDF --path vfio --length 4096 --checksum; said "$why"
          driver_is none
        done
        rc $status $S info $BDF; said "$why"
        driver_is none
        echo 0 >/sys/bus/pci/devices/$PF/sriov_numvfs; echo 1 >/sys/bus/pci/devices/$PF/sriov_drivers_autoprobe
        BDF=$PF; driver_is nvme
        rc 0 $S read $PF --path vfio --length 4096 --checksum
        driver_is nvme
        """,
        "--drive", f"{DRIVE},port=on,sriov_max_vfs=2,max_ioqpairs=6,msix_qsize=8,sriov_vq_flexible=4,sriov_vi_flexible=2",
        timeout=240,
    )  # fmt: skip


def test_namespaces_that_cannot_be_used_are_refused_by_every_path_and_keep_their_data():
    own_guest(
        r"""
        ZONED=/dev/nvme0n1
        dd if=/dev/urandom of=$ZONED bs=64K count=1 oflag=direct status=none || fail "a write at the write pointer"
        before=$(dd if=$ZONED bs=1M iflag=direct status=none | sum)
        for path in vfio io_uring passthrough sync auto; do
          rc 4 $S read $ZONED --path $path --length 4096 --checksum; said zoned
          rc 4 $S write $ZONED --destroy-data ZONED --path $path --length 64K --offset 64K --input /dev/urandom; said zoned
          driver_is nvme
        done
        rc 4 $S read $ZONED --path chario --length 4096 --checksum; said zoned
        rc 4 $S format $ZONED --destroy-data ZONED; said zoned
        driver_is nvme
        same "$(dd if=$ZONED bs=1M iflag=direct status=none | sum)" "$before" "the zoned namespace"

        # Metadata within the blocks, which the kernel cannot use either: its block device is empty.
        BDF=0000:00:05.0
        for path in vfio passthrough chario; do
          rc 4 $S read nvme1 --path $path --length 4096 --checksum; said 'namespace 1 cannot be used: .*metadata'
          said 'nvme format -n 1'
          driver_is nvme
        done
        for path in io_uring sync; do
          rc 4 $S read /dev/nvme1n1 --path $path --length 4096 --checksum; said 'cannot use its format'
        done
        """,
        "--drive", "size=16M,serial=ZONED,zoned=on,zoned.zone_size=2M",
        "--drive", "size=16M,serial=META,ms=8,mset=1",
    )  # fmt: skip


def test_a_drive_that_is_wanted_back_amid_a_recording_is_let_go_with_what_is_durable():
    guest(
        r"""
        rc 0 $S format nvme0 --destroy-data LAB1
        for how in unbind remove; do
          for mode in poll interrupt; do
            take=$how-$mode; pci=/sys/bus/pci/devices/$BDF
            "$S" record nvme0 $take --path vfio --mode $mode --acknowledge --from pattern --rate 1M --size 100M --block 64K \
              --commit-ms 100 --deadline 30s --buffers 64 >/tmp/told 2>/tmp/err &
            victim=$!
            until grep -q durable /tmp/told; do kill -0 $victim || { cat /tmp/err >&2; fail "it ended"; }; done
            # Each of these waits in the kernel until no process has the function open.
            if [ $how = unbind ]; then echo $BDF >/sys/bus/pci/drivers/vfio-pci/unbind; else echo 1 >$pci/remove; fi
            wait $victim; status=$?
            cat /tmp/err >&2
            same $status 3 "the exit status after $how, $mode"
            said '[0-9] bytes of it are durable'
            [ $how = unbind ] || { [ ! -e $pci ] || fail "it is still there"; echo 1 >/sys/bus/pci/rescan; }
            until [ -b /dev/nvme0n1 ] && [ -c /dev/ng0n1 ]; do sleep 0.1; done
            driver_is nvme
            same "$(cat /run/straightway/*.borrowed 2>/dev/null)" "" "records of what is borrowed"
            told=$(tail -n 1 /tmp/told | cut -d' ' -f2)
            rc 0 $S check nvme0 --path io_uring
            rc 0 $S play nvme0 $take --to pattern --path io_uring
            rc 0 $S get nvme0 $take /tmp/take --path io_uring
            [ $(stat -c %s /tmp/take) -ge $told ] || fail "$told bytes were durable, but $(stat -c %s /tmp/take) exist"
            rm /tmp/take
          done
        done
        """,
        "--drive", f"{DRIVE},port=on", timeout=300,
    )  # fmt: skip


def test_drives_in_use_are_refused():
    guest(
        r"""
        mkfs.ext4 -q /dev/nvme0n1; mkdir /tmp/mount; mount /dev/nvme0n1 /tmp/mount
        echo kept >/tmp/mount/file; sync
        rc 3 $S bind nvme0; said 'is mounted at /tmp/mount'
        rc 3 $S read /dev/nvme0n1 --path vfio --length 4096 --checksum; said mounted
        rc 3 $S write /dev/nvme0n1 --destroy-data LAB1 --length 4096 --input /dev/zero --path sync; said mounted
        rc 3 $S compare /dev/nvme0n1 --destroy-data LAB1; said mounted
        driver_is nvme
        umount /tmp/mount; mount /dev/nvme0n1 /tmp/mount
        same "$(cat /tmp/mount/file)" kept "the mounted file"
        umount /tmp/mount
        mkswap -q /dev/nvme0n1 >/dev/null 2>&1; swapon /dev/nvme0n1
        rc 3 $S bind nvme0; said swap
        swapoff /dev/nvme0n1
        rc 0 $S bind nvme0; driver_is vfio-pci
        rc 0 $S release $BDF; driver_is nvme
        """,
        "--drive", DRIVE,
    )


def test_bad_input_is_refused_and_changes_nothing():
    guest(
        r"""
        before=$(dd if=/dev/nvme0n1 bs=1M iflag=direct status=none | sum)
        rc 2 $S read /dev/nvme0n1 --length 4q --checksum; said 4q
        rc 2 $S read /dev/nvme0n1 --length 1000 --checksum --path vfio; said 'multiple'
        rc 2 $S read /dev/nvme0n1 --offset 100 --length 512 --checksum; said 'multiple'
        rc 2 $S read /dev/nvme0n1 --offset 15M --length 2M --checksum --path vfio; said 'past'
        rc 3 $S read nvme0 --namespace 9 --path vfio --checksum; said 'namespace 9'
        rc 3 $S read /dev/nvme7n1 --checksum
        rc 3 $S info 99:00.0
        rc 2 $S write /dev/nvme0n1 --length 4096 --input /dev/zero; said '--destroy-data'
        rc 2 $S write /dev/nvme0n1 --destroy-data OTHER --length 4096 --input /dev/zero; said OTHER
        rc 0 $S write /dev/nvme0n1 --destroy-data LAB1 --length 4096 --input /dev/urandom --dry-run
        rc 2 $S write /dev/nvme0n1 --destroy-data LAB1 --offset 15M --length 2M --input /dev/urandom --path vfio
        rc 2 $S compare /dev/nvme0n1 --cell-duration 200
        rc 2 $S nonsense
        driver_is nvme
        same "$(checksum /dev/nvme0n1 --path sync)" "$before" "the drive afterwards"
        """,
        "--drive", "size=16M,serial=LAB1",
    )


def test_a_user_without_root_and_with_a_small_lock_limit():
    guest(
        r"""
        rc 0 $S bind nvme0
        group=$(basename $(readlink /sys/bus/pci/devices/$BDF/iommu_group))
        user() { setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs env HOME=/tmp XDG_RUNTIME_DIR=/tmp/u "$@"; }
        mkdir -p /tmp/u; chown 1000:1000 /tmp/u; chmod 777 /tmp
        rm -f /tmp/out /tmp/err
        rc 3 user $S read $BDF --path vfio --length 1M --checksum; said "/dev/vfio/$group"
        chown 1000 /dev/vfio/$group
        rc 0 user $S read $BDF --path vfio --length 1M --checksum
        same "$(cat /tmp/out)" "$(head -c 1M /dev/zero | sum)" "what a user without root read"
        ulimit -l 64
        rc 3 user $S read $BDF --path vfio --length 1M --checksum; said 'ulimit -l'
        rc 0 $S release $BDF
        driver_is nvme
        """,
        "--drive", DRIVE,
    )
