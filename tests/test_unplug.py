# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Drives that are unplugged amid a recording, by every kind of path: the durable size is reported, and the drive comes back
with its data.

Own guests: drives are unplugged amid a command, by the host.
"""

# partner: QEMU's nvme | drive
# partner: Linux | host kernel

import pytest

from chario_guest import prelude
from hotplug import hotplug_guest

FUNCTIONS = r"""
BDF=0000:01:00.0
record() { # NAME WORDS...: in the background
  local name=$1; shift
  "$S" record nvme0 $name --acknowledge --block 64K --commit-interval 100ms --deadline 60s "$@" >/tmp/told 2>/tmp/err &
  victim=$!
}
until_() { # WHAT COMMAND...: while the recording runs
  local what=$1; shift
  until "$@" 2>/dev/null; do kill -0 $victim 2>/dev/null || { cat /tmp/err >&2; fail "it ended before $what"; }; sleep 0.1; done
}
lost() { # The drive is unplugged, the recording ends, and the drive is plugged in again.
  unplug
  wait $victim; status=$?
  cat /tmp/err >&2
  same $status 3 "the exit status of $1"
  # From here on the function is removed without further action.
  until [ ! -e /sys/bus/pci/devices/$BDF ]; do sleep 0.1; done
  plug
  until [ -b /dev/nvme0n1 ] && [ -c /dev/ng0n1 ]; do sleep 0.1; done
  driver_is nvme
}
whole() { # NAME: all that was said to be durable is there.
  local durable
  durable=$(tail -n 1 /tmp/told | cut -d' ' -f2)
  said "$durable bytes of it are durable"
  rc 0 $S check nvme0 --path io_uring
  rc 0 $S play nvme0 $1 --to pattern --path io_uring --json
  [ $(sed -n 's/.*"length_bytes": *\([0-9]*\).*/\1/p' /tmp/out) -ge $durable ] || { cat /tmp/out >&2; fail "$durable bytes were durable"; }
  same "$(ls /run/straightway/*.borrowed 2>/dev/null)" "" "records of what is borrowed"
}
rc 0 $S format nvme0 --destroy-data LAB1
"""


@pytest.mark.parametrize("paths", ["vfio", "kernel"])
def test_a_drive_that_is_unplugged_amid_a_recording_is_let_go_and_keeps_what_was_durable(paths, tmp_path):
    setup, ways = "", ["vfio --mode poll", "vfio --mode interrupt"]
    if paths == "kernel":
        setup, ways = prelude(bind=False) + "chario_load\n", ["chario", "io_uring", "sync"]
    script = "".join(
        f"""
        record take{number} --path {way} --from pattern --rate 1M --size 100M --buffers 64
        until_ "anything was durable" grep -q durable /tmp/told
        lost '{way}'
        whole take{number}
        """
        for number, way in enumerate(ways)
    )
    hotplug_guest(setup + FUNCTIONS + script, tmp_path)


def test_a_recording_with_a_silent_source_lets_the_drive_go(tmp_path):
    script = r"""
    # A writer that becomes silent after 128 KiB of the pattern: words of eight bytes that hold their offset.
    mkfifo /tmp/mute /tmp/absent; exec 7<>/tmp/mute
    rc 0 $S record nvme0 pattern --path io_uring --from pattern --rate 100M --size 128K --block 64K --deadline 60s
    rc 0 $S get nvme0 pattern /tmp/pattern --path io_uring
    for mode in poll interrupt; do
      record mute-$mode --path vfio --mode $mode --from /tmp/mute --rate 100M
      cat /tmp/pattern >&7
      until_ "all was durable" grep -q 'durable 131072' /tmp/told
      lost "a silent writer, $mode"
      whole mute-$mode
    done
    # No program writes to the FIFO or connects to the port, so the file is missing or empty.
    "$S" put nvme0 - slow --path vfio </tmp/mute 2>/tmp/err &
    victim=$!
    until_ "the path was said" grep -q 'path: .*vfio' /tmp/err
    lost "a put whose input is silent"
    said 'no longer answers'
    for source in /tmp/absent tcp://127.0.0.1:9999 udp://127.0.0.1:9998; do
      record none --path vfio --from $source --rate 1M
      until_ "the path was said" grep -q 'path: .*vfio' /tmp/err
      lost $source
      # While the volume is made ready, or before, during or after the creation of the file.
      said 'unplugged\|no longer answers'
      said 'freeing unused space\|nothing was recorded\|0 bytes of it are durable'
      rc 0 $S check nvme0 --path io_uring
      "$S" --quiet rm nvme0 none --path io_uring 2>/dev/null
    done
    """
    hotplug_guest(FUNCTIONS + script, tmp_path)
