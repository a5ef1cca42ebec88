"""How long a randomised test may search: STRAIGHTWAY_BUDGET, as the Rust tests have it (`crash::Budget`)."""

import os

VARIABLE = "STRAIGHTWAY_BUDGET"


def seconds(default):
    """The budget in whole seconds; a budget in states is for searches that count them, and leaves the default."""
    text = os.environ.get(VARIABLE, "")
    if not text or text.isdigit():
        return default
    if not (text.endswith("s") and text[:-1].isdigit()):
        raise ValueError(f"{VARIABLE}={text}: give states (300000) or seconds (20s)")
    return int(text[:-1])
