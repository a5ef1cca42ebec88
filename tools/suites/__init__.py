"""The test suites that `tools/test` runs: how each is started, and how its results are counted."""
