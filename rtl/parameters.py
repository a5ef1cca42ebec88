# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The ranges of the cores' parameters.

Each module refuses a value outside its range: elaboration ends with an error that names the parameter and the value. `legal()` and `illegal()`
derive from the one table what rtl/test/test_parameters.py elaborates: both ends of each range, and one value beyond each end.
"""

from dataclasses import dataclass, field


@dataclass
class Range:
    """`least` to `most` (None: no limit), only powers of two with `power`. `at_least`, `at_most`: what other parameters must be at that end
    and beyond it."""

    least: int
    most: int | None = None
    power: bool = False
    at_least: dict = field(default_factory=dict)
    at_most: dict = field(default_factory=dict)

    def beyond(self):
        """One value beyond each end, and for powers of two one between: each with the other parameters' values."""
        if self.power:
            below = self.least // 2
            # The next power of two above the most, and one and a half times the least.
            above, between = self.most and 2 * self.most, 3 * self.least if self.least > 1 else 3
        else:
            below, above, between = self.least - 1, self.most and self.most + 1, None
        if below >= 0:
            yield below, self.at_least
        if above is not None:
            yield above, self.at_most
        if between is not None and (self.most is None or between < self.most):
            yield between, {}


def power(least, most=None, **others):
    return Range(least, most, True, **others)


WIDE = power(32, 256)
STREAM = power(8, 1024)
BLOCK = Range(6, 16)
# Core: module: its parameters.
TABLE = {
    "prim": {
        "prim_fifo": {"Width": Range(1), "Depth": Range(1)},
        "prim_fifo_async": {"Width": Range(1), "Depth": power(4)},
        "prim_fifo_ram": {"Width": Range(1), "Depth": power(2)},
        "prim_ram": {"Width": Range(1), "Depth": Range(1)},
        "prim_ahead": {"Width": Range(1)},
        "prim_merge": {"Width": Range(1)},
        "prim_reset_sync": {"Stages": Range(2)},
    },
    "block": {
        "block_cdc": {"DataWidth": STREAM, "DataDepth": power(8)},
        "block_front": {"DataWidth": STREAM, "BlockSizeLog2": Range(0, 16, at_least={"DataWidth": 8}), "OpenWrites": Range(1)},
    },
    "ramdisk": {
        "ramdisk": {"DataWidth": power(32, 1024), "BlockSizeLog2": BLOCK, "BlockCount": Range(1), "QueueDepth": Range(1)},
    },
    "raid0": {
        "raid0": {
            "Disks": Range(1, 8), "UpWidth": power(32, 256), "DiskWidth": power(32, 256, at_most={"UpWidth": 256}),
            "BlockSizeLog2": BLOCK, "StripeBlocks": power(1, 32768), "SlotBlocks": power(1, 32768, at_most={"StripeBlocks": 32768}),
            "Slots": power(2, 16), "WritePlaces": power(2, 16), "WriteSlots": power(1, 64), "LbaBits": Range(16, 48),
        },
    },
    "hwfs": {
        "hwfs": {
            "DataWidth": WIDE, "BlockSizeLog2": Range(6, 12, at_most={"NodeLog2Max": 12}), "NodeLog2Max": Range(8, 12),
            "Files": Range(1, 8), "IndexSlots": Range(1), "Outstanding": Range(1, 16), "TimeoutCycles": Range(1),
            "ProgramLog2": Range(12, 13),
        },
    },
    "hwfs_crc": {"hwfs_crc": {"Width": Range(32)}},
    "hwfs_sata": {
        "hwfs_sata": {"Disks": Range(1, 8, at_most={"Slots": 8}), "Slots": Range(0, 16), "ClockKhz": Range(1),
                      "TimeoutMs": Range(9, at_least={"FlushMs": 8, "DataMs": 8})},
    },
    "sata": {
        "sata": {"BlockSizeLog2": Range(9, 12), "WriteWords": power(16, 65536), "ClockKhz": Range(1, 1_000_000),
                 "SignatureMs": Range(1), "FlushMs": Range(1), "DataMs": Range(8)},
        "sata_writes": {"Words": power(2, 65536), "WordsLog2": Range(0, 10), "Places": power(2, 32)},
        "sata_phy": {"Fastest": Range(0, 2), "Slowest": Range(0, 2), "RetryDwords": Range(1), "AlignDwords": Range(1),
                     "LostDwords": Range(1)},
        "sata_stream": {"DataWidth": WIDE, "BlockSizeLog2": BLOCK},
    },
    "link": {
        "link": {"WindowLog2": Range(1, 14), "FrameWords": Range(1, 16384), "DeadLog2": Range(1, 31), "SlipBlocks": power(1, 1024)},
    },
    "route": {
        "route_router": {"Width": Range(1), "Columns": Range(2), "Rows": Range(2), "Column": Range(0, 3), "Row": Range(0, 3)},
        "route_source": {"Interval": Range(1)},
        "route_switch": {"Width": Range(1), "Ways": power(2), "Digits": Range(1), "Level": Range(0, 1)},
        "route_torus": {"Width": Range(1), "Columns": power(2), "Rows": power(2), "Interval": Range(1), "FastInterval": Range(2)},
        "route_tree": {"Width": Range(1), "Ways": power(2), "Levels": Range(1), "Interval": Range(1)},
    },
    "aoe": {
        "aoe_initiator": {
            "Slots": power(2, 16), "SectorsLog2": Range(0, 4), "Tries": Range(2, 8), "TickLog2": Range(1, 31), "RetryTicks": Range(1, 65535),
            "LifeTicks": Range(1, 65535), "LeastWords": Range(9, 15),
        },
        "aoe_target": {"Buffers": power(2, 16), "Initiators": Range(1, 4), "SectorsLog2": Range(0, 4), "LeastWords": Range(9, 15)},
    },
    "virtio": {
        "virtio_blk": {"Requests": Range(1, 32), "Queues": Range(1, 64), "QueueSize": power(8, 1024), "BlockSizeLog2": BLOCK},
    },
    "smmu": {
        "smmu": {
            "DataWidth": WIDE, "PageLog2": Range(12, 16), "BlockSizeLog2": Range(6, 16, at_most={"PageLog2": 16}),
            "Frames": power(4, 4096), "TlbEntries": power(16, 1024), "WindowBits": Range(13, 40),
        },
    },
    "timer": {
        "timer_native": {"Lines": Range(1, 32), "DepthLog2": Range(1, 20), "Groups": Range(1, 65535), "Width": power(32, 128)},
    },
    "blastn": {
        "blastn": {
            "EntriesLog2": Range(2, 16), "BucketLog2": Range(1, 15), "HitsLog2": Range(1, 16), "MaskLog2": Range(1, 16),
            "Candidates": Range(4, 1024), "DiagonalsLog2": Range(0, 16),
        },
    },
    "workload": {
        "workload": {"DataWidth": WIDE, "NameWords": Range(1, 16), "TimeoutCycles": Range(1)},
    },
    "example": {
        "example_regs": {"NameWords": Range(1, 16)},
    },
    "system": {
        "system_pack": {"Lanes": power(2), "Depth": Range(1)},
        "system_unpack": {"Lanes": power(2), "Depth": Range(1)},
        "system_head_port": {"Disks": power(2)},
        "system_torus": {"Ways": power(2), "Ports": power(1, 4), "Width": Range(1)},
        "system_tree": {"Ways": power(2), "Ports": power(1), "Width": Range(1)},
    },
}

