# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The selection of packages with which cargo builds the programs that tests and figures run.

One for all of them: cargo compiles a dependency again for each selection of packages that needs other features of it.
"""

PACKAGES = ("straightway-cli", "straightway-preload", "straightway-map", "straightway-figures", "straightway-c")


def selection():
    """cargo's arguments."""
    return [word for name in PACKAGES for word in ("-p", name)]
