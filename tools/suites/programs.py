# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The selections of packages with which cargo builds the programs that tests and figures run.

cargo compiles a dependency again for each selection of packages that needs other features of it, and with an example the
dependencies of a package's tests count too. So the programs are built as by `make build`, and the examples apart from them.
"""

import re
from pathlib import Path

PACKAGES = ("straightway-cli", "straightway-preload", "straightway-c")
SIMULATOR = ("straightway-simulator",)
SETUP = Path(__file__).resolve().parents[2] / "crates/simulator/src/setup.rs"
WITH_EXAMPLES = ("straightway-figures", "straightway-map")


def worlds():
    """The simulator's kinds of worlds."""
    return re.findall(r'^    [A-Z]\w+ "(\w+)" "', SETUP.read_text(), re.M)


def selection(packages=PACKAGES):
    """cargo's arguments."""
    return [word for name in packages for word in ("-p", name)]
