"""How the tests are shared out between pytest's workers (`tools/test`): each goes where there is room.

Those of a file that has a fixture of its own (scope="module") stay together, or each worker would make it anew.
"""

import functools
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
