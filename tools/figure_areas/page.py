"""docs/figures.md: the template beside this file, filled with the values that were measured last.

docs/figures.json keeps those values, so that a run of one area changes that area's numbers and no other. In the template
`{{name}}` or `{{name|FORMAT}}` stands for a figure; FORMAT is one of Python, and thousands are set apart without one.
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
    """Takes over what was measured and writes the page. A figure without any value yet leaves it as it was."""
    wanted = names()
    values = {name: value for name, value in kept().items() if name in wanted}
    values |= {row["name"]: row["value"] for row in rows if row["name"] in wanted}
    VALUES.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", "utf-8")
    if missing := sorted(wanted - set(values)):
        print(f"# docs/figures.md is as it was: not measured yet: {', '.join(missing)}", flush=True)
        return
    PAGE.write_text(rendered(values), "utf-8")


def problem():
    """Why the page is not what its template and values make, or None."""
    try:
        same = PAGE.read_text("utf-8") == rendered(kept())
    except KeyError as name:
        return f"docs/figures.json has no {name}; run: make figures"
    return None if same else "docs/figures.md is written by make figures: change tools/figure_areas/page.template"
