# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Caches the results of builds and proofs by the content of their inputs.

Owns the notes under build/rtl: a note holds the key of the result next to it. Never caches a failure.
"""

import functools
import hashlib
import os
import subprocess
import threading
from pathlib import Path


@functools.cache
def tools():
    """The versions of everything that makes something here: the pinned wheels and the compiler."""
    packages = Path(__file__).resolve().parent.parent / "build" / "venv" / "lib"
    wheels = sorted(path.name for path in packages.glob("python3*/site-packages/*.dist-info"))
    compiler = subprocess.run(["c++", "--version"], stdout=subprocess.PIPE, text=True).stdout
    return "\n".join([*wheels, compiler.partition("\n")[0]])


def key(*parts):
    """The key of texts, files (paths; by name and content) and the tools' versions."""
    sum_ = hashlib.sha256(tools().encode())
    for part in parts:
        content = Path(part).read_bytes() if isinstance(part, Path) else str(part).encode()
        name = part.name if isinstance(part, Path) else ""
        sum_.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return sum_.hexdigest()


def found(note, wanted):
    """The text that was cached with this key, or None."""
    try:
        kept, _, text = note.read_text("utf-8").partition("\n")
    except OSError:
        return None
    return text if kept == wanted else None


def keep(note, wanted, text=""):
    note.parent.mkdir(parents=True, exist_ok=True)
    part = note.with_name(f"{note.name}.{os.getpid()}.{threading.get_ident()}")
    part.write_text(f"{wanted}\n{text}", "utf-8")
    part.rename(note)
