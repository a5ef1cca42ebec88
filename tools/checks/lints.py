# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lints of the programs that cargo does not build: ruff for Python (ruff.toml), shellcheck for scripts."""

import shutil
import subprocess


def _interpreter(file):
    first = file.read_bytes()[:60].splitlines()[:1]
    return first[0].decode("utf-8", "replace") if first and first[0].startswith(b"#!") else ""


def python(files):
    return [file for file in files if file.suffix == ".py" or _interpreter(file).endswith("env python3")]


def shell(files):
    """Scripts of bash and sh; not of the busybox in a guest, which shellcheck does not know."""
    return [file for file in files if file.suffix == ".sh" or _interpreter(file) in ("#!/usr/bin/env bash", "#!/bin/bash", "#!/bin/sh")]


def check(root, files):
    """What the two find. A tool that is missing is a problem too: its rules would not be kept."""
    ruff = root / "build/venv/bin/ruff"
    if ruff.exists():
        yield from _found([ruff, "check", "--no-cache", "--quiet", "--output-format", "concise", "--force-exclude"], root, python(files))
    else:
        yield "ruff is not in build/venv; run: tools/setup python"
    if shutil.which("shellcheck"):
        yield from _found(["shellcheck", "--severity", "warning", "--format", "gcc"], root, shell(files))
    else:
        yield "shellcheck is missing; run: tools/setup check"


def _found(command, root, files):
    done = subprocess.run([*command, *(file.relative_to(root) for file in files)], cwd=root, capture_output=True, text=True)
    lines = (done.stdout + done.stderr).splitlines()
    return lines or ([f"{command[0]} ended with {done.returncode}"] if done.returncode else [])
