# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes docs/reproduce.md, and keeps what it says, so that a later run names the verdicts that changed.

A claim whose runs are not all there keeps its last finding, unless the rule for it has changed since.
"""

import json

from . import responses, speeds, straight, userspace
from .evidence import REFUSED, VERDICTS, Finding, Untold, reasons
from .runs import ROOT, WORKLOADS, commands, options, result

CHAPTERS = (
    ("Chapter 3: what the kernel's paths cost", (*speeds.ROWS, *responses.ROWS)),
    ("Chapter 4: straighter paths", (*straight.ROWS, *userspace.ROWS)),
)
PAGE, KEPT = ROOT / "docs/reproduce.md", ROOT / "docs/reproduce.json"

HEAD = """# The thesis's figures and tables, repeated

Chapters 3 and 4 of R. Joyce's thesis (2018) measure storage on a server and on Zynq boards, a paper of 2016 the same in part. Below is
each figure and table: what was run there, what differs in our run, and its claims, each with what we found. `make reproduce` runs all
of it in the lab (over an hour; `ONLY=` takes names of runs), leaves each run's JSON and report with its pictures below `out/reproduce`, writes this page,
and names the verdicts that are not those of the last time (`docs/reproduce.json`). On a drive of your own use the commands of a row,
with its name for `/dev/nvme0n1` and its serial number for `LAB1`.

