#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# fsspec cuts the name of a source at its last slash to find where it goes in a folder that is there. In a file system whose paths have no
# leading slash (here a zip archive's) a name at the top has none, and is lost: `get` of a folder puts its files where the
# folder should be, and `get` of a file takes the folder itself for the target (IsADirectoryError).
# Packages: fsspec 2026.9.0 (PyPI). Python 3.11 or newer.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install fsspec==2026.9.0
venv/bin/python - <<'PYTHON'
import os, sys, zipfile
import fsspec
from pathlib import Path
with zipfile.ZipFile("a.zip", "w") as archive:
    archive.writestr("run/part", "1")
    archive.writestr("top", "2")
    archive.writestr("deep/run/part", "3")
    archive.writestr("deep/top", "4")
fs = fsspec.filesystem("zip", fo="a.zip")
print("fsspec", fsspec.__version__)
def get(name):
    target = Path("into-" + name.replace("/", "-"))
    target.mkdir()
    try:
        fs.get(name, str(target), recursive=True)
        failed = ""
    except Exception as error:
        failed = type(error).__name__
    found = sorted(str(one.relative_to(target)) for one in target.rglob("*") if one.is_file())
    print(f"get {name}: {found} {failed}".rstrip())
    return found
deep = get("deep/run"), get("deep/top")
top = get("run"), get("top")
if deep != (["run/part"], ["top"]): sys.exit("changed: names below a folder")
if top[0] != ["part"]: sys.exit("changed: the folder's name is kept")
if top[1] != []: sys.exit("changed: the file at the top is fetched")
PYTHON
echo "as stated: a name at the top is lost"
