# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes in a mounted folder until it is killed, and prints "NAME AMOUNT" when something is durable: the size of a file that is
appended to, and the version of `save`, which is replaced by a rename.

    python3 mount_writer.py FOLDER
"""

import os
import random
import sys
from array import array

FOLDER = sys.argv[1]
# The file with each log's length becomes known in pieces of any length.
MOST_BYTES = 150_000

logs = [os.open(f"{FOLDER}/log-{index}", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for index in range(3)]
sizes = [0, 0, 0]
choice = random.Random(1)
version = 0
while sum(sizes) < 60 << 20:
    index = choice.randrange(3)
    # Each eight bytes are their own offset.
    length = choice.randrange(1, MOST_BYTES)
    first = sizes[index] // 8 * 8
    pattern = array("Q", range(first, sizes[index] + length + 8, 8)).tobytes()
    os.write(logs[index], pattern[sizes[index] - first :][:length])
    sizes[index] += length
    if choice.random() < 0.7:
        (os.fsync, os.fdatasync)[version % 2](logs[index])
        print(f"log-{index} {sizes[index]}", flush=True)
    if choice.random() < 0.3:
        version += 1
        with open(f"{FOLDER}/save.new", "w") as file:
            file.write(f"{version}\n" * 5000)
        # A closed file is committed, and a rename makes durable what was committed before it.
        os.rename(f"{FOLDER}/save.new", f"{FOLDER}/save")
        print(f"save {version}", flush=True)
