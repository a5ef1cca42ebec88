# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rows of rtl/sata_states.py with the drive of `sata_drive.py`: the outcomes are those of the model in C++. Run by test_sata.py."""

import os
from collections import Counter

import cocotb
import sata_states
from bench_sata import BLOCKS, ready, start
from block_bus import DISCARD, FLUSH, OK, READ, WRITE
from cocotb.triggers import RisingEdge
from sata_drive import BLOCK

FLUSHES, TRIMS = [(FLUSH, 0, 0, None)], [(DISCARD, 5, 3, None)]


def fails(when="after", **more):
    return {"does": {"fail": 5}, "when": when, **more}


def log(what):
    return {"does": {"fail": 5, f"log {what}": 1}, "op": WRITE}


def each_way(rows):
    """Each row with the queue and without."""
    return {name: row for base, row in rows.items() for name, row in ((base, row), (f"{base}-single", {**row, "queue": False}))}


# By row: what the drive does (see `Drive`), and the requests (`op`, by default both kinds; `then`).
PLAYS = each_way({f"{kind}-error-{when}": fails(when, op=op)
                  for kind, op in (("read", READ), ("write", WRITE)) for when in ("before", "half", "after")})
PLAYS |= each_way({
    "no-address": {"does": {"refuse": 5}, "error": 0x10},
    "abort-flush": {"does": {"abort ea": 1}, "then": FLUSHES},
    "abort-trim": {"does": {"abort 06": 1}, "then": TRIMS},
    "flush-error": {"does": {"flush": 1}, "then": FLUSHES, "op": WRITE},
    "device-fault": {"does": {"fault": 5}},
    "restart-data": {"does": {"restart data": 1}},
})
PLAYS |= {f"log-{what.replace(' ', '-')}": log(what) for what in ("refused", "silent", "damaged", "other tag", "no setup", "no data", "no clear")}
PLAYS |= {
    "no-address-abort": {"does": {"refuse": 5}, "error": 0x04},
    "no-address-late": fails("before", error=0x10, op=WRITE),
    "mixed": {"does": {"mixed": 5}},
    "error-with-ends": {"does": {"fail": 5, "collect": 1}, "op": WRITE},
    "slow-answer": {"does": {"delay": 200}},
    "error-by-answer": {"does": {"fail": 5, "delay": 500}, "when": "before", "meets": "by answer"},
    "restart-accepted": {"does": {"restart accepted": 1}},
    "restart-failed": {"does": {"fail": 5, "restart failed": 1}},
    "restart-log": {"does": {"fail": 5, "restart log": 1}},
    "restart-flush-single": {"does": {"restart flush": 1}, "then": FLUSHES, "queue": False},
    "bad-diagnosis": {"does": {"diagnosis": 2}, "meets": None},
    "abort-identify": {"does": {"abort ec": 1}},
    "abort-mode": {"does": {"abort ef": 1}},
    "abort-activate": {"does": {"activate": 1, "abort ef": 2}},
}
ONLY = os.environ.get("STRAIGHTWAY_ROWS", "").split() or list(PLAYS)


def holds(drive, lba, count, allowed):
    """Each block has one of these contents."""
    return all(drive.data[(lba + at) * BLOCK:(lba + at + 1) * BLOCK] in [data[at * BLOCK:(at + 1) * BLOCK] for data in allowed]
               for at in range(count))


@cocotb.test()
@cocotb.parametrize(name=ONLY)
async def row(dut, name):
    play = dict(PLAYS[name])
    op, then, meets = play.pop("op", None), play.pop("then", []), play.pop("meets", "each")
    host, drive = await start(dut, **play)
    resets = drive.resets
    drive.data[:] = host.random.randbytes(len(drive.data))
    old = bytes(drive.data)
    requests = []
    for at in range(8):
        kind, count = (READ, WRITE)[at % 2] if op is None else op, 17 if at == 4 and "half" in name else 1 + at % 2
        requests.append((kind, 20 * at, count, host.random.randbytes(count * BLOCK) if kind == WRITE else None))
    results = await host.run(requests, limit_cycles=100000)
    if then:
        await ready(dut)
        results += await host.run(then, limit_cycles=100000)
    counts = Counter(status for status, _, _ in results)
    detail = next((detail for status, detail, _ in results if status == sata_states.DEVICE), 0)
    # A device fault resets the drive again and again.
    assert sata_states.outcome(counts, detail, drive.resets - resets) == sata_states.ROWS[name], (name, results, drive.resets - resets)
    for wanted in {"each": drive.does.keys() | drive.happened if "restart" not in name else (), None: ()}.get(meets, (meets,)):
        assert wanted in drive.happened, f"the drive never met {wanted!r}"
    # What was read and written is what was answered. A flush that failed may have dropped a block.
    for (kind, lba, count, data), (status, _, got) in zip(requests, results):
        was = old[lba * BLOCK:(lba + count) * BLOCK]
        assert kind != READ or status != OK or got == was
        assert kind != WRITE or holds(drive, lba, count, [data] if status == OK and name[:11] != "flush-error" else [data, was])
    # Without the fault everything works again.
    drive.does = {}
    if name.startswith("device-fault"):
        drive.cycle_power()
        for _ in range(30):
            await RisingEdge(dut.clk_i)
    await ready(dut)
    data = host.random.randbytes(3 * BLOCK)
    again = [(WRITE, BLOCKS - 3, 3, data)], [(FLUSH, 0, 0, None)], [(READ, BLOCKS - 3, 3, None)]
    assert [(await host.run(one, limit_cycles=100000))[0][0] for one in again[:2]] == [OK, OK]
    assert (await host.run(again[2], limit_cycles=100000))[0] == (OK, 0, data)
