"""A Serial ATA drive on the decoded words of `sata_sim`, for cocotb: link, frames and the commands that the host uses.

Written from the specification, and independent of the C++ model, so that the two do not share a misunderstanding. The link is
a generator that is given a received word and yields the next one to send; `Drive.run` carries words between it and the pins.
"""

import random
from collections import deque

from cocotb.triggers import ReadOnly, RisingEdge

ALIGN, SYNC, XRDY, RRDY, SOF = 0x7B4A4ABC, 0xB5B5957C, 0x5757B57C, 0x4A4A957C, 0x3737B57C
EOF, RIP, ROK, RERR, WTRM = 0xD5D5B57C, 0x5555B57C, 0x3535B57C, 0x5656B57C, 0x5858B57C
HOLD, HOLDA, CONT, PMREQ_P, PMNAK = 0xD5D5AA7C, 0x9595AA7C, 0x9999AA7C, 0x1717B57C, 0xF5F5957C
REGISTER, ACTIVATE, SETUP, DATA, PIO_SETUP, SET_BITS = 0x34, 0x39, 0x41, 0x46, 0x5F, 0xA1
BLOCK, FRAME = 512, 8192


def scrambler():
    """The words to XOR with those of a frame."""
    state = 0xFFFF
    while True:
        word = 0
        for bit in range(32):
            out = state >> 15
            word |= out << bit
            state = (state << 1 & 0xFFFF) ^ (0xA011 if out else 0)
        yield word


TABLE = []
for byte in range(256):
    value = byte << 24
    for _ in range(8):
        value = (value << 1 & 0xFFFFFFFF) ^ (0x04C11DB7 if value >> 31 else 0)
    TABLE.append(value)


def crc(words):
    value = 0x52325032
    for word in words:
        value ^= word
        for _ in range(4):
            value = (value << 8 & 0xFFFFFFFF) ^ TABLE[value >> 24]
    return value


def words_of(data):
    return [int.from_bytes(data[at:at + 4], "little") for at in range(0, len(data), 4)]


