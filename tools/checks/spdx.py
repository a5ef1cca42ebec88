# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The licence of each source file, in its first lines, as SPDX and reuse tools read it."""

import re

LINE = "SPDX-License-Identifier: Apache-2.0 OR MIT"
COMMENTS = {".rs": "//", ".c": "//", ".h": "//", ".cpp": "//", ".hpp": "//", ".sv": "//", ".S": "//", ".py": "#", ".sh": "#",
            ".mjs": "//", ".go": "//"}  # fmt: skip
# Shown whole in the documentation.
SHOWN = {"crates/volume/examples/hello.rs"}


def comment(file, text):
    """What begins a comment in the file; None if it is no source."""
    if text.startswith("#!") and not file.suffix:
        return "#"
    return COMMENTS.get(file.suffix)


def unmarked(root, files):
    """Sources that name no licence, or another than the project's and have no licence of their own folder."""
    for file in files:
        if file.suffix not in COMMENTS and file.suffix or str(file.relative_to(root)) in SHOWN:
            continue
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        if text.strip() and comment(file, text) and not re.search(r"^\W*SPDX-License-Identifier: \S", "\n".join(text.splitlines()[:4]), re.M):
            yield f"{file.relative_to(root)}: its first lines name no licence; add `{comment(file, text)} {LINE}`"


def marked(file, text):
    """The text with the line, behind a first line that names the interpreter."""
    line = f"{comment(file, text)} {LINE}\n"
    if text.startswith("#!"):
        first, _, rest = text.partition("\n")
        return f"{first}\n{line}{rest}"
    return line + text
