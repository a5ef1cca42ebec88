"""How the tests are shared out between pytest's workers (`tools/test`), and what they say of their guests.

A test goes where there is room. Those of a file that has a fixture of its own (scope="module") stay together, or each
worker would make it again. Every boot of a guest adds a line to build/lab/boots.jsonl, and every guest that a test left
dirty one to build/lab/replaced.jsonl; the last lines of a run count and name them.
"""

import functools
import json
import os
import time
from pathlib import Path

import pytest

try:
    from xdist.scheduler import LoadScopeScheduling
except ImportError:
    LoadScopeScheduling = object


@functools.cache
def shares_a_fixture(file):
    return 'scope="module"' in (Path(__file__).parent / file).read_text(encoding="utf-8")


class OneByOne(LoadScopeScheduling):
    """xdist's scheduling of scopes, where a scope is a test, or a file whose tests share a fixture."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return file if shares_a_fixture(file) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    # Words of the user go first: --dist loadfile and the like.
    return OneByOne(config, log) if config.getvalue("dist") == "loadscope" else None


LAB = Path(__file__).parent / "build" / "lab"


def pytest_configure(config):
    # lab/guest.py adds a line to this file for each boot.
    os.environ.setdefault("LAB_BOOTS", str(LAB / "boots.jsonl"))
    config.guests_since = time.time()


def lines_since(path, since):
    if not path.exists():
        return []
    return [line for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if line["at"] >= since]


def pytest_terminal_summary(terminalreporter, config):
    boots = lines_since(Path(os.environ["LAB_BOOTS"]), config.guests_since)
    for line in lines_since(LAB / "replaced.jsonl", config.guests_since):
        terminalreporter.write_line(f"a guest was replaced after {line['test']}: {line['why']}")
    if boots:
        repeated = sum(boot["retry"] for boot in boots)
        terminalreporter.write_line(f"guests: {len(boots)} booted in {sum(boot['seconds'] for boot in boots):.0f} s, "
                                    f"{repeated} of them repeated")  # fmt: skip