How to read a verdict. Commands, bytes, interrupts and instructions are those of a real machine, so *holds by counts* is an answer. The
lab's processors and drive are emulated: a copy by the processor is dear, one by the drive is a `memcpy` of the host, and the drive is
as fast as the host's memory. So *holds in the lab's time* says no more than that, and nor does *does not hold (in the lab's time)*: on
a board either may fall the other way. Where a result follows from these prices it is marked with (*), also if it agrees. Speeds are
compared by their 95 % intervals, pairs of conditions by a sign test; "much" and "far" ask for a factor of 1.5.

*Cannot be told here* is the answer where these do not decide, where emulation leaves nothing of the question, where the claim's
condition was not reached (no period above the longest write, a drive without a limit, one thread for four), where there is nothing to
compare, and where a count leaves out the price in question. A run that is missing, damaged, interrupted, or during which other programs
took more than a quarter of a core decides nothing. The last column names for each verdict the claim's condition, what was read, and what
would have made the verdict the opposite (or, of one that cannot be told, a verdict); `tests/test_verdicts.py` changes a run in that way
and looks for the other verdict.

A claim whose runs are not all in `out/reproduce` keeps the finding of the last run, as long as its rule is the same. The runs
`table-42-queue`, `table-43-threads` and `by-size-threads` are newer than the last whole run, of which only the printed numbers were kept: what
needs more than those cannot be told until they are run.
"""

VOLUMES = """
## The applications on volumes

Not in the thesis: the seven applications on a volume, as it is, through hybrid direct I/O, and with a cache of a fifth of the data,
as much as the page cache has in the runs of tables 3.1 and 3.2, beside those; {note}. A file that is created, closed after writing or
deleted is durable then on a volume, not on ext4.

| application | ext4, standard | ext4, direct | volume | volume, `--hybrid` | volume, `--cache` |
| --- | --- | --- | --- | --- | --- |
{rows}

MiB/s / ms an operation: means of three runs.

{commands}
"""

TAIL = """
## Stalls

Not in the thesis, but the reason for `sustain`: with a file system frozen for 1.5 s under 500 arrivals per second, 99 of 100
arrivals take up to 1.44 s, which follows from the arrivals' times alone. `make figures ONLY=measure` freezes one and compares.
"""


def judged():
    """`(row, claim, finding)` of every claim."""
    claims, why = kept()["claims"], reasons()
    return [(row, claim, finding_of(claim, claims.get(claim.name), why[claim.name])) for _, rows in CHAPTERS for row in rows for claim in row.claims]


def kept():
    """What the page said when it was last written."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {"claims": {}, "numbers": {}, "volumes": ""}


def finding_of(claim, last, reason):
    """By the runs, or the last one if some of them are not there. A verdict by another rule is no evidence for this one."""
    if last is None or None not in [result(name) for name in claim.runs] or last["rule"] != str(reason):
        return claim.finding(result)
    return Finding(last["text"], last["holds"], last["basis"], last["is_emulators"])


def changed(found):
    """The verdicts that are not those that were kept, as text."""
    claims = kept()["claims"]
    before = {name: Finding("", last["holds"], last["basis"]).verdict for name, last in claims.items()}
    return [
        f"{claim.name}: {claim.text}: {before[claim.name]} before, {finding.verdict} now"
        for _, claim, finding in found
        if before.get(claim.name, finding.verdict) != finding.verdict
    ]


def count(found):
    """`12 hold by counts, ...` in the order of VERDICTS."""
    verdicts = [finding.verdict for _, _, finding in found]
    words = {"does not hold": "do not hold", "holds by counts": "hold by counts", "holds in the lab's time": "hold in the lab's time"}
    return ", ".join(f"{sum(one.startswith(name) for one in verdicts)} {words.get(name, name)}" for name in VERDICTS)


def write(found):
    last, why = kept(), reasons()
    claims = {
        claim.name: {"holds": finding.holds, "basis": finding.basis, "is_emulators": finding.is_emulators, "text": finding.text, "rule": str(why[claim.name])}
        for _, claim, finding in found
    }
    numbers = {row.figures: numbers_of(row) or last["numbers"].get(row.figures, []) for _, rows in CHAPTERS for row in rows if row.numbers}
    applications = volumes() or last["volumes"]
    KEPT.write_text(json.dumps({"claims": claims, "numbers": numbers, "volumes": applications}, indent=1) + "\n")
    findings = {claim.name: finding for _, claim, finding in found}
    lines = [HEAD, f"Of {len(found)} claims {count(found)}.", ""]
    for title, rows in CHAPTERS:
        lines += [f"## {title}", ""]
        for row in rows:
            lines += section(row, findings, numbers.get(row.figures, []), why, command_lines(row.runs))
    PAGE.write_text("\n".join(lines).rstrip() + "\n" + applications + TAIL)


def usable(name):
    """A run that may be printed; None of those that give no verdict."""
    run = result(name)
    return None if any(is_refused(run) for is_refused in REFUSED.values()) else run


def numbers_of(row):
    """The row's table of numbers; nothing if a run that it needs lacks one of them."""
    try:
        return row.numbers(usable)
    except (Untold, ArithmeticError, LookupError, TypeError, ValueError):
        return []


def volumes():
    """The applications on volumes; nothing if they were not run."""
    rows = []
    for name in WORKLOADS:
        names = [f"workload-{name}-{how}" for how in ("standard", "direct", "volume", "hybrid", "cached")]
        found = [usable(one) for one in names]
        if None not in found:
            cells = (f"{one['throughput_mib_s']:.3g} / {one['mean_latency_ns'] / 1e6:.3g}" for one in found)
            rows.append(f"| {name} | {' | '.join(cells)} |")
    if not rows:
        return ""
    note = "64 MiB of files instead of 512, since making them takes long"
    return VOLUMES.format(note=note, rows="\n".join(rows), commands="\n".join(command_lines(names)))


def section(row, findings, numbers, why, commands):
    lines = [f"### {row.figures[0].upper()}{row.figures[1:]}", "", f"{row.source}: {row.thesis}. {differences(row)}".strip()]
    lines += ["", f"{row.remark}."] if row.remark else []
    lines += [""]
    if row.claims:
        lines += [f"| {row.source.lower()} says | ours | verdict | rests on |", "| --- | --- | --- | --- |"]
        for claim in row.claims:
            finding = findings[claim.name]
            mark = " (*)" if finding.is_emulators else ""
            lines.append(f"| {claim.text} | {finding.text} | {finding.verdict}{mark} | {why[claim.name]} |")
        lines += ["", *numbers, *commands, ""]
    return lines


def differences(row):
    return f"Ours differs: {'; '.join(row.differences)}." if row.differences else ""


def command_lines(names):
    """The commands; of those that differ in a word or two, one and their number."""
    groups = {}
    for name in names:
        groups.setdefault((name.split("-")[0], commands()[name].split()[1]), []).append(name)
    lines = []
    for names in groups.values():
        more = f" (and {len(names) - 1} like it)" if len(names) > 1 else ""
        words = " ".join(commands()[names[0]].split())
        lab = f", in `lab/run {options(names[0])}`" if options(names[0]) else ""
        lines.append(f"- `{words}`{more}{lab}")
    return lines
