"""The test suites that `tools/test` runs: how each is started, and how what it did is counted."""
