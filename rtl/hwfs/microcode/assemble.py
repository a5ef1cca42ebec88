#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Assembles the core's microprograms into its control stores.

    rtl/hwfs/microcode/assemble.py            writes rtl/hwfs/hwfs_rom.sv and rtl/hwfs/hwfs_rom_grown.sv
    rtl/hwfs/microcode/assemble.py --check    fails if one of them is out of date
    rtl/hwfs/microcode/assemble.py --list     prints addresses, words and sources; of the second program with --grown

There are two programs: of up to 4,096 words, for volumes of format 1.0, and of up to 8,192, for tables that have grown, too.

A line is a label (`name:`), a constant (`name = expression`) or an instruction:

    mov r1, x                 x is a register, a constant, or md, mdl, mdh: the word of memory that the
    add r1, r2, x             last `ld` read, its low half and its high half; also sub and or xor shl shr
    add r1, x                 andn match byte (ctz, tag and ones have one source). `add r1, x` is `add r1, r1, x`.
                              The first of two sources, also of cmp and tst, can be md, mdl or mdh, too
    cmp r1, x / tst r1, x     flags of r1 - x, r1 & x
    li r1, constant           19 bits; `lin` counts in 1/256 of the longest node
    ld [r1 + constant]        memory; the register can be omitted (r0 is zero)
    st r2, [r1 + constant]    also stl, sth: one half
    b label                   also bz bnz bc bnc, and b.condition, bn.condition; bc after cmp: below. A branch back in its file is
                              expected to be taken, any other is not, unless `likely` or `unlikely` follows the label
    call label / ret / jump r1 + label (by the low four bits; also mdl)
    wait condition            also waitn (until it is false), and wait! without the watchdog
    do.unit r1, r2, constant  starts an engine

An instruction that orders writes (`call order`, `b order`, `do.flush`) ends in the name of its barrier in
crates/volume/src/order.rs: `call order {NodesBeforeReserve}`. The label before it distinguishes barriers of the same name.
`;` begins a comment. `name = r7` names a register.

