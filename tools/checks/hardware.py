# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rules of the hardware's files: each says its licence in its first two lines, and each folder of cores says what is in it."""

# How a comment begins, by the file's suffix.
COMMENTS = {".sv": "//", ".svh": "//", ".v": "//", ".inc": "//", ".cpp": "//", ".hpp": "//", ".vlt": "//", ".py": "#", ".core": "#",
            ".toml": "#", ".tcl": "#", ".xdc": "#", ".sdc": "#", ".rdl": "//", ".asm": ";"}
LICENCE = "SPDX-License-Identifier: Apache-2.0 OR MIT"


def check(root, files):
    """Files below rtl/ without the line, and folders of rtl/ without a README.md."""
    mine = [file for file in files if file.is_relative_to(root / "rtl")]
    for file in mine:
        comment = COMMENTS.get(file.suffix)
        if comment and f"{comment} {LICENCE}" not in file.read_text("utf-8").splitlines()[:2]:
            yield f"{file.relative_to(root)}: add the line `{comment} {LICENCE}`, the first or after one that must be the first"
    for folder in sorted({root / "rtl" / file.relative_to(root / "rtl").parts[0] for file in mine if file.parent != root / "rtl"}):
        if not (folder / "README.md").exists():
            yield f"{folder.relative_to(root)}: it has no README.md: say what is in it and how it is used"
