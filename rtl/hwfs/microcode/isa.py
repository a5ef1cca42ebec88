"""The sequencer's instruction set: the numbers of hwfs_pkg.sv, and how an instruction is packed."""

ALU = {name: code for code, name in enumerate(
    ("mov", "add", "sub", "and", "or", "xor", "shl", "shr", "andn", "ctz", "match"))}
# Operations that only set flags.
FLAGS_ONLY = {"cmp": "sub", "tst": "and"}
SOURCES = {"reg": 0, "imm": 1, "md": 2, "mdl": 3, "mdh": 4}
CONDITIONS = {name: code for code, name in enumerate(
    ("always", "zero", "carry", "command", "loaded", "good", "part", "sent", "written", "flushed", "fetched",
     "drained", "sealed", "error", "answered", "ready", "hashed"))}
UNITS = {name: code for code, name in enumerate(
    ("respond", "load", "store", "flush", "seal", "shape", "identity", "readto", "fetch", "writeto", "put", "emit",
     "abort", "edges"))}
KINDS = {name: code for code, name in enumerate(
    ("alu", "li", "ld", "st", "br", "call", "ret", "wait", "do", "jump"))}


def field(value, bits, signed=False):
    """The value as so many bits; ValueError where it does not fit."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise ValueError(f"{value} does not fit {bits} bits")
    return value & ((1 << bits) - 1)


def alu(operation, rd, ra, write, source, operand):
    word = KINDS["alu"] << 28 | ALU[operation] << 24 | rd << 20 | ra << 16 | write << 15 | SOURCES[source] << 12
    return word | (operand if source == "reg" else field(operand, 12, signed=True))


def li(rd, value, scaled=False):
    return KINDS["li"] << 28 | rd << 20 | int(scaled) << 19 | field(value, 19, signed=not scaled)


def ld(ra, offset):
    return KINDS["ld"] << 28 | ra << 16 | field(offset, 12)


def st(rb, ra, offset, halves):
    return KINDS["st"] << 28 | rb << 20 | ra << 16 | halves << 14 | field(offset, 12)


def br(condition, inverted, target):
    return KINDS["br"] << 28 | CONDITIONS[condition] << 23 | int(inverted) << 22 | field(target, 12)


def call(target):
    return KINDS["call"] << 28 | field(target, 12)


def ret():
    return KINDS["ret"] << 28


def wait(condition, inverted, unwatched):
    return KINDS["wait"] << 28 | CONDITIONS[condition] << 23 | int(inverted) << 22 | int(unwatched) << 21


def do(unit, ra, rb, immediate):
    return KINDS["do"] << 28 | UNITS[unit] << 24 | rb << 20 | ra << 16 | field(immediate, 12)


def jump(ra, target):
    return KINDS["jump"] << 28 | ra << 16 | field(target, 12)