A line that begins with `@grown` is only in the second program, one with `@plain` only in the first. The second one has the files of
`TWICE` two times: as they are, for volumes whose table has not grown, so that these cost no cycle more; and with the lines that begin
with `@any`, without those that begin with `@near`, for the others. Labels of this copy end in `_any`, and a name in it means the
label of that kind, where there is one.
"""

import argparse
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import depth  # noqa: E402
import isa  # noqa: E402

SOURCES = ("layout.asm", "main.asm", "mount.asm", "names.asm", "map.asm", "get.asm", "data.asm", "sums.asm", "space.asm",
           "leaves.asm", "grow.asm", "change.asm", "short.asm", "recover.asm")
TWICE = ("get.asm", "short.asm")
COPY = "_any"
OUTPUT = HERE.parent / "hwfs_rom.sv"
OUTPUT_GROWN = HERE.parent / "hwfs_rom_grown.sv"
PROGRAM_LOG2 = 12
ENTRIES = 2  # at the start of main.asm: after a reset, and after a time-out
REGISTER = re.compile(r"r(\d+)$")


class Assembler:
    def __init__(self, grown=False, hole=0):
        self.grown = grown
        self.hole = hole  # words between the entries, which have their places, and everything else
        self.names, self.registers, self.lines, self.labels = {}, {}, [], {}
        self.barriers, self.label = {}, ""  # NAME@LABEL: address

    def read(self, path, copy=""):
        """Adds a file; with `copy`, a second time, with this at the end of its labels."""
        wanted = {"@grown": self.grown, "@plain": not self.grown, "@any": bool(copy), "@near": not copy}
        for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
            text = text.split(";", 1)[0].strip()
            if not text:
                continue
            where = f"{path.name}{copy}:{number}"
            if text.startswith("@"):
                mark, _, text = text.partition(" ")
                if mark not in wanted:
                    raise SystemExit(f"{where}: {mark} is none of {', '.join(wanted)}")
                if not wanted[mark]:
                    continue
                text = text.strip()
            if match := re.fullmatch(r"(\w+)\s*=\s*(.+)", text):
                name, value = match.groups()
                if REGISTER.match(value):
                    self.registers[name] = int(value[1:])
                elif name in self.names:
                    raise SystemExit(f"{where}: duplicate constant {name}")
                else:
                    self.names[name] = self.value(value, where)
            elif match := re.fullmatch(r"(\w+):", text):
                self.label = match[1] + copy
                if self.label in self.labels:
                    raise SystemExit(f"{where}: duplicate label {self.label}")
                self.labels[self.label] = len(self.lines)
            else:
                self.lines.append((where, self.barrier(text, where)))
                if len(self.lines) == ENTRIES:
                    self.lines += [(where, "mov r1, r1")] * self.hole

    def barrier(self, text, where):
        """The instruction without its barrier's name, which every instruction that orders writes has, except in `order`."""
        text, _, name = text.partition("{")
        text = re.sub(r"\s+", " ", text.strip())
        orders = text in ("call order", "b order") or text.startswith("do.flush")
        if orders != bool(name) and self.label != "order":
            raise SystemExit(f"{where}: {text}: an instruction has a barrier's name if and only if it orders writes")
        if name:
            key = f"{name.rstrip('}').strip()}@{self.label}"
            if key in self.barriers:
                raise SystemExit(f"{where}: duplicate barrier {key}")
            self.barriers[key] = len(self.lines)
        return text

    def without(self, key):
        """Makes this barrier wait without a flush."""
        where, text = self.lines[self.barriers[key]]
        text = "mov r1, r1" if text.startswith("do.flush") else text.replace("order", "order_wait")
        self.lines[self.barriers[key]] = where, text

    def value(self, text, where):
        try:
            return int(eval(text, {"__builtins__": {}}, self.known(where)))  # our own sources
        except Exception as error:
            raise SystemExit(f"{where}: {text}: {error}") from None

    def known(self, where):
        """The values of names, in a file's second copy those of the labels of this kind first."""
        known = {**self.names, **self.labels}
        if COPY in where:
            known |= {name.removesuffix(COPY): address for name, address in self.labels.items() if name.endswith(COPY)}
        return known

    def register(self, text, where):
        number = self.registers.get(text)
        if number is None:
            match = REGISTER.match(text)
            number = int(match[1]) if match else 99
        if number > 31:
            raise SystemExit(f"{where}: {text} is not a register")
        return number

    def is_register(self, text):
        return text in self.registers or REGISTER.match(text) is not None

    def operand(self, text, where):
        if self.is_register(text):
            return "reg", self.register(text, where)
        if text in ("md", "mdl", "mdh"):
            return text, 0
        return "imm", self.value(text, where)

    def first(self, text, where):
        return (text, 0) if text in isa.FROM else ("reg", self.register(text, where))

    def place(self, text, where):
        inner = re.fullmatch(r"\[(.+)\]", text)
        if not inner:
            raise SystemExit(f"{where}: {text} is not a memory operand")
        base, offset = 0, []
        for part in re.split(r"\s*\+\s*", inner[1].strip()):
            if self.is_register(part):
                base = self.register(part, where)
            else:
                offset.append(part)
        return base, self.value("+".join(offset) or "0", where)

    def expected(self, text, at, where, always=False):
        """A branch's target, and whether it is expected to be taken: back in its own file, unless the source says otherwise."""
        label, _, mark = text.partition(" ")
        if mark not in ("", "likely", "unlikely") or (mark and always):
            raise SystemExit(f"{where}: {text}: `likely` or `unlikely` may follow the label of a branch with a condition")
        target = self.value(label, where)
        loops = target <= at and self.lines[target][0].partition(":")[0] == where.partition(":")[0]
        return target, always or (mark == "likely" if mark else loops)

    def location(self, text, where):
        """A memory operand, with the node that has always the same place, SLOT, as a constant address."""
        base, offset = self.place(text, where)
        if base and base == self.registers.get("snode"):
            base, offset = 0, self.names["NODES"] + offset
        return base, offset

    def uses_word(self, at):
        """Whether an instruction uses the word that the last load read."""
        return at < len(self.lines) and re.search(r"[ ,]md[lh]?( |,|$)", self.lines[at][1]) is not None

    def delays(self, at, offset):
        """Whether the instruction before a load of the constant address `offset` keeps it from being read early: it is a load
        that is not, which has the memory's port, or a store that may change the word. Whatever comes before by a branch, a
        call or a return, that comes between."""
        if at == 0:
            return False
        where, text = self.lines[at - 1]
        mnemonic, _, rest = text.partition(" ")
        if mnemonic not in ("ld", "st", "stl", "sth"):
            return False
        base, other = self.location(rest.split(",")[-1].strip(), where)
        if mnemonic == "ld":
            return base != 0 or self.delays(at - 1, other)
        nodes = [self.registers.get(name) for name in ("work", "spare")]
        return other >> 3 == offset >> 3 if base == 0 else base not in nodes or offset >= self.names["NODES"]

    def encode(self, at, where, text):
        mnemonic, _, rest = text.partition(" ")
        args = [arg.strip() for arg in rest.split(",")] if rest.strip() else []
        reg = lambda index: self.register(args[index], where)  # noqa: E731
        if mnemonic in ("mov", "ctz", "tag", "ones"):
            source, value = self.operand(args[1], where)
            return isa.alu(mnemonic, self.written(args[0], where), 0, source, value)
        if mnemonic in isa.FLAGS_ONLY:
            source, value = self.operand(args[1], where)
            first, number = self.first(args[0], where)
            return isa.alu(isa.FLAGS_ONLY[mnemonic], 0, number, source, value, first)
        if mnemonic in isa.ALU:
            if len(args) == 2:
                args = [args[0], *args]
            source, value = self.operand(args[2], where)
            first, number = self.first(args[1], where)
            return isa.alu(mnemonic, self.written(args[0], where), number, source, value, first)
        if mnemonic in ("li", "lin"):
            return isa.li(reg(0), self.value(args[1], where), mnemonic == "lin")
        if mnemonic == "ld":
            base, offset = self.location(args[0], where)
            early = base == 0 and not self.delays(at, offset)
            return isa.ld(base, offset, early, waits=not early and self.uses_word(at + 1))
        if mnemonic in ("st", "stl", "sth"):
            return isa.st(reg(0), *self.place(args[1], where), {"st": 3, "stl": 1, "sth": 2}[mnemonic])
        branches = {"b": ("always", 0), "bz": ("zero", 0), "bnz": ("zero", 1), "bc": ("carry", 0), "bnc": ("carry", 1)}
        if mnemonic in branches:
            return isa.br(*branches[mnemonic], *self.expected(args[0], at, where, mnemonic == "b"))
        if mnemonic.startswith(("b.", "bn.")):
            head, _, condition = mnemonic.partition(".")
            return isa.br(condition, head == "bn", *self.expected(args[0], at, where))
        if mnemonic == "call":
            return isa.call(self.value(args[0], where))
        if mnemonic == "ret":
            return isa.ret()
        if mnemonic in ("wait", "waitn", "wait!"):
            return isa.wait(args[0], mnemonic == "waitn", mnemonic == "wait!")
        if mnemonic.startswith("do."):
            args += ["r0"] * (2 - len(args)) if len(args) < 2 else []
            immediate = self.value(args[2], where) if len(args) > 2 else 0
            return isa.do(mnemonic[3:], reg(0), reg(1), immediate)
        if mnemonic == "jump":
            base, _, label = args[0].partition("+")
            first, number = self.first(base.strip(), where)
            return isa.jump(number, self.value(label, where), first)
        raise SystemExit(f"{where}: unknown instruction `{mnemonic}`")

    def written(self, text, where):
        """A register that an instruction of the ALU writes."""
        number = self.register(text, where)
        if number == 0:
            raise SystemExit(f"{where}: r0 stays zero: only `li` writes it")
        return number

    def fresh(self, at):
        """Bits of an instruction whose operands the one before it writes. Where something else comes before by a branch, a
        call or a return, the sequencer does not take them for that."""
        result = [self.register(text.partition(" ")[2].split(",")[0].strip(), where)
                  for where, text in self.lines[max(at - 1, 0):at]
                  if text.partition(" ")[0] in (*isa.ALU, "li", "lin")]
        where, text = self.lines[at]
        mnemonic, _, rest = text.partition(" ")
        args = [arg.strip() for arg in rest.split(",")] if rest.strip() else []
        first = second = ""
        if mnemonic in ("mov", "ctz", "tag", "ones"):
            second = args[1]
        elif mnemonic in isa.FLAGS_ONLY or mnemonic in isa.ALU:
            first, second = args[-2:]
        elif mnemonic in ("st", "stl", "sth"):
            first, second = f"r{self.place(args[1], where)[0]}", args[0]
        elif mnemonic == "ld":
            first = f"r{self.location(args[0], where)[0]}"
        elif mnemonic.startswith("do."):
            first, second = (args + ["r0"] * 2)[:2]
        elif mnemonic == "jump":
            first = rest.partition("+")[0].strip()
        is_fresh = [self.is_register(one) and self.register(one, where) in result for one in (first, second)]
        return is_fresh[0] * isa.FRESH_FIRST | is_fresh[1] * isa.FRESH_SECOND

    def words(self):
        result = []
        for at, (where, text) in enumerate(self.lines):
            try:
                result.append(self.encode(at, where, text) | self.fresh(at))
            except (ValueError, KeyError, IndexError) as error:
                raise SystemExit(f"{where}: {text}: {error}") from None
        return result


