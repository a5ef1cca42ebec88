"""The areas of tools/figures, and what they share."""
