# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every option of the command is used by a test and explained on a page."""

import re

FIELD = re.compile(r"#\[arg\((.*?)\)\]\s*(?:#\[[^\n]*\]\s*)*(?:pub(?:\([a-z]+\))? )?(?:r#)?(\w+):", re.S)
LONG = re.compile(r"\blong\b(?:\s*=\s*\"([^\"]+)\")?")
TESTS = re.compile(r"crates/cli/(tests/.*|src/.*tests)\.rs$|(lab/)?tests/.*\.py$|rtl/test/.*\.py$")
PAGES = re.compile(r"(docs/.*|README|FORMAT|crates/[a-z]+/README|lab/README)\.md$")


def names(root, files):
    """The options in the arguments' structures, with one place of each."""
    found = {}
    for file in files:
        where = str(file.relative_to(root))
        if where.startswith("crates/cli/src/") and file.suffix == ".rs":
            for words, field in FIELD.findall(file.read_text("utf-8")):
                if long := LONG.search(words):
                    found.setdefault(long[1] or field.replace("_", "-"), where)
    return found


def unnamed(root, files):
    """Options that no test or no page names."""
    texts = {"test": [], "page": []}
    for file in files:
        where = str(file.relative_to(root))
        for what, places in (("test", TESTS), ("page", PAGES)):
            if places.match(where):
                texts[what].append(file.read_text("utf-8"))
    used = {what: set(re.findall(r"--([a-z][a-z0-9-]*)", "\n".join(all_of))) for what, all_of in texts.items()}
    for option, where in sorted(names(root, files).items()):
        for what, of in used.items():
            if option not in of:
                yield f"{where}: no {what} names --{option}"