def assemble(grown=False, hole=0):
    """The program for volumes of format 1.0, or with `grown` the one for grown tables, too."""
    assembler = Assembler(grown, hole)
    for source in SOURCES:
        assembler.read(HERE / source)
    if grown:
        assembler.read(HERE / "grown.asm")
        for source in TWICE:
            assembler.read(HERE / source, COPY)
    words = assembler.words()
    chain = depth.deepest(assembler)
    if len(chain) > depth.STACK_DEPTH:
        raise SystemExit(f"calls nest {len(chain)} deep, but the stack has {depth.STACK_DEPTH} entries: " + ", ".join(chain))
    most = 1 << (isa.TARGET_BITS if grown or hole else PROGRAM_LOG2)
    if len(words) > most:
        raise SystemExit(f"{len(words)} instructions, but the control store has {most} words")
    return assembler, words


def cases(name, log2, width, values, digits, each):
    entries = [f"{log2}'d{address}: {name} = {width}'h{value:0{digits}x};" for address, value in values]
    return "\n".join("      " + " ".join(entries[at:at + each]) for at in range(0, len(entries), each))


def tables(words, log2, low="low", high="high"):
    """The words at `address_i`, in two memories."""
    wide = 2 if log2 > PROGRAM_LOG2 else 1
    lows = cases(low, log2, 32, enumerate(word & 0xffffffff for word in words), 8, 8 * wide)
    highs = cases(high, log2, 4, enumerate(word >> 32 for word in words), 1, 20 * wide)
    return f"""  always_comb begin
    unique case ({log2}'(address_i))
{lows}
      default: {low} = '0;
    endcase
  end

  always_comb begin
    unique case ({log2}'(address_i))
{highs}
      default: {high} = '0;
    endcase
  end
"""


