# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How long a randomised test may search: STRAIGHTWAY_BUDGET, as in the Rust tests (`crash::Budget`)."""

import os
import re

VARIABLE = "STRAIGHTWAY_BUDGET"


def seconds(default):
    """The budget in whole seconds; a budget in states only affects searches that count them, so the default is used."""
    return _of(r"(\d+)s", default)


def states(default):
    """The same for a search that counts: states, calls, cycles."""
    return _of(r"(\d+)", default)


def _of(kind, default):
    text = os.environ.get(VARIABLE, "")
    if text and not re.fullmatch(r"\d+s?", text):
        raise ValueError(f"{VARIABLE}={text}: give states (300000) or seconds (20s)")
    found = re.fullmatch(kind, text)
    return int(found[1]) if found else default
