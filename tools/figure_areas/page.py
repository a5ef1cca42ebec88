# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/figures.md: page.template, filled with the latest measured values.

docs/figures.json keeps those values, so that a run of one area changes that area's numbers and no other. In the template
`{{name}}` or `{{name|FORMAT}}` represents a figure; FORMAT is a Python format, by default with thousands separators.
"""

import json
import re
from pathlib import Path

from .support import ROOT

TEMPLATE = Path(__file__).with_name("page.template")
VALUES = ROOT / "docs" / "figures.json"
PAGE = ROOT / "docs" / "figures.md"
PLACE = re.compile(r"\{\{([a-z0-9_.]+)(?:\|([^}]+))?\}\}", re.IGNORECASE)


def names():
    """The figures that the page shows."""
    return {found[1] for found in PLACE.finditer(TEMPLATE.read_text("utf-8"))}


def kept():
    """{name: value} as last measured."""
    return json.loads(VALUES.read_text("utf-8")) if VALUES.exists() else {}


def rendered(values):
    """The page. KeyError for a figure that has no value."""
    return PLACE.sub(lambda found: format(values[found[1]], found[2] or ",.10g"), TEMPLATE.read_text("utf-8"))


def write(rows):
    """Takes over the measured values and writes the page, unless a figure does not have a value yet."""
    wanted = names()
    values = {name: value for name, value in kept().items() if name in wanted}
    values |= {row["name"]: row["value"] for row in rows if row["name"] in wanted}
    VALUES.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", "utf-8")
    if missing := sorted(wanted - set(values)):
        print(f"# docs/figures.md is unchanged: not measured yet: {', '.join(missing)}", flush=True)
        return
    PAGE.write_text(rendered(values), "utf-8")


def problem():
    """Why the page differs from its template and values, or None."""
    try:
        same = PAGE.read_text("utf-8") == rendered(kept())
    except KeyError as name:
        return f"docs/figures.json has no {name}; run: make figures"
    return None if same else "docs/figures.md is written by make figures: change tools/figure_areas/page.template"