def module(words):
    """The control store, with the first program."""
    return f"""// SPDX-License-Identifier: Apache-2.0 OR MIT
// The control store. Generated by microcode/assemble.py from microcode/*.asm; do not edit.
//
// Two memories, of 32 bits and of 4: of one with 36 bits, an ECP5's block RAM would need a multiplexer behind it.
//
// ProgramLog2  log2 of the number of instructions: 13 for those of hwfs_rom_grown
module hwfs_rom #(
  parameter int unsigned ProgramLog2 = {PROGRAM_LOG2}
) (
  input  logic                   clk_i,
  input  logic                   read_i,
  input  logic [ProgramLog2-1:0] address_i,
  output logic [35:0]            instr_o
);
  logic [31:0] low;
  logic [3:0]  high;
  if (ProgramLog2 == {PROGRAM_LOG2}) begin : gen_plain
{tables(words, PROGRAM_LOG2)}  end else begin : gen_grown
    hwfs_rom_grown u_words (.address_i, .low_o(low), .high_o(high));
  end

  always_ff @(posedge clk_i) if (read_i) instr_o[31:0] <= low;
  always_ff @(posedge clk_i) if (read_i) instr_o[35:32] <= high;
endmodule
"""


def module_grown(words):
    """The words of the second program."""
    return f"""// SPDX-License-Identifier: Apache-2.0 OR MIT
// The words of the control store of the program for grown tables, too. Generated by microcode/assemble.py; do not edit.
module hwfs_rom_grown (
  input  logic [{isa.TARGET_BITS - 1}:0] address_i,
  output logic [31:0] low_o,
  output logic [3:0]  high_o
);
{tables(words, isa.TARGET_BITS, "low_o", "high_o")}endmodule
"""


