# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The sequencer's instruction set: the codes of hwfs_pkg.sv, and the encoding of instructions."""

ALU = {name: code for code, name in enumerate(
    ("mov", "add", "sub", "and", "or", "xor", "shl", "shr", "andn", "ctz", "match", "tag", "byte", "ones"))}
# Operations that only set flags.
FLAGS_ONLY = {"cmp": "sub", "tst": "and"}
FROM = {"reg": 0, "md": 1, "mdl": 2, "mdh": 3}
SOURCES = {"reg": 0, "imm": 1, "md": 2, "mdl": 3, "mdh": 4, "long": 5, "scaled": 6}
CONDITIONS = {name: code for code, name in enumerate(
    ("always", "zero", "carry", "command", "loaded", "good", "part", "sent", "written", "flushed", "fetched",
     "drained", "sealed", "error", "answered", "ready", "hashed", "head", "begun", "taken", "given"))}
UNITS = {name: code for code, name in enumerate(
    ("respond", "load", "store", "flush", "seal", "shape", "identity", "readto", "fetch", "writeto", "put", "emit",
     "abort", "edges", "sum"))}
KINDS = {"alu": 0, "li": 1, "ld": 2, "st": 3, "br": 4, "wait": 5, "do": 6, "jump": 7, "likely": 8, "call": 9, "ret": 12}
# Of branches, calls and jumps: a control store has at most this many words (log2). Bit 12 is free in all of them.
TARGET_BITS = 13


def field(value, bits, signed=False):
    """The value as a field of `bits` bits; ValueError if it does not fit."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise ValueError(f"{value} does not fit {bits} bits")
    return value & ((1 << bits) - 1)


def registers(rd, ra):
    """The register fields of an instruction: the low four bits of both are adjacent, the fifth bits above the kind."""
    return (rd & 15) << 20 | (ra & 15) << 16 | rd >> 4 << 32 | ra >> 4 << 33


# The first or the second register operand is what the instruction before this one writes.
FRESH_FIRST, FRESH_SECOND = 1 << 15, 1 << 11


def alu(operation, rd, ra, source, operand, first="reg"):
    """With rd 0 it only sets the flags."""
    word = KINDS["alu"] << 28 | ALU[operation] << 24 | registers(rd, ra) | SOURCES[source] << 12
    word |= FROM[first] << 34
    return word | (operand if source == "reg" else field(operand, 12, signed=True))


def li(rd, value, scaled=False):
    """Bits 0 to 11 of the constant are those of a `mov`; 12 to 15, 16, and 17 and 18 are in the fields of the first operand."""
    value = field(value, 19, signed=not scaled)
    word = KINDS["li"] << 28 | registers(rd, value >> 12 & 31) | value >> 17 << 34
    return word | SOURCES["scaled" if scaled else "long"] << 12 | value & 0xfff


def ld(ra, offset, early=False, waits=False):
    return KINDS["ld"] << 28 | registers(0, ra) | int(waits) << 13 | int(early) << 12 | field(offset, 12)


def st(rb, ra, offset, halves):
    if offset % 8:
        raise ValueError(f"{offset} is not a multiple of 8")
    offset = field(offset, 12)
    return KINDS["st"] << 28 | halves << 26 | registers(offset >> 9, ra) | (offset >> 3 & 63) << 5 | rb


def br(condition, inverted, target, likely=False):
    return KINDS["likely" if likely else "br"] << 28 | CONDITIONS[condition] << 23 | int(inverted) << 22 | field(target, TARGET_BITS)


def call(target):
    return KINDS["call"] << 28 | field(target, TARGET_BITS)


def ret():
    return KINDS["ret"] << 28


def wait(condition, inverted, unwatched):
    return KINDS["wait"] << 28 | CONDITIONS[condition] << 23 | int(inverted) << 22 | int(unwatched) << 21


def do(unit, ra, rb, immediate):
    return KINDS["do"] << 28 | UNITS[unit] << 24 | registers(0, ra) | field(immediate, 6) << 5 | rb


def jump(ra, target, first="reg"):
    return KINDS["jump"] << 28 | registers(0, ra) | field(target, TARGET_BITS) | FROM[first] << 34
