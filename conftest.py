"""How the tests are shared out among pytest's workers (`tools/test`): each goes where there is room.

Tests that share a fixture of their file (scope="module") stay together, or each worker would make it anew.
"""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        shared = sorted(
            name for name, made in item._fixtureinfo.name2fixturedefs.items() if made and made[-1].scope == "module"
        )
        if shared:
            parameters = getattr(item, "callspec", None)
            which = [str(parameters.params.get(name, "")) if parameters else "" for name in shared]
            item.add_marker(pytest.mark.xdist_group("-".join([item.path.name, *shared, *which])))
