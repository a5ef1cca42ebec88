"""The hardware: what rtl/figures.py measures."""

import json

from .support import ROOT, run

RESULTS = ROOT / "build" / "rtl" / "figures.json"


def raid0(figures):
    """RAM disks and arrays of them: the memory model, the rates, the sizes, the simulation's speed."""
    run([ROOT / "build" / "venv" / "bin" / "python", "rtl/figures.py", RESULTS])
    for row in json.loads(RESULTS.read_text()):
        figures.add(*row)