# Values that are legal with other parameters than these: core, module, parameter, value, the others.
TOGETHER = [
    ("block", "block_front", "BlockSizeLog2", 1, {"DataWidth": 32}),
    ("raid0", "raid0", "Disks", 1, {"Mirror": 1}),
    ("raid0", "raid0", "Slots", 16, {"Mirror": 1}),
    ("raid0", "raid0", "SlotBlocks", 8, {"StripeBlocks": 4}),
    ("raid0", "raid0", "UpWidth", 32, {"DiskWidth": 64}),
    ("hwfs", "hwfs", "BlockSizeLog2", 10, {"NodeLog2Max": 9}),
    ("hwfs_sata", "hwfs_sata", "Disks", 2, {"Slots": 0}),
    ("hwfs_sata", "hwfs_sata", "Slots", 1, {}),
    ("hwfs_sata", "hwfs_sata", "Slots", 12, {}),
    ("hwfs_sata", "hwfs_sata", "Slots", 16, {"Mirror": 1, "Disks": 2}),
    ("sata", "sata_phy", "Slowest", 2, {"Fastest": 1}),
    ("smmu", "smmu", "BlockSizeLog2", 13, {"PageLog2": 12}),
    ("smmu", "smmu", "WindowBits", 16, {"PageLog2": 16}),
]


def modules():
    for core, members in TABLE.items():
        for module, ranges in members.items():
            yield core, module, ranges


def illegal():
    """(core, module, parameter, value, other parameters) for one value beyond each end."""
    for core, module, ranges in modules():
        for name, one in ranges.items():
            for value, others in one.beyond():
                yield core, module, name, value, others
    yield from TOGETHER


def legal():
    """(core, module, parameters) for each end."""
    for core, module, ranges in modules():
        for name, one in ranges.items():
            yield core, module, {name: one.least, **one.at_least}
            if one.most is not None:
                yield core, module, {name: one.most, **one.at_most}
