# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`selftest`, `doctor --report`, `--latency-limit` and a shared interrupt line, on emulated drives, in guests of the pool.

Own guests: the test of the line, because the slot of the drive decides which line it has.
"""

# partner: QEMU's nvme | drive
# partner: Linux | host kernel

import json

from chario_guest import built
from scripted import ROOT, guest, own_guest

OUT = ROOT / "out" / "test-boards"

SCRIPT = r"""
rm -rf out/test-boards; mkdir -p out/test-boards
# The serial number is needed, exactly, and a mounted drive is refused.
rc 2 $S selftest nvme0; said 'this would overwrite data'
rc 2 $S selftest nvme0 --destroy-data BOARD; said 'nothing was done'
mkfs.ext4 -qF /dev/nvme0n1; mkdir -p /tmp/board; mount /dev/nvme0n1 /tmp/board
rc 3 $S selftest nvme0 --destroy-data BOARD7X; said 'is mounted at'
umount /tmp/board
# Its report stays also if a step failed.
$S selftest nvme0 --destroy-data BOARD7X --size 512K --json >out/test-boards/selftest.json 2>/tmp/err
same $? 0 "the status of selftest"
driver_is nvme
for words in "" --with-serials; do
  $S doctor --report out/test-boards/report$words.json $words >/dev/null 2>/tmp/err
  said 'wrote out/test-boards/report'
done
driver_is nvme
rc 9 $S doctor --report out/test-boards/report.json; said 'exists'
$S doctor nvme0 --report out/test-boards/reads.json >/dev/null 2>/tmp/err; said "wrote out/test-boards/reads"
driver_is nvme
"""


def test_a_selftest_and_a_report_of_an_emulated_drive():
    module = built()
    load = f"insmod build/chario/{module}/chario.ko || fail 'the module does not load'\n"
    guest(load + SCRIPT + "rmmod chario || fail 'it is not unloaded'", "--drive", "size=64M,serial=BOARD7X")
    tested = json.loads((OUT / "selftest.json").read_text())
    assert tested["ok"] is True
    results = {path["path"]: {check["name"]: check for check in path["checks"]} for path in tested["paths"]}
    for path in ("io_uring", "straightway, poll", "straightway, interrupt", "chario"):
        checks = results[path]
        outcomes = {name: check["outcome"] for name, check in checks.items()}
        print(path, outcomes)
        assert "failed" not in outcomes.values(), checks
        for step in ("identify", "sizes and offsets", "memory coherence", "overlapping writes", "flush", "discard"):
            # CharIO's calls are one after another, and it has no discard.
            is_lacking = path == "chario" and step in ("overlapping writes", "discard")
            assert outcomes[step] == ("not_possible" if is_lacking else "ok"), checks[step]
    # Each path reads what the one before it wrote, and the first one at the end.
    for path in ("straightway, poll", "straightway, interrupt", "chario", "io_uring, opened again"):
        assert results[path]["cross-reading"]["outcome"] == "ok"
    assert results["straightway, poll"]["reset"]["outcome"] == "ok"
    # An emulated drive takes longer than a microsecond for each of these reads.
    late = results["straightway, poll"]["late commands"]
    print(late["detail"], "|", results["straightway, interrupt"]["late commands"]["detail"])
    assert late["outcome"] == "ok" and " late, " in late["detail"], late
    for path in ("io_uring", "chario"):
        assert results[path]["late commands"]["outcome"] == "not_possible", results[path]
        assert results[path]["late commands"]["detail"].startswith("not tested: the driver of this path"), results[path]
    assert results["io_uring"]["reset"]["outcome"] == "not_possible"

    redacted = (OUT / "report.json").read_text()
    assert "BOARD7X" not in redacted and b"BOARD7X".hex() not in redacted
    report = json.loads(redacted)
    drive = report["drives"][0]
    assert drive["facts"]["serial"] == "SERIAL-1" and drive["identify_controller"].startswith("361b")
    assert drive["identify_namespaces"]["1"]
    function = next(one for one in report["functions"] if one["address"] == drive["address"])
    assert function["attributes"]["class"] == "0x010802" and function["header"].startswith("361b")
    assert "chario" in report["modules"]
    assert any("nvme" in line for line in report["kernel_log"])
    assert report["iommu_groups"][function["iommu_group"]]
    complete = json.loads((OUT / "report--with-serials.json").read_text())
    assert complete["drives"][0]["facts"]["serial"] == "BOARD7X"
    assert b"BOARD7X".hex() in complete["drives"][0]["identify_controller"]
    reads = json.loads((OUT / "reads.json").read_text())["reads"]
    assert reads["agree"] is True, reads
    read = {one["path"] for one in reads["paths"] if one["outcome"] == "read"}
    assert {"straightway-poll", "straightway-interrupt", "io_uring", "passthrough", "block-direct"} <= read, reads
    assert "BOARD7X" not in json.dumps(reads)


LIMITED = r"""
mkdir -p out/test-boards
Q="--rate 20iops --block 4K --span 8M --duration 1s --warm-up 100ms --deadline 5s --miss-rate 0.2 --json"
# QEMU's drive has no autonomous transitions, and the kernel no attribute for it.
measured $S sustain /dev/nvme0n1 $Q --path io_uring --latency-limit 1ms; cp /tmp/out out/test-boards/nothing.json
P=/sys/class/nvme/nvme0/power; A=$P/pm_qos_latency_tolerance_us
[ ! -e $A ] || fail "there is an attribute"
# So the attribute is a file: what is written to it, and when, is the command's; what the kernel makes of it is not seen.
mkdir -p /tmp/power; echo 100000 >/tmp/power/pm_qos_latency_tolerance_us; mount --bind /tmp/power $P
is() { same "$(<$A)" "$1" "the tolerance $2"; }
measured $S compare /dev/nvme0n1 --paths io_uring,passthrough,chario --sizes 4K --rounds 5 --cell-duration 10ms --span 8M --json \
  --operations read --latency-limit 0us