class Drive:
    """`refuse`: host frames (counted from 1) that are answered by R_ERR; `spoil`: own data frames with a wrong CRC;
    `lie`: DMA setups that name a tag which is not outstanding; `fail`: queued commands that fail with a media error, as (number of
    the command, whether after its data)."""

    def __init__(self, dut, blocks, seed, queue=True, hold_percent=0, power=False, refuse=(), spoil=(), lie=(), fail=()):
        self.dut, self.queue, self.hold_percent, self.power = dut, queue, hold_percent, power
        self.refuse, self.spoil, self.lie, self.fail = set(refuse), set(spoil), set(lie), dict(fail)
        self.random = random.Random(seed)
        self.data = bytearray(blocks * BLOCK)
        self.seen = self.sent = self.setups = self.resets = self.naks = self.holds = self.queued = self.clears = 0
        self.restart()

    def restart(self):
        self.frames = deque([(REGISTER | 0x01500000, 1, 0, 1, 0)])  # the signature
        self.commands, self.current = [], None
        self.outstanding, self.failed = set(), None  # tags; the tag and the error of which the host has not read the log
        self.link = self.idle()
        next(self.link)
        self.received, self.last, self.continued = deque(), SYNC, False

    # --- Words -----------------------------------------------------------------------------------
    async def run(self):
        down = 20
        for cycle in range(1 << 40):
            await ReadOnly()
            word = (int(self.dut.tx_k.value), int(self.dut.tx_data.value))
            if int(self.dut.reset.value) and not down:
                down = 20
                self.resets += 1
            if down:
                down -= 1
                if not down:
                    self.restart()
                answer = (1, ALIGN)
            else:
                answer = self.step(word, cycle)
            await RisingEdge(self.dut.clk_i)
            self.dut.up.value = int(not down)
            self.dut.rx_bad.value = 0
            self.dut.rx_k.value, self.dut.rx_data.value = answer

    def step(self, word, cycle):
        k, value = word
        if k and value == CONT:
            self.continued = True
            self.received.append((1, self.last))
        elif k and value != ALIGN:
            self.continued, self.last = False, value
            self.received.append(word)
        elif not k:
            self.received.append((1, self.last) if self.continued else word)
        # Two ALIGN in 256 words; a received one is dropped, and one is sent while no other word was received.
        if cycle % 256 < 2 or not self.received:
            return 1, ALIGN
        return self.link.send(self.received.popleft())

    def idle(self):
        word = yield
        count = 0
        while True:
            count += 1
            if word == (1, XRDY):
                word = yield from self.receive()
            elif self.frames:
                word = yield from self.transmit(self.frames.popleft())
            elif self.power and count % 50 == 0:
                while word not in ((1, PMNAK), (1, XRDY)):
                    word = yield 1, PMREQ_P
                self.naks += word == (1, PMNAK)
            else:
                word = yield 1, SYNC
                self.serve()

    def receive(self):
        word = (1, XRDY)
        while word == (1, XRDY):
            word = yield 1, RRDY
        if word != (1, SOF):
            return word
        words, scramble, answer = [], scrambler(), RIP
        while word not in ((1, EOF), (1, SYNC)):
            word = yield 1, answer
            if not word[0]:
                words.append(word[1] ^ next(scramble))
            pause = self.random.randrange(100) < self.hold_percent
            answer = HOLD if pause else HOLDA if word == (1, HOLD) else RIP
        if word == (1, SYNC):
            return word
        self.seen += 1
        good = len(words) > 1 and crc(words[:-1]) == words[-1] and self.seen not in self.refuse
        if good:
            self.take(words[:-1])
        elif words and words[0] & 0xFF == DATA and self.current:
            self.end(0x84)  # interface CRC error
        while word not in ((1, SYNC), (1, XRDY)):
            word = yield 1, ROK if good else RERR
        return word

    def transmit(self, frame):
        word = None
        while word != (1, RRDY):
            word = yield 1, XRDY
        word = yield 1, SOF
        scramble = scrambler()
        is_data = frame[0] & 0xFF == DATA
        self.sent += is_data
        for item in (*frame, crc(frame) ^ (is_data and self.sent in self.spoil)):
            while word == (1, HOLD) or self.random.randrange(100) < self.hold_percent:
                self.holds += word == (1, HOLD)
                word = yield 1, HOLDA if word == (1, HOLD) else HOLD
            word = yield 0, item ^ next(scramble)
        word = yield 1, EOF
        while word not in ((1, ROK), (1, RERR), (1, SYNC)):
            word = yield 1, WTRM
        if word == (1, ROK) and is_data:
            self.more()
        elif word != (1, ROK) and is_data:
            self.end(0x84)
        elif word != (1, ROK):
            self.frames.appendleft(frame)
        return (yield 1, SYNC)

    # --- Commands ----------------------------------------------------------------------------------
    def take(self, words):
        if words[0] & 0xFF == DATA:
            data = b"".join(word.to_bytes(4, "little") for word in words[1:])
            assert self.current and len(data) == min(FRAME, self.left), "a data frame of the wrong length"
            if self.left == len(data) and self.current[4]:
                self.left = 0
                return self.end(0x40)
            self.data[self.at:self.at + len(data)] = data
            self.at, self.left = self.at + len(data), self.left - len(data)
            return self.more()
        assert words[0] & 0xFF == 0x27 and len(words) == 5, "not a command"
        code = words[0] >> 16 & 0xFF
        lba = words[1] & 0xFFFFFF | (words[2] & 0xFFFFFF) << 24
        queued = code in (0x60, 0x61)
        count = (words[0] >> 24 | words[2] >> 24 << 8) if queued else words[3] & 0xFFFF
        tag = words[3] >> 3 & 31
        if self.failed:
            # Serial ATA 3.5, 11.15, DFPDMAQ13: only READ LOG EXT of the queued error log is accepted; DFPDMAQ14: before the log, Set
            # Device Bits with ERR 0 and all bits of ACT discards the queue. Other commands are aborted (DFPDMAQ12).
            if (code, lba & 0xFF) != (0x2F, 0x10):
                return self.frames.append((REGISTER | 0x510000 | 0x04 << 24, 0, 0, 0, 0))
            self.outstanding.clear()
            self.clears += 1
            self.frames.append((SET_BITS | 0x400000, 0xFFFFFFFF))
        assert queued or not self.outstanding, "a command that is not queued while queued ones are outstanding"
        after = None
        if queued:
            assert tag not in self.outstanding, "a tag is used twice"
            self.outstanding.add(tag)
            self.queued += 1
            after = self.fail.get(self.queued)
        self.commands.append((code, lba, count, tag if queued else None, after))
        if queued:
            self.frames.append((REGISTER | 0x400000, 0, 0, 0, 0))  # DFPDMAQ2

    def serve(self):
        if self.current or self.frames or not self.commands:
            return
        self.current = self.commands.pop(self.random.randrange(len(self.commands)))
        code, lba, count, tag, after = self.current
        self.at, self.left = lba * BLOCK, count * BLOCK
        if after is False:
            return self.end(0x40)
        if code == 0xEC:
            self.frames += [(PIO_SETUP | 0x580000, 0, 0, 0x50000000, 512), (DATA, *words_of(self.identity()))]
        elif code == 0x2F:
            tag, error = self.failed
            self.failed = None
            log = bytes([tag, 0, 0x41, error]) + bytes(507)
            log += bytes([-sum(log) & 0xFF])  # the sum of all bytes is 0
            self.frames += [(PIO_SETUP | 0x580000, 0, 0, 0x50000000, 512), (DATA, *words_of(log))]
        elif code in (0xEF, 0xEA):
            self.end()
        elif tag is not None:
            self.setups += 1
            named = (tag + 9) % 32 if self.setups in self.lie else tag
            self.frames.append((SETUP | (0x2000 if code == 0x60 else 0), named, 0, 0, 0, self.left, 0))
            self.more()
        elif code in (0x25, 0x35, 0x3D):
            self.more()
        else:
            raise AssertionError(f"unknown command {code:02x}")

    def more(self):
        """The next frame of the current command, or its end."""
        code = self.current[0]
        if code in (0xEC, 0x2F):
            self.current = None
        elif self.left == 0:
            self.end(0x40 if self.current[4] else 0)
        elif code in (0x60, 0x25):
            size = min(FRAME, self.left)
            self.frames.append((DATA, *words_of(self.data[self.at:self.at + size])))
            self.at, self.left = self.at + size, self.left - size
        else:
            self.frames.append((ACTIVATE,))

    def end(self, error=0):
        tag, self.current = self.current[3], None
        if tag is None:
            self.frames.append((REGISTER | (0x510000 if error else 0x500000) | error << 24, 0, 0, 0, 0))
        elif error:
            # DFPDMAQ11: ACT has the bits of commands that have ended and were not reported: none here.
            self.failed, self.commands = (tag, error), []
            self.frames.append((SET_BITS | 0x410000 | error << 24, 0))
        else:
            self.outstanding.discard(tag)
            self.frames.append((SET_BITS | 0x400000, 1 << tag))

    def identity(self):
        words = [0] * 256
        words[75], words[76] = 31, 0x106 if self.queue else 6
        words[83], words[85], words[87] = 0x7400, 1 << 5, 0x4040
        blocks = len(self.data) // BLOCK
        words[100:104] = [blocks >> shift & 0xFFFF for shift in (0, 16, 32, 48)]
        return b"".join(word.to_bytes(2, "little") for word in words)
