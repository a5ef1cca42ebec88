# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The sequencer's instruction set: the codes of hwfs_pkg.sv, and the encoding of instructions."""

ALU = {name: code for code, name in enumerate(
    ("mov", "add", "sub", "and", "or", "xor", "shl", "shr", "andn", "ctz", "match", "tag", "byte", "ones"))}
# Operations that only set flags.
FLAGS_ONLY = {"cmp": "sub", "tst": "and"}
FROM = {"reg": 0, "md": 1, "mdl": 2, "mdh": 3}
SOURCES = {"reg": 0, "imm": 1, "md": 2, "mdl": 3, "mdh": 4}
CONDITIONS = {name: code for code, name in enumerate(
    ("always", "zero", "carry", "command", "loaded", "good", "part", "sent", "written", "flushed", "fetched",
     "drained", "sealed", "error", "answered", "ready", "hashed", "head", "begun", "taken", "given"))}
UNITS = {name: code for code, name in enumerate(
    ("respond", "load", "store", "flush", "seal", "shape", "identity", "readto", "fetch", "writeto", "put", "emit",
     "abort", "edges", "sum"))}
KINDS = {name: code for code, name in enumerate(
    ("alu", "li", "ld", "st", "br", "call", "ret", "wait", "do", "jump"))}


def field(value, bits, signed=False):
    """The value as a field of `bits` bits; ValueError if it does not fit."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise ValueError(f"{value} does not fit {bits} bits")
    return value & ((1 << bits) - 1)


def registers(rd, ra):
    """The register fields of an instruction: the low four bits of both are adjacent, the fifth bits above the kind."""
    return (rd & 15) << 20 | (ra & 15) << 16 | rd >> 4 << 32 | ra >> 4 << 33


def alu(operation, rd, ra, write, source, operand, first="reg"):
    word = KINDS["alu"] << 28 | ALU[operation] << 24 | registers(rd, ra) | write << 15 | SOURCES[source] << 12
    word |= FROM[first] << 34
    return word | (operand if source == "reg" else field(operand, 12, signed=True))


def li(rd, value, scaled=False):
    return KINDS["li"] << 28 | registers(rd, 0) | int(scaled) << 19 | field(value, 19, signed=not scaled)


def ld(ra, offset):
    return KINDS["ld"] << 28 | registers(0, ra) | field(offset, 12)


def st(rb, ra, offset, halves):
    return KINDS["st"] << 28 | registers(rb, ra) | halves << 14 | field(offset, 12)


def br(condition, inverted, target):
    return KINDS["br"] << 28 | CONDITIONS[condition] << 23 | int(inverted) << 22 | field(target, 12)


def call(target):
    return KINDS["call"] << 28 | field(target, 12)


def ret():
    return KINDS["ret"] << 28


def wait(condition, inverted, unwatched):
    return KINDS["wait"] << 28 | CONDITIONS[condition] << 23 | int(inverted) << 22 | int(unwatched) << 21


def do(unit, ra, rb, immediate):
    return KINDS["do"] << 28 | UNITS[unit] << 24 | registers(rb, ra) | field(immediate, 12)


def jump(ra, target):
    return KINDS["jump"] << 28 | registers(0, ra) | field(target, 12)
