#!/usr/bin/env python3
"""Runs a script of SymbiYosys with the Yosys of the `pyosys` wheel: `native_yosys.py -ql LOG SCRIPT`.

SymbiYosys runs Yosys three times for each proof. The WebAssembly build that it comes with takes twice as long.
"""

import sys

from pyosys import libyosys


def main():
    if len(sys.argv) != 4 or sys.argv[1] != "-ql":
        sys.exit(f"native_yosys: expected -ql LOG SCRIPT, not {sys.argv[1:]}")
    log, script = sys.argv[2:]
    libyosys.run_pass(f"tee -q -o {log} script {script}", libyosys.Design())


if __name__ == "__main__":
    main()
