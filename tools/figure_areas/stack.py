# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The deepest stack of a RISC-V program, from its machine code: each function's frame and the calls
between them. No run is needed, and nothing is guessed: a call through a register may go to every function
that is never called directly, and a program with recursion is reported as unbounded."""

import re
import subprocess

OBJDUMP = "riscv64-unknown-elf-objdump"
FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)(?:\s+(.*))?$")
SMALL = re.compile(r"^sp,sp,-(\d+)$")
ROUTINE = re.compile(r"^__riscv_(save|restore)_\d+$")
LARGE = re.compile(r"^sp,sp,(\w+)$")


class Unbounded(Exception):
    """Why there is no bound."""


def functions(program):
    """{address: (name, frame bytes, {addresses called}, calls through a register)}."""
    command = [OBJDUMP, "-d", "--no-show-raw-insn", str(program)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found, lines, taken = {}, listing.splitlines(), set()
    start = name = None
    sets_top = False
    for line in lines:
        head = FUNCTION.match(line)
        if head:
            start, name = int(head[1], 16), head[2]
            # Labels inside a function are not functions: the assembler's local ones begin with a dot or digit.
            found[start] = [name, 0, set(), []]
            registers = {}
            continue
        part = LINE.match(line)
        if not part or start is None:
            continue
        _, operation, operands = part[1], part[2], (part[3] or "").split("#")[0].split("<")[0].strip()
        entry = found[start]
        # The stack's top is an address in two parts, of which the lower one may be negative: no frame.
        is_top, sets_top = sets_top, operation in ("lui", "auipc") and operands.startswith("sp,")
        constant(registers, operation, operands)
        taken.update(registers.values())
        if operation in ("add", "addi", "c.addi16sp") and (small := SMALL.match(operands)):
            entry[1] += 0 if is_top else int(small[1])
        elif operation == "sub" and (large := LARGE.match(operands)):
            if large[1] not in registers:
                raise Unbounded(f"{name}: a frame of unknown size")
            entry[1] += registers[large[1]]
        elif operation in ("jal", "j", "call", "tail", "beq", "bne", "beqz", "bnez", "bltu", "bgeu", "blt", "bge",
                           "bltz", "bgez", "blez", "bgtz"):
            target = re.search(r"([0-9a-f]{6,})$", operands)
            # A jump to its own beginning is a loop; a call of it would be recursion.
            if target and (operation in ("jal", "call") or int(target[1], 16) != start):
                entry[2].add(int(target[1], 16))
        elif operation in ("jalr", "jr"):
            entry[3].append(f"{name}: {operation} {operands}")
    inline_routines(found)
    return found, taken & set(found)


def inline_routines(found):
    """Counts what the routines at a function's beginning and end do as the function's own: one makes its frame."""
    routines = {address: entry for address, entry in found.items() if ROUTINE.match(entry[0])}
    for address in routines:
        del found[address]
    for entry in found.values():
        called = entry[2] & routines.keys()
        entry[1] += sum(routines[address][1] for address in called)
        entry[2] -= called


def constant(registers, operation, operands):
    """Tracks the value of a register as far as frames need it: lui, li, addi and slli."""
    words = operands.split(",")
    if operation == "lui" and len(words) == 2:
        registers[words[0]] = int(words[1], 16) << 12
    elif operation == "li" and len(words) == 2:
        registers[words[0]] = int(words[1], 0)
    elif operation in ("add", "addi", "addiw") and len(words) == 3 and re.fullmatch(r"-?\d+", words[2]):
        base = registers.get(words[1])
        if base is None:
            registers.pop(words[0], None)
        else:
            registers[words[0]] = base + int(words[2])
    elif operation in ("sll", "slli") and len(words) == 3 and words[1] in registers and words[2].startswith("0x"):
        registers[words[0]] = registers[words[1]] << int(words[2], 16)
    elif words and words[0] in registers and operation not in ("sw", "sd", "sub", "beqz", "bnez"):
        registers.pop(words[0])


def link_pointers(found, taken, roots):
    """Lets each call through a register reach every function whose address is taken (it is put into a
    register, or it is never called). A jump without a link is a table jump or a return."""
    called = set().union(*(entry[2] for entry in found.values()))
    targets = taken | {address for address in found if address not in called}
    targets -= {address for address, entry in found.items() if entry[0] in roots}
    for address, entry in found.items():
        if any(": jalr " in text and not text.endswith(" ra") for text in entry[3]):
            entry[2] |= targets - {address}


def deepest(program, roots, interrupt=None):
    """(bytes, names of the deepest path), from `roots`; an interrupt's stack comes on top."""
    found, taken = functions(program)
    link_pointers(found, taken, {*roots, interrupt})
    by_name = {entry[0]: address for address, entry in found.items()}
    starts = sorted(found)
    depth, state = {}, {}

    def owner(address):
        import bisect
        return starts[bisect.bisect_right(starts, address) - 1]

    def walk(root):
        # An explicit stack: Python's recursion limit may be lower than the depth of the program's calls.
        pending = [(root, None)]
        while pending:
            address, children = pending.pop()
            if children is None:
                if state.get(address) == "done":
                    continue
                if state.get(address) == "open":
                    raise Unbounded(f"recursion through {found[address][0]}")
                state[address] = "open"
                children = {owner(target) for target in found[address][2]} - {address}
                self_call = any(target == address for target in found[address][2])
                if self_call:
                    raise Unbounded(f"{found[address][0]} calls itself")
                pending.append((address, children))
                pending += [(child, None) for child in children if state.get(child) != "done"]
            else:
                best = max(children, key=lambda child: depth[child][0], default=None)
                below = depth[best] if best is not None else (0, [])
                depth[address] = (found[address][1] + below[0], [found[address][0], *below[1]])
                state[address] = "done"

    def of(name):
        if name not in by_name:
            raise Unbounded(f"no function {name}")
        walk(by_name[name])
        return depth[by_name[name]]

    total, path = max((of(root) for root in roots), key=lambda one: one[0])
    if interrupt:
        # The trap saves 128 bytes of registers in the assembler part itself, which is counted there.
        more, _ = of(interrupt)
        total += more
    return total, path


if __name__ == "__main__":
    import sys
    size, path = deepest(sys.argv[1], ["_start"], "trap_entry")
    print(size)
    for name in path:
        print("  ", name[:150])
