"""The areas of tools/figures, and their common code."""
