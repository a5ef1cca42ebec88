# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The host's side of a block interface on plain pins (`rtl/sim/block_pins.sv`), for cocotb."""

import random

from cocotb.triggers import ReadOnly, RisingEdge

READ, WRITE, FLUSH, DISCARD, WRITE_ZEROES = range(5)
OK, EMPTY, TOO_LARGE, OUT_OF_RANGE, UNSUPPORTED, READ_ONLY, DEVICE = range(7)


class Host:
    """Sends requests and collects their results. One `run` at a time; `seed` determines every pause."""

    def __init__(self, dut, data_bytes, block_bytes, seed, pause_percent=0):
        self.dut, self.data_bytes, self.block_bytes = dut, data_bytes, block_bytes
        self.random = random.Random(seed)
        self.pause_percent = pause_percent
        for pin in ("req_valid", "write_valid", "read_ready", "rsp_ready", "req_fua"):
            getattr(dut, pin).value = 0

    def pauses(self):
        return self.random.randrange(100) < self.pause_percent

    async def run(self, requests, depth=8, limit_cycles=20000):
        """Each request is (op, lba, count, data); returns [(status, detail, data)] in their order."""
        dut = self.dut
        waiting = list(enumerate(requests))
        open_by_tag, writes, results = {}, [], [None] * len(requests)
        offered, write_offered = None, False
        for _ in range(limit_cycles):
            # Offers stay until they are taken; new ones may begin in any cycle.
            if offered is None and waiting and len(open_by_tag) < depth and not self.pauses():
                number, request = waiting.pop(0)
                tag = self.random.choice([tag for tag in range(32) if tag not in open_by_tag])
                offered = (number, request, tag)
                dut.req_op.value, dut.req_lba.value, dut.req_count.value = request[0], request[1], request[2]
                dut.req_tag.value = tag
            dut.req_valid.value = int(offered is not None)
            if writes and not write_offered and not self.pauses():
                tag, data, at = writes[0]
                write_offered = True
                dut.write_tag.value = tag
                dut.write_data.value = int.from_bytes(data[at:at + self.data_bytes], "little")
                dut.write_last.value = int(at + self.data_bytes == len(data))
            dut.write_valid.value = int(write_offered)
            dut.read_ready.value = int(not self.pauses())
            dut.rsp_ready.value = int(not self.pauses())
            await ReadOnly()
            req_taken = offered is not None and dut.req_ready.value == 1
            write_taken = write_offered and dut.write_ready.value == 1
            read_taken = dut.read_valid.value == 1 and dut.read_ready.value == 1
            rsp_taken = dut.rsp_valid.value == 1 and dut.rsp_ready.value == 1
            if read_taken:
                word = int(dut.read_data.value).to_bytes(self.data_bytes, "little")
                open_by_tag[int(dut.read_tag.value)][1].extend(word)
            if rsp_taken:
                number, data = open_by_tag.pop(int(dut.rsp_tag.value))
                results[number] = (int(dut.rsp_status.value), int(dut.rsp_detail.value), bytes(data))
            if req_taken:
                number, request, tag = offered
                open_by_tag[tag] = (number, bytearray())
                if request[0] == WRITE and request[2] != 0:
                    writes.append((tag, request[3], 0))
                offered = None
            if write_taken:
                tag, data, at = writes.pop(0)
                if at + self.data_bytes < len(data):
                    writes.insert(0, (tag, data, at + self.data_bytes))
                write_offered = False
            await RisingEdge(dut.clk_i)
            if not waiting and not open_by_tag and offered is None:
                for pin in ("req_valid", "write_valid", "read_ready", "rsp_ready"):
                    getattr(dut, pin).value = 0
                return results
        raise AssertionError(f"requests are outstanding after {limit_cycles} cycles: {sorted(open_by_tag)}")
