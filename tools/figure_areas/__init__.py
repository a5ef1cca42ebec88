# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The areas of tools/figures, and their common code."""