cp /tmp/out out/test-boards/compared.json; is 100000 "after compare"
measured $S periodic /dev/nvme0n1 --paths io_uring --period 5ms --firings 10 --block 4K --priorities normal --loads none --span 8M \
  --json --latency-limit 2ms
cp /tmp/out out/test-boards/periodic.json; is 100000 "after periodic"
begin() {
  $S sustain /dev/nvme0n1 --rate 20iops --block 4K --span 8M --duration 600s --deadline 5s --path io_uring --latency-limit 1ms \
    >/tmp/out 2>/tmp/err & pid=$!
  until [ "$(<$A)" = 1000 ]; do kill -0 $pid || fail "it ended"; done
}
begin; kill -INT $pid; wait $pid; same $? 130 "the exit status"; is 100000 "after an interruption"
begin
rc 3 $S read /dev/nvme0n1 --length 4K --output /dev/null --path io_uring --latency-limit 1ms; said "process $pid"
kill -9 $pid; wait $pid; is 1000 "after kill -9"
rc 0 $S read /dev/nvme0n1 --length 4K --output /dev/null --path io_uring --latency-limit 250us
said "is 100000 again; process $pid had left it changed"; is 100000 "after the next run"
# An error while it is limited: the drive is not a volume.
rc 3 $S record /dev/nvme0n1 take --rate 1M --for 1s --from pattern --path io_uring --latency-limit 1ms; is 100000 "after an error"
umount $P
driver_is nvme
"""


def test_a_latency_limit_is_put_back_after_the_end_an_error_and_a_signal():
    guest(LIMITED, "--drive", "size=64M,serial=BOARD7X")
    limits = {name: json.loads((OUT / f"{name}.json").read_text())["latency_limits"] for name in ("nothing", "compared", "periodic")}
    print(limits)
    kernel = {"group": "kernel", "by": "kernel", "worst_latency_us": None, "before": "100000"}
    assert limits["nothing"] == [kernel | {"limit_us": 1000, "by": "nothing", "before": None}]
    assert limits["compared"] == [kernel | {"limit_us": 0}]
    assert limits["periodic"] == [kernel | {"limit_us": 2000}]
    missing = json.loads((OUT / "compared.json").read_text())["missing"]
    assert [one["path"] for one in missing] == ["chario"] and "power states" in missing[0]["reason"]


FILTERED = r"""
PORT=$(cd -P /sys/bus/pci/devices/$BDF/.. && echo "${PWD##*/}")
setpci -s $PORT COMMAND=0:4
$S doctor >/tmp/out; grep -q "bridge $PORT .*bus mastering is off" /tmp/out || { cat /tmp/out >&2; fail "doctor does not see the bridge"; }
rc 4 $S read nvme0 --length 4K --output /dev/null --path vfio
said "the bridge $PORT above $BDF has bus mastering off"; said "hint: setpci -s $PORT COMMAND=4:4"
driver_is nvme
# As the hint says.
setpci -s $PORT COMMAND=4:4
rc 0 $S read nvme0 --length 4K --output /dev/null --path vfio
driver_is nvme
"""


def test_a_bridge_that_filters_the_drive_s_accesses_is_named():
    guest(FILTERED, "--drive", "size=64M,serial=BOARD7X")


# Slots four apart have one interrupt line: a drive's and one of the guest's own virtio devices, before it.
SHARED_LINE = r"""
virtio_lines() { for d in /sys/bus/pci/devices/*; do [ "$(linked $d/driver)" != virtio-pci ] || echo "$(<$d/irq)"; done; }
A= line=
for controller in /sys/class/nvme/nvme*; do
  if virtio_lines | grep -qx "$(<$controller/device/irq)"; then
    A=$(linked $controller/device) line=$(<$controller/device/irq) serial=$(tr -d ' ' <$controller/serial)
  fi
done
[ -n "$A" ] || fail "no drive has a line with a virtio device: $(virtio_lines)"
B=/sys/bus/pci/devices/$A
modprobe vfio-pci
echo vfio-pci >$B/driver_override; echo $A >$B/driver/unbind; echo $A >/sys/bus/pci/drivers_probe
$S --quiet format $A --destroy-data $serial --path straightway || fail "format"
head -c 8M /dev/urandom >/dev/shm/data
counted() { awk -v line="$line:" '$1 == line { print $2 + $3 }' /proc/interrupts; }
[ -n "$(counted)" ] || fail "nothing handles line $line"
for mode in poll interrupt hybrid poll; do
  $S --quiet put $A /dev/shm/data $mode --path straightway --mode $mode || fail "put, $mode"
  $S --quiet get $A $mode /dev/shm/back --path straightway --mode $mode || fail "get, $mode"
  cmp /dev/shm/data /dev/shm/back || fail "data, $mode"
  $S --quiet rm $A $mode; rm /dev/shm/back
done
dmesg | grep -B1 -A3 'nobody cared' && fail "the line was a storm"
echo $(counted)
"""


def test_a_drive_without_messages_leaves_a_shared_line_alone():
    drives = (word for serial in ("LAB1", "LAB2") for word in ("--drive", f"size=64M,serial={serial}"))
    print("interrupts of the shared line:", own_guest(SHARED_LINE, "--kernel-args", "pci=nomsi", *drives).split()[-1])