def image(words):
    """The words in the format of $readmemh."""
    return "".join(f"{word:09x}\n" for word in words)


def main():
    parser = argparse.ArgumentParser(description="Assembles the microprograms into hwfs_rom.sv and hwfs_rom_grown.sv.")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="print addresses, words and sources")
    action.add_argument("--check", action="store_true", help="fail if one of the two is out of date")
    action.add_argument("--barriers", action="store_true", help="print the names of the barriers")
    action.add_argument("--image", metavar="FILE",
                        help="write it for a simulation that loads it (rtl/sim/loaded/hwfs_rom.sv)")
    parser.add_argument("--without", metavar="NAME@LABEL", help="with --image: omit the flush of this barrier")
    parser.add_argument("--grown", action="store_true", help="the program for grown tables, too")
    arguments = parser.parse_args()
    assembler, words = assemble(arguments.grown)
    if arguments.without:
        if arguments.without not in assembler.barriers or not arguments.image:
            parser.error(f"--without {arguments.without!r}: unknown barrier, or no --image; hint: --barriers prints the names")
        assembler.without(arguments.without)
        words = assembler.words()
    if arguments.barriers:
        print("\n".join(assembler.barriers))
    elif arguments.image:
        Path(arguments.image).write_text(image(words), "utf-8")
    elif arguments.list:
        labels = {}
        for name, address in assembler.labels.items():
            labels.setdefault(address, []).append(name)
        for address, (word, (where, text)) in enumerate(zip(words, assembler.lines)):
            for name in labels.get(address, []):
                print(f"{name}:")
            print(f"  {address:4} {word:09x}  {text:40} {where}")
        print(f"{len(words)} instructions, {len(depth.deepest(assembler))} calls deep")
    else:
        for output, text in ((OUTPUT, module(assemble()[1])), (OUTPUT_GROWN, module_grown(assemble(grown=True)[1]))):
            if not arguments.check:
                output.write_text(text, "utf-8")
            elif output.read_text("utf-8") != text:
                sys.exit(f"{output.name} is out of date; hint: run rtl/hwfs/microcode/assemble.py")


if __name__ == "__main__":
    main()
