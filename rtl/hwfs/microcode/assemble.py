#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Assembles the core's microprograms into its control store.

    rtl/hwfs/microcode/assemble.py            writes rtl/hwfs/hwfs_rom.sv
    rtl/hwfs/microcode/assemble.py --check    fails if that file is out of date
    rtl/hwfs/microcode/assemble.py --list     prints addresses, words and sources

A line is a label (`name:`), a constant (`name = expression`) or an instruction:

    mov r1, x                 x is a register, a constant, or md, mdl, mdh: the word of memory that the
    add r1, r2, x             last `ld` read, its low half and its high half; also sub and or xor shl shr
    add r1, x                 andn match byte (ctz, tag and ones have one source). `add r1, x` is `add r1, r1, x`.
                              The first of two sources, also of cmp and tst, can be md, mdl or mdh, too
    cmp r1, x / tst r1, x     flags of r1 - x, r1 & x
    li r1, constant           19 bits; `lin` counts in 1/256 of the longest node
    ld [r1 + constant]        memory; the register can be omitted (r0 is zero)
    st r2, [r1 + constant]    also stl, sth: one half
    b label                   also bz bnz bc bnc, and b.condition, bn.condition; bc after cmp: below
    call label / ret / jump r1 + label
    wait condition            also waitn (until it is false), and wait! without the watchdog
    do.unit r1, r2, constant  starts an engine

An instruction that orders writes (`call order`, `b order`, `do.flush`) ends in the name of its barrier in
crates/volume/src/order.rs: `call order {NodesBeforeReserve}`. The label before it distinguishes barriers of the same name.
`;` begins a comment. `name = r7` names a register.
"""

import argparse
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import depth  # noqa: E402
import isa  # noqa: E402

SOURCES = ("layout.asm", "main.asm", "mount.asm", "names.asm", "map.asm", "data.asm", "sums.asm", "space.asm",
           "leaves.asm", "grow.asm", "change.asm", "short.asm", "recover.asm")
OUTPUT = HERE.parent / "hwfs_rom.sv"
PROGRAM_LOG2 = 12
REGISTER = re.compile(r"r(\d+)$")


class Assembler:
    def __init__(self):
        self.names, self.registers, self.lines, self.labels = {}, {}, [], {}
        self.barriers, self.label = {}, ""  # NAME@LABEL: address

    def read(self, path):
        for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
            text = text.split(";", 1)[0].strip()
            if not text:
                continue
            where = f"{path.name}:{number}"
            if match := re.fullmatch(r"(\w+)\s*=\s*(.+)", text):
                name, value = match.groups()
                if REGISTER.match(value):
                    self.registers[name] = int(value[1:])
                else:
                    self.names[name] = self.value(value, where)
            elif match := re.fullmatch(r"(\w+):", text):
                if match[1] in self.labels:
                    raise SystemExit(f"{where}: duplicate label {match[1]}")
                self.labels[match[1]] = len(self.lines)
                self.label = match[1]
            else:
                self.lines.append((where, self.barrier(text, where)))

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
            return int(eval(text, {"__builtins__": {}}, {**self.names, **self.labels}))  # our own sources
        except Exception as error:
            raise SystemExit(f"{where}: {text}: {error}") from None

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

    def encode(self, where, text):
        mnemonic, _, rest = text.partition(" ")
        args = [arg.strip() for arg in rest.split(",")] if rest.strip() else []
        reg = lambda index: self.register(args[index], where)  # noqa: E731
        if mnemonic in ("mov", "ctz", "tag", "ones"):
            source, value = self.operand(args[1], where)
            return isa.alu(mnemonic, reg(0), 0, 1, source, value)
        if mnemonic in isa.FLAGS_ONLY:
            source, value = self.operand(args[1], where)
            first, number = self.first(args[0], where)
            return isa.alu(isa.FLAGS_ONLY[mnemonic], 0, number, 0, source, value, first)
        if mnemonic in isa.ALU:
            if len(args) == 2:
                args = [args[0], *args]
            source, value = self.operand(args[2], where)
            first, number = self.first(args[1], where)
            return isa.alu(mnemonic, reg(0), number, 1, source, value, first)
        if mnemonic in ("li", "lin"):
            return isa.li(reg(0), self.value(args[1], where), mnemonic == "lin")
        if mnemonic == "ld":
            return isa.ld(*self.place(args[0], where))
        if mnemonic in ("st", "stl", "sth"):
            return isa.st(reg(0), *self.place(args[1], where), {"st": 3, "stl": 1, "sth": 2}[mnemonic])
        branches = {"b": ("always", 0), "bz": ("zero", 0), "bnz": ("zero", 1), "bc": ("carry", 0), "bnc": ("carry", 1)}
        if mnemonic in branches:
            return isa.br(*branches[mnemonic], self.value(args[0], where))
        if mnemonic.startswith(("b.", "bn.")):
            head, _, condition = mnemonic.partition(".")
            return isa.br(condition, head == "bn", self.value(args[0], where))
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
            return isa.jump(self.register(base.strip(), where), self.value(label, where))
        raise SystemExit(f"{where}: unknown instruction `{mnemonic}`")

    def words(self):
        result = []
        for where, text in self.lines:
            try:
                result.append(self.encode(where, text))
            except (ValueError, KeyError, IndexError) as error:
                raise SystemExit(f"{where}: {text}: {error}") from None
        return result


def assemble():
    assembler = Assembler()
    for source in SOURCES:
        assembler.read(HERE / source)
    words = assembler.words()
    chain = depth.deepest(assembler)
    if len(chain) > depth.STACK_DEPTH:
        raise SystemExit(f"calls nest {len(chain)} deep, but the stack has {depth.STACK_DEPTH} entries: " + ", ".join(chain))
    if len(words) > 1 << PROGRAM_LOG2:
        raise SystemExit(f"{len(words)} instructions, but the control store has {1 << PROGRAM_LOG2} words")
    return assembler, words


def module(words):
    entries = [f"12'd{address}: word = 36'h{word:09x};" for address, word in enumerate(words)]
    lines = "\n".join("      " + " ".join(entries[at:at + 6]) for at in range(0, len(entries), 6))
    return f"""// SPDX-License-Identifier: Apache-2.0 OR MIT
