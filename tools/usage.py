# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The answer of each tool to `--help`: what it is, and nothing is done."""

import sys


def help_or(text):
    """The words of the command line; with `-h` or `--help` first, prints the text and ends the program."""
    words = sys.argv[1:]
    if words[:1] in (["-h"], ["--help"]):
        print(text.strip())
        sys.exit(0)
    return words
