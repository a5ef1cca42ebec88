# SPDX-License-Identifier: Apache-2.0 OR MIT
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
INTERRUPT = 0x4000
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
    `lie`: DMA setups that name a tag which is not outstanding; `hold_percent`, `power`: pauses, and requests for a low-power state.

    `does`: errors of the command layer by name, each with the number of the read or write (from 1), or of the command of its kind, that
    meets it. rtl/sata_states.py has the text behind each. `happened` has those that were met.

    fail        it ends with `error`, at the moment `when`: before its data, half through them, or after all
    refuse      it is not accepted: `error`
    mixed       it is not accepted, as if it were no queued command
    fault       from here on each command is aborted with DF, until the power is cycled
    abort XX    the n-th command of this code is aborted
    flush       the n-th flush cannot write a block, and drops it
    restart X   the drive starts again in a state: accepted, data, failed, log, flush
    log X       the queued error log is: refused, silent, damaged, other tag, no setup, no data, no clear
    activate    it can send the first DMA Activate within DMA Setup, if the host enables this
    delay       cycles until a queued command is answered
    collect     ends of queued commands are reported together
    diagnosis   the code in the signature"""

    def __init__(self, dut, blocks, seed, queue=True, hold_percent=0, power=False, refuse=(), spoil=(), lie=(), does=None, when="after",
                 error=0x40):
        self.dut, self.queue, self.hold_percent, self.power = dut, queue, hold_percent, power
        self.refuse, self.spoil, self.lie = set(refuse), set(spoil), set(lie)
        self.does, self.when, self.error, self.happened = dict(does or {}), when, error, set()
        self.random = random.Random(seed)
        self.data, self.unwritten = bytearray(blocks * BLOCK), {}  # the write cache: what the medium has of these blocks
        self.seen = self.sent = self.setups = self.resets = self.naks = self.holds = self.ios = self.clears = self.flushes = 0
        self.now, self.falls, self.broken, self.codes, self.activates = 0, False, False, {}, False
        self.restart()

    def restart(self):
        # Power-on and COMRESET: the signature, with the diagnosis. Commands and the queue are forgotten.
        self.frames = deque([(REGISTER | 0x500000 | self.does.get("diagnosis", 1) << 24, 1, 0, 1, 0)])
        self.commands, self.current, self.unanswered = [], None, None
        self.activates = False
        self.outstanding, self.ended, self.failed = set(), set(), None  # tags; the tag, status and error that the log has
        self.link = self.idle()
        next(self.link)
        self.received, self.last, self.continued = deque(), SYNC, False

    def happens(self, what, number=None):
        """Whether this error of `does` is met, at this number."""
        met = what in self.does and number in (None, self.does[what])
        if met:
            self.happened.add(what)
        return met

    def starts_again(self, where):
        self.falls |= self.happens(f"restart {where}")
        if self.falls:
            self.does.pop(f"restart {where}")
        return self.falls

    def cycle_power(self):
        self.broken = False
        self.falls = True

    # --- Words -----------------------------------------------------------------------------------
    async def run(self):
        down = 20
        for cycle in range(1 << 40):
            await ReadOnly()
            word = (int(self.dut.tx_k.value), int(self.dut.tx_data.value))
            if (int(self.dut.reset.value) or self.falls) and not down:
                down, self.falls = 20, False
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
        self.now = cycle
        if self.unanswered and cycle >= self.unanswered[0]:
            self.accept(self.unanswered[1])
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
            return self.take_data(b"".join(word.to_bytes(4, "little") for word in words[1:]))
        assert words[0] & 0xFF == 0x27 and len(words) == 5, "not a command"
        code = words[0] >> 16 & 0xFF
        lba = words[1] & 0xFFFFFF | (words[2] & 0xFFFFFF) << 24
        queued, io = code in (0x60, 0x61), code in (0x60, 0x61, 0x25, 0x35, 0x3D)
        count = (words[0] >> 24 | words[2] >> 24 << 8) if queued else words[3] & 0xFFFF
        tag = words[3] >> 3 & 31 if queued else None
        fua = code == 0x3D or (queued and words[1] >> 31)
        assert not self.unanswered, "a command while BSY is set"
        self.ios += io
        number = self.ios if io else -1
        self.codes[code] = self.codes.get(code, 0) + 1
        if self.broken or self.happens("fault", number):
            # DEVICE FAULT bit: each command is aborted.
            self.broken = True
            return self.reject(tag, 0x04, 0x71)
        if self.failed:
            # DFPDMAQ13: only READ LOG EXT of the queued error log; others are aborted (DFPDMAQ12).
            if (code, lba & 0xFF) != (0x2F, 0x10):
                return self.status(0x51, 0x04)
            if self.starts_again("log"):
                return None
            # DFPDMAQ14: Set Device Bits with ERR 0 and all bits of ACT discards the queue; then the log.
            self.outstanding.clear()
            if not self.happens("log no clear"):
                self.clears += 1
                self.frames.append((SET_BITS | 0x400000, 0xFFFFFFFF))
            if self.happens("log silent"):
                return None
        assert queued or not self.outstanding, "a command that is not queued while queued ones are outstanding"
        if self.happens("mixed", number):
            return self.reject(0x80, 0x04)  # NQ
        if self.happens("refuse", number):
            return self.reject(tag, self.error)
        if self.happens(f"abort {code:02x}", self.codes[code]) or (code == 0x06 and words[0] >> 24 != 1):  # without TRIM
            return self.reject(tag, 0x04)
        if code == 0xEF and (words[0] >> 24, count) == (0x10, 2):
            self.activates = True
        command = (code, lba, count, tag, self.when if self.happens("fail", number) else None, fua)
        if not queued:
            return self.commands.append(command)
        assert tag not in self.outstanding, "a tag is used twice"
        self.outstanding.add(tag)
        if number > 4 and self.starts_again("accepted"):
            return None
        if self.happens("delay"):
            self.unanswered = (self.now + self.does["delay"], command)
            return None
        return self.accept(command)

    def accept(self, command):
        """DFPDMAQ2: BSY is cleared."""
        self.unanswered = None
        self.commands.append(command)
        self.frames.append((REGISTER | 0x400000, 0, 0, 0, 0))

    def reject(self, tag, error, status=0x51):
        """DFPDMAQ12 for a queued command: the register FIS that clears BSY has ERR."""
        if tag is not None:
            self.stop(tag, status, error)
        self.status(status, error)

    def stop(self, tag, status, error):
        self.failed, self.commands, self.current = (tag, status, error), [], None

    def status(self, status, error=0):
        self.frames.append((REGISTER | INTERRUPT | status << 16 | error << 24, 0, 0, 0, 0))

    def serve(self):
        if not (self.current or self.frames or self.commands or self.unanswered):
            self.report()
        # A queued command that follows its own answer at once would leave no time for the next one to be under way.
        if self.current or self.frames or not self.commands or ("delay" in self.does and self.random.randrange(100)):
            return
        self.current = self.commands.pop(self.random.randrange(len(self.commands)))
        code, lba, count, tag, fails, _ = self.current
        self.at, self.left, self.whole = lba * BLOCK, count * BLOCK, count * BLOCK
        if fails == "before":
            self.end(self.error)
        elif code == 0xEC:
            self.pio(self.identity())
        elif code == 0x2F:
            self.log()
        elif code == 0xEF:
            self.end()
        elif code == 0xEA:
            self.flush()
        elif code == 0x06:
            self.left = BLOCK
            self.more()
        elif tag is not None:
            self.setups += 1
            named = (tag + 9) % 32 if self.setups in self.lie else tag
            flags = 0x2000 if code == 0x60 else 0x8000 if self.activates else 0
            self.frames.append((SETUP | flags, named, 0, 0, 0, self.left, 0))
            if code == 0x60 or not self.activates:
                self.more()
        elif code in (0x25, 0x35, 0x3D):
            self.more()
        else:
            raise AssertionError(f"unknown command {code:02x}")

    def more(self):
        """The next frame of the current command, or its end."""
        code, fails = self.current[0], self.current[4]
        if self.ios > 4 and self.left == self.whole and code in (0x60, 0x61, 0x25, 0x35, 0x3D) and self.starts_again("data"):
            return
        if code in (0xEC, 0x2F):
            self.current = None
        elif (fails == "half" and self.left < self.whole) or (fails == "after" and self.left == 0):
            self.end(self.error)
        elif self.left == 0:
            self.end()
        elif code in (0x60, 0x25):
            size = min(FRAME, self.left)
            self.frames.append((DATA, *words_of(self.data[self.at:self.at + size])))
            self.at, self.left = self.at + size, self.left - size
        else:
            self.frames.append((ACTIVATE,))

    def take_data(self, data):
        assert self.current and len(data) == min(FRAME, self.left), "a data frame of the wrong length"
        code, fua = self.current[0], self.current[5]
        self.left -= len(data)
        if code == 0x06:
            for at in range(0, BLOCK, 8):
                lba, count = int.from_bytes(data[at:at + 6], "little"), int.from_bytes(data[at + 6:at + 8], "little")
                self.data[lba * BLOCK:(lba + count) * BLOCK] = bytes(count * BLOCK)
        elif self.left or self.current[4] != "after":
            for block in range(self.at // BLOCK, (self.at + len(data)) // BLOCK):
                if fua:
                    self.unwritten.pop(block, None)
                else:
                    self.unwritten.setdefault(block, bytes(self.data[block * BLOCK:(block + 1) * BLOCK]))
            self.data[self.at:self.at + len(data)] = data
        self.at += len(data)
        self.more()

    def flush(self):
        if self.starts_again("flush"):
            return
        self.flushes += bool(self.unwritten)
        if self.unwritten and self.happens("flush", self.flushes):
            block = next(iter(self.unwritten))
            self.data[block * BLOCK:(block + 1) * BLOCK] = self.unwritten.pop(block)
            return self.end(0x40)
        self.unwritten.clear()
        self.end()

    def pio(self, data, setup=True):
        if setup:
            self.frames.append((PIO_SETUP | 0x580000, 0, 0, 0x50000000, 512))
        self.frames.append((DATA, *words_of(data)))

    def log(self):
        tag, status, error = self.failed
        self.failed = None
        if self.happens("log refused"):
            return self.end(0x04)
        if self.happens("log no data"):
            self.current = None
            return self.frames.append((PIO_SETUP | 0x580000, 0, 0, 0x50000000, 512))
        if self.happens("log damaged"):
            self.spoil.add(self.sent + 1)
        if self.happens("log other tag"):
            tag = min(set(range(32)) - {tag})
        log = bytes([tag, 0, status, error]) + bytes(507)
        return self.pio(log + bytes([-sum(log) & 0xFF]), not self.happens("log no setup"))  # the sum of all bytes is 0

    def report(self):
        """DFPDMAQ10: the tags that have ended."""
        if self.ended:
            self.frames.append((SET_BITS | INTERRUPT | 0x400000, self.bits()))

    def bits(self):
        bits = sum(1 << tag for tag in self.ended)
        self.outstanding -= self.ended
        self.ended = set()
        return bits

    def end(self, error=0):
        tag, self.current = self.current[3], None
        if tag is None:
            self.status(0x51 if error else 0x50, error)
        elif error and self.unanswered:
            # BSY is set for a command that is not answered: its register FIS reports the error (Serial ATA 2.6, 13.5.4.1).
            self.unanswered = None
            self.happened.add("by answer")
            self.reject(tag, error)
        elif error:
            self.stop(tag, 0x41, error)
            # DFPDMAQ11: ACT has the bits of commands that have ended and were not reported.
            if not self.starts_again("failed"):
                self.frames.append((SET_BITS | INTERRUPT | 0x410000 | error << 24, self.bits()))
        else:
            self.ended.add(tag)
            if not self.happens("collect"):
                self.report()

    def identity(self):
        words = [0] * 256
        words[75], words[76] = 31, 0x106 if self.queue else 6
        words[83], words[84], words[85], words[87] = 0x7400, 0x4020, 1 << 5, 0x4040  # 84: general purpose logging, which a queue needs
        words[78], words[169] = 4 if self.happens("activate") else 0, 1
        blocks = len(self.data) // BLOCK
        words[100:104] = [blocks >> shift & 0xFFFF for shift in (0, 16, 32, 48)]
        return b"".join(word.to_bytes(2, "little") for word in words)
