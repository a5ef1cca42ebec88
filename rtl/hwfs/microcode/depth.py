# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Computes how deep the microprogram's calls nest, to compare it with the depth of the sequencer's stack."""

STACK_DEPTH = 8  # StackDepth of hwfs_seq.sv
BRANCHES = ("bz", "bnz", "bc", "bnc")


def deepest(assembler):
    """The longest chain of calls that return, outermost first: the text and the source line of each. A call on a path that
    ends in the main loop starts a new chain: the older entries of the stack are never returned to."""
    flow = {address: successors(assembler, address) for address in range(len(assembler.lines))}
    returning = reach_return(assembler, flow)
    calls = {address: target for address, (mnemonic, target) in enumerate(decoded(assembler)) if mnemonic == "call"}
    chains = {}

    def chain(entry):
        if entry not in chains:
            chains[entry] = None  # the test below finds a routine that calls itself
            seen, left, best = set(), [entry], ()
            while left:
                address = left.pop()
                if address in seen or address not in returning:
                    continue
                seen.add(address)
                left += flow[address]
                if address in calls:
                    below = chain(calls[address])
                    if below is None:
                        raise SystemExit(f"{assembler.lines[address][0]}: a routine that calls itself")
                    best = max(best, (address, *below), key=len)
            chains[entry] = best
        return chains[entry]

    longest = max(((address, *chain(target)) for address, target in calls.items()), key=len)
    return [f"{text} ({where})" for where, text in (assembler.lines[address] for address in longest)]


def decoded(assembler):
    """The mnemonic of each instruction, and the target of calls and branches."""
    for where, text in assembler.lines:
        mnemonic, _, rest = text.partition(" ")
        goes = mnemonic == "call" or is_branch(mnemonic)
        yield mnemonic, assembler.value(rest.split()[0], where) if goes else None


def is_branch(mnemonic):
    return mnemonic in ("b", *BRANCHES) or mnemonic.startswith(("b.", "bn."))


def successors(assembler, address):
    """The addresses that can be executed next in the same routine."""
    where, text = assembler.lines[address]
    mnemonic, _, rest = text.partition(" ")
    following = [address + 1] if address + 1 < len(assembler.lines) else []
    if mnemonic == "ret":
        return []
    if mnemonic == "jump":  # to a table of branches, whose last entry may be code
        entry = assembler.labels[rest.partition("+")[2].split()[0]]
        table = [entry]
        while assembler.lines[entry][1].startswith("b "):
            entry += 1
            table.append(entry)
        return table
    if not is_branch(mnemonic):
        return following
    target = [assembler.value(rest.split()[0], where)]
    return target if mnemonic == "b" else following + target


def reach_return(assembler, flow):
    """The addresses from which a `ret` can be reached."""
    before = {}
    for address, nexts in flow.items():
        for successor in nexts:
            before.setdefault(successor, []).append(address)
    left = [address for address, (_, text) in enumerate(assembler.lines) if text == "ret"]
    found = set(left)
    while left:
        for address in before.get(left.pop(), []):
            if address not in found:
                found.add(address)
                left.append(address)
    return found
