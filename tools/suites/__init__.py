# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The test suites that `tools/test` runs: how each is started, and how its results are counted."""

import os

# What cargo keeps for the next build of a changed crate is as large as what it builds. Your own setting has priority.
os.environ.setdefault("CARGO_INCREMENTAL", "0")
