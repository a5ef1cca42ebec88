#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Random lives of a Serial ATA drive behind the host core: `sata_soak.py [BUDGET [SEED]]`.

In each life (`sata_bench soak SEED`), a random drive under random load meets a fault of the matrix, power cuts, a host that
cancels, and, at the PHY, a cable that is pulled; both sides pause and hold. Each request must end, data must be right, and after
each event everything must work. BUDGET is a number of lives (1000) or a time (300s). A failure prints its seed.
"""

import os
import re
import sys
import time

import sata_faults


def soak(lives, seconds, seed):
    """Lives from `seed` on, alternately on words and on single bits; returns how many, and how many requests they had."""
    programs = [sata_faults.bench(serial) for serial in (False, True)]
    end, done, requests = time.monotonic() + seconds, 0, 0
    while done < lives or (seconds and time.monotonic() < end):
        for program in programs:
            requests += int(sata_faults.run(program, "soak", str(seed)).split()[0])
            done += 1
        seed += 1
    return done, requests


def main():
    budget = re.fullmatch(r"(\d+)(s?)", sys.argv[1] if len(sys.argv) > 1 else "1000")
    if budget is None or len(sys.argv) > 3:
        sys.exit(__doc__)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int.from_bytes(os.urandom(3), "big") + 1
    print(f"sata_soak: from seed {seed} on", flush=True)
    lives, seconds = (0, int(budget[1])) if budget[2] else (int(budget[1]), 0)
    try:
        print("sata_soak: {} lives, {} requests, no failure".format(*soak(lives, seconds, seed)))
    except RuntimeError as error:
        sys.exit(f"sata_soak: {error}")


if __name__ == "__main__":
    main()
