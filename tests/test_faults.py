"""Drives that fail, processes that die, and users without rights, on a real kernel.

Own guests: QEMU adds no drive with virtual functions to a guest that is up.
"""

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
              grep -qE '2/81|cannot read its medium|Input/output error' /tmp/err || { cat /tmp/err >&2; fail "$path hid the error"; }
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
          # Until it has the drive and reads from it.
          until grep -q vfio /proc/interrupts || [ "$(driver)" = vfio-pci ]; do kill -0 $victim || fail "it ended"; done
          kill -9 $victim; wait $victim
          driver_is vfio-pci
          # The next run gives the drive back to its driver first, then does its own work.
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
        # Memory space off: its registers read as ones, as those of a drive that was pulled.
        setpci -s ${BDF#0000:} COMMAND=0000
        wait $victim; status=$?
        cat /tmp/err >&2
        same $status 3 "the exit status"
        grep -q 'no longer answers' /tmp/err || fail "it did not say why"
        driver_is nvme
        rc 0 $S read /dev/nvme0n1 --path vfio --length 1M --checksum
        """,
        "--drive", DRIVE,
    )


def test_a_controller_that_is_refused_at_the_first_look_goes_back():
    # A virtual function that its physical function has given no resources: its registers are zeroes.
    own_guest(
        r"""
        PF=0000:01:00.0; BDF=0000:01:00.1
        echo 0 >/sys/bus/pci/devices/$PF/sriov_drivers_autoprobe
        echo 1 >/sys/bus/pci/devices/$PF/sriov_numvfs
        driver_is none
        for turn in 1 2; do
          # A process that unbinds what it has open hangs until the guest's time is over.
          rc 4 $S read $BDF --path vfio --length 4096 --checksum; said 'NVM command set'
          driver_is none
        done
        rc 4 $S info $BDF; said 'NVM command set'
        driver_is none
        echo 0 >/sys/bus/pci/devices/$PF/sriov_numvfs
        BDF=$PF; driver_is nvme
        rc 0 $S read $PF --path vfio --length 4096 --checksum
        driver_is nvme
        """,
        "--drive", f"{DRIVE},port=on,sriov_max_vfs=2,max_ioqpairs=6,msix_qsize=8,sriov_vq_flexible=4,sriov_vi_flexible=2",
        timeout=240,
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
        before=$(checksum /dev/nvme0n1 --path sync)
        rc 2 $S read /dev/nvme0n1 --length 4q --checksum; said 4q
        rc 2 $S read /dev/nvme0n1 --length 1000 --checksum --path vfio; said 'multiple'
        rc 2 $S read /dev/nvme0n1 --offset 100 --length 512 --checksum; said 'multiple'
        rc 2 $S read /dev/nvme0n1 --offset 127M --length 2M --checksum --path vfio; said 'past'
        rc 3 $S read nvme0 --namespace 9 --path vfio --checksum; said 'namespace 9'
        rc 3 $S read /dev/nvme7n1 --checksum
        rc 3 $S info 99:00.0
        rc 2 $S write /dev/nvme0n1 --length 4096 --input /dev/zero; said '--destroy-data'
        rc 2 $S write /dev/nvme0n1 --destroy-data OTHER --length 4096 --input /dev/zero; said OTHER
        rc 0 $S write /dev/nvme0n1 --destroy-data LAB1 --length 4096 --input /dev/urandom --dry-run
        rc 2 $S write /dev/nvme0n1 --destroy-data LAB1 --offset 127M --length 2M --input /dev/urandom --path vfio
        rc 2 $S compare /dev/nvme0n1 --cell-duration 200
        rc 2 $S nonsense
        driver_is nvme
        same "$(checksum /dev/nvme0n1 --path sync)" "$before" "the drive afterwards"
        """,
        "--drive", DRIVE,
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
