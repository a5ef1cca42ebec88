# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The error states of a Serial ATA drive: each transition of both drive models that belongs to an error, with the text behind it.

`TRANSITIONS` is the second half of the fault matrix (docs/sata-faults.md). Each row of the bench (`sata_bench states`) belongs to one
transition, and `ROWS` has its outcome, in which both models must agree: C++ (rtl/sim/sata/sata_drive.hpp) and Python
(rtl/test/sata_drive.py). Only the numbers of clauses and facts are quoted.
"""

from dataclasses import dataclass

OK, DEVICE, TIMED_OUT, ABORTED, GONE = 0, 6, 7, 8, 9

TEXTS = {
    "SATA": "Serial ATA 2.6, with the numbers of its clauses; 11.14 is 11.15 in 3.5. Names of states are those of chapter 11",
    "ACS": "ACS-3 to ACS-5, as the manual of the Western Digital Ultrastar DC HC580 repeats them, with the manual's numbers",
    "UTD": "SATA-IO Interoperability Program, Unified Test Document 1.1: what a certified drive is tested for",
    "C141": "Fujitsu MHW2120BK, MHT2060BH and MHZ2080BJ: the protocols in 5.4.1 to 5.4.6 of their manuals",
    "HC310": "Western Digital Ultrastar DC HC310, specification 1.4",
    "MACH2": "STEC MACH2, \"ATA Command Flow\", page 15",
    "5K320": "Hitachi Travelstar 5K320, OEM specification",
    "MPD3": "Fujitsu MPD3xxxAT, page 5-55",
    "QEMU": "QEMU 7.2's `ide-hd`, which the core is run with (`rtl/test/qemu_drive.py`)",
    "Linux": "what Linux's libata prints of real drives: status/error 41/84 for queued reads and writes over a bad cable",
}
NONE = "only our models"


@dataclass
class Transition:
    what: str
    text: str   # the clause
    seen: str   # who else says so, or NONE
    rows: dict  # name of the row: its outcome (`outcome`)


def both(name, queued, single):
    return {name: queued, f"{name}-single": single}


def moments(kind):
    return {key: value for when in ("before", "half", "after")
            for key, value in both(f"{kind}-error-{when}", "one error 4041", "one error 4051").items()}


TRANSITIONS = [
    Transition("power-on, COMRESET: diagnosis failed; the signature has another code than 01h (DHR1 to DHR3)", "SATA 11, DHR3",
               "5K320 12.2: codes 02h to 05h with status 50h", {"bad-diagnosis": "all ok"}),
    Transition("any state: COMRESET, or power lost; commands and queue are forgotten, the signature is sent (DHR0)", "SATA 11, DHR0",
               "C141: resets end the state after a queued error",
               {f"restart-{where}": "gone, reset" for where in ("accepted", "data", "failed", "log", "data-single", "flush-single")}),
    Transition("a command without data is aborted: register FIS with ERR and ABRT", "ACS 9.3.2", "C141 5.4.1; QEMU",
               {**both("abort-flush", "one error 0451", "one error 0451"), "abort-mode": "all ok", "abort-activate": "all ok"}),
    Transition("a flush cannot write a block: register FIS with ERR, the block leaves the cache, the next flush goes on",
               "ACS, FLUSH CACHE EXT", "MPD3; QEMU, which keeps the block", both("flush-error", "one error 4051", "one error 4051")),
    Transition("PIO data-in ends with an error before its data: register FIS with ERR, no PIO Setup (DPIOI0)", "SATA 11, DPIOI0",
               "C141 5.4.2", {"abort-identify": "all ok"}),
    Transition("DMA data-in ends before all its data: register FIS with ERR (DDMAI0 to DDMAI2)", "SATA 11, DDMAI0:2",
               "MACH2; C141 5.4.4; QEMU",
               {name: end for name, end in moments("read").items() if name.endswith("single")}),
    Transition("DMA data-out ends before or after its data: register FIS with ERR", "SATA 11, DMA data-out", "C141 5.4.5; QEMU",
               {**{name: end for name, end in moments("write").items() if name.endswith("single")},
                **both("abort-trim", "one error 0451", "one error 0451")}),
    Transition("an address that the drive does not have: IDNF or ABRT, not both", "ACS 9.3.2", "UTD NCQ-04",
               {"no-address-single": "one error 1051"}),
    Transition("device fault: each command is aborted with DF until the power is cycled, the queued error log too", "ACS 9.2.6",
               "the same", {"device-fault": "aborted, reset", "device-fault-single": "errors 0471"}),
    Transition("a queued command is answered late (DFPDMAQ1, DFPDMAQ2)", "SATA 11.14, DFPDMAQ2", "C141 5.4.6, step 1",
               {"slow-answer": "all ok"}),
    Transition("a malformed queued command, or an address out of range: register FIS with ERR (DFPDMAQ1 to DFPDMAQ12)",
               "SATA 13.5.2, 13.5.4.1", "UTD NCQ-04; C141 5.4.6, step 1",
               {"no-address": "one error 1051", "no-address-abort": "one error 0451"}),
    Transition("the same found later: Set Device Bits with ERR (DFPDMAQ11)", "SATA 13.5.4.1", "UTD NCQ-04, the second way",
               {"no-address-late": "one error 1041"}),
    Transition("a command that is not queued among queued ones: register FIS with ERR, NQ in the log (DFPDMAQ12). The core sends none: a "
               "drive reports one", "SATA 13.5.2", "UTD NCQ-03; C141 5.4.6, step 2", {"mixed": "aborted, reset"}),
    Transition("an error, and each command is answered: Set Device Bits with ERR; ACT has those that had ended only (DFPDMAQ11)",
               "SATA 11.14, DFPDMAQ11", "C141 5.4.6, step 8; Linux; QEMU",
               {**{name: end for name, end in (moments("read") | moments("write")).items() if not name.endswith("single")},
                "error-with-ends": "one error 4041"}),
    Transition("an error while a command is not answered: the register FIS that clears its BSY has ERR (DFPDMAQ12)", "SATA 13.5.4.1",
               "HC310 11.15.3, 11.16.1", {"error-by-answer": "one error 4051"}),
    Transition("after an error: READ LOG EXT of page 10h only, other commands are aborted (DFPDMAQ13)", "SATA 11.14, DFPDMAQ13",
               "C141 5.4.6, step 9; UTD NCQ-03", {}),
    Transition("Set Device Bits with ERR 0 and all bits of ACT discards the queue, then the log is sent (DFPDMAQ14)",
               "SATA 11.14, DFPDMAQ14; 13.5.3.3.1", "C141 5.4.6, step 10; UTD NCQ-04", {}),
    Transition("an error by Set Device Bits although a command is not answered, which is then aborted (DFPDMAQ11, DFPDMAQ13)", "-", NONE,
               {"error-while-busy": "one error 4041"}),
    Transition("a refusal that comes late", "-", NONE, {"refused-late": "one error 1051"}),
    Transition("no Set Device Bits before the log", "-", NONE, {"log-no-clear": "one error 4041"}),
    Transition("the log is aborted", "-", "QEMU has no READ LOG EXT, but a queue", {"log-refused": "aborted, reset"}),
    Transition("the log is damaged on the cable, or names a command that does not exist", "-", NONE,
               {"log-damaged": "aborted, reset", "log-other-tag": "aborted"}),
    Transition("the log has no PIO Setup, or only this, or never comes", "-", NONE,
               {"log-no-setup": "one error 4041", "log-no-data": "timed out, reset", "log-silent": "timed out, reset"}),
]
ROWS = {name: end for transition in TRANSITIONS for name, end in transition.rows.items()}
# Rows of the C++ model only.
CPP_ONLY = {"error-while-busy", "refused-late"}


def outcome(counts, detail, resets):
    """How a row ended, by the numbers of requests of each status: what does not depend on the load."""
    if set(counts) <= {OK} and not resets:
        return "all ok"
    if DEVICE in counts and set(counts) <= {OK, DEVICE, ABORTED} and not resets:
        return f"{'one error' if counts[DEVICE] == 1 else 'errors'} {detail:04X}"
    kind = "timed out" if TIMED_OUT in counts else "aborted" if ABORTED in counts else "gone" if GONE in counts else "?"
    if DEVICE in counts:
        kind += f", errors {detail:04X}"
    return kind + (", reset" if resets else "")


def table():
    """The transitions for the document."""
    text = "| transition of the drive | text | who else says so | rows |\n| --- | --- | --- | --- |\n"
    for one in TRANSITIONS:
        rows = ", ".join(f"**{name}**" for name in one.rows) or "each row with a log"
        text += f"| {one.what} | {one.text} | {one.seen} | {rows} |\n"
    return text


def texts():
    return "".join(f"- {name}: {what}\n" for name, what in TEXTS.items())
