# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The width of comments in Rust, which rustfmt keeps for code only.

    python3 -m checks.width --write    (in tools) breaks the lines that are longer

Only a paragraph or an item of a list that has a longer line is set again. Tables, marks of partners, code and single words stay.
"""

import re
import subprocess
import sys
from pathlib import Path

WIDTH = 100
COMMENT = re.compile(r"^(\s*)(//[/!]?)( .*|)$")
ITEM = re.compile(r"(?:[*+-]|\d+[.)]) +")
# What a line may not begin with: it would be a heading, an item, a quotation or the line under a heading.
SPECIAL = re.compile(r"(?:[*+>=-]|#+|\d+[.)]|\|.*|```.*)$")


def is_fixed(text):
    """A line that is none of a paragraph's."""
    return not text or text.startswith(("|", "#", "    ", "partner:")) or bool(re.match(r"\[[^]]+\]: \S+$", text))


def paragraphs(lines):
    """Ranges of the lines of each paragraph or item of a comment, which are without their marks."""
    begin, fenced = None, False
    for number, text in enumerate([*lines, ""]):
        fence = text.lstrip().startswith("```")
        if begin is not None and (fence or fenced or is_fixed(text) or ITEM.match(text.lstrip())):
            yield begin, number
            begin = None
        if begin is None and not (fence or fenced or is_fixed(text)):
            begin = number
        fenced ^= fence


def wrapped(words, first, rest):
    """The words in lines of the width, behind `first` and then `rest`."""
    lines, line = [], first
    for word in words:
        begins = line in (first, rest)
        if not begins and len(line) + 1 + len(word) > WIDTH and not SPECIAL.match(word):
            lines.append(line)
            line, begins = rest, True
        line += word if begins else f" {word}"
    return [*lines, line]


def comments(lines):
    """Ranges of lines with the same mark at the same place."""
    begin, mark = 0, None
    for number, line in enumerate([*lines, ""]):
        found = COMMENT.match(line)
        now = found and found.group(1, 2)
        if now != mark:
            if mark:
                yield begin, number, "".join(mark)
            begin, mark = number, now


def broken(text):
    """The text with its long comments broken."""
    lines = text.splitlines()
    result, done = [], 0
    for begin, end, mark in comments(lines):
        inner = [line[len(mark) + 1 :] for line in lines[begin:end]]
        for first, last in paragraphs(inner):
            if all(len(line) <= WIDTH for line in lines[begin + first : begin + last]):
                continue
            indent = re.match(r" *", inner[first])[0]
            item = ITEM.match(inner[first].lstrip())
            hang = " " * (len(indent) + len(item[0])) if item else indent
            words = " ".join(line.strip() for line in inner[first:last]).split()
            if item:
                words = " ".join(words)[len(item[0].rstrip()) :].split()
            result += lines[done : begin + first]
            result += wrapped(words, f"{mark} {indent}{item[0] if item else ''}", f"{mark} {hang}")
            done = begin + last
    return "\n".join([*result, *lines[done:]]) + "\n"


def too_wide(root, files):
    """Comments that are wider than the code."""
    for file in files:
        if file.suffix == ".rs":
            text = file.read_text("utf-8")
            if broken(text) != text:
                places = [number for number, line in enumerate(text.splitlines(), 1) if len(line) > WIDTH and COMMENT.match(line)]
                yield f"{file.relative_to(root)}:{places[0]}: comments wider than {WIDTH} columns; run: cd tools && python3 -m checks.width --write"


def main():
    root = Path(__file__).resolve().parent.parent.parent
    listing = subprocess.run(["git", "ls-files", "*.rs"], cwd=root, capture_output=True, text=True, check=True)
    for file in (root / line for line in listing.stdout.splitlines()):
        text = file.read_text("utf-8")
        if "--write" in sys.argv and (new := broken(text)) != text:
            file.write_text(new, "utf-8")


if __name__ == "__main__":
    main()