// The control store. Generated by microcode/assemble.py from microcode/*.asm; do not edit.
//
// ProgramLog2  log2 of the number of instructions
module hwfs_rom #(
  parameter int unsigned ProgramLog2 = {PROGRAM_LOG2}
) (
  input  logic                   clk_i,
  input  logic                   read_i,
  input  logic [ProgramLog2-1:0] address_i,
  output logic [35:0]            instr_o
);
  logic [35:0] word;
  always_comb begin
    unique case (12'(address_i))
{lines}
      default: word = '0;
    endcase
  end

  always_ff @(posedge clk_i) if (read_i) instr_o <= word;
endmodule
"""


def image(words):
    """The words in the format of $readmemh."""
    return "".join(f"{word:09x}\n" for word in words)


def main():
    parser = argparse.ArgumentParser(description="Assembles the microprogram into hwfs_rom.sv.")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="print addresses, words and sources")
    action.add_argument("--check", action="store_true", help="fail if hwfs_rom.sv is out of date")
    action.add_argument("--barriers", action="store_true", help="print the names of the barriers")
    action.add_argument("--image", metavar="FILE",
                        help="write it for a simulation that loads it (rtl/sim/loaded/hwfs_rom.sv)")
    parser.add_argument("--without", metavar="NAME@LABEL", help="with --image: omit the flush of this barrier")
    arguments = parser.parse_args()
    assembler, words = assemble()
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
    elif arguments.check:
        if OUTPUT.read_text("utf-8") != module(words):
            sys.exit("hwfs_rom.sv is out of date; hint: run rtl/hwfs/microcode/assemble.py")
    else:
        OUTPUT.write_text(module(words), "utf-8")


if __name__ == "__main__":
    main()
