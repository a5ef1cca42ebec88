# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The exceptions of `straightway`."""

from enum import IntEnum


class Status(IntEnum):
    """Why a call failed: the exit codes of the command, and two more."""

    FAILED = 1
    USAGE = 2
    MISSING = 3
    UNSUPPORTED = 4
    ROT = 6
    LATE = 7
    FULL = 8
    EXISTS = 9
    NOT_FOUND = 10
    AGAIN = 64
    DEFECT = 65


class Error(Exception):
    """What failed and why (the text), its `code`, and what to do about it (`hint`, or an empty string)."""

    def __init__(self, code: int, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.code = Status(code)
        self.text = text
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.text} ({self.hint})" if self.hint else self.text

    def __reduce__(self) -> tuple[type["Error"], tuple[int, str, str]]:
        return type(self), (int(self.code), self.text, self.hint)


class UsageError(Error, ValueError):
    """Invalid arguments, or an object that is closed or of another thread."""


class NotFoundError(Error, KeyError):
    """No file has this name."""

    __str__ = Error.__str__


class ExistsError(Error):
    """The name is taken."""


class QueueFullError(Error):
    """As many requests are in flight as the device takes: poll first."""


CLASSES: dict[int, type[Error]] = {
    Status.USAGE: UsageError,
    Status.NOT_FOUND: NotFoundError,
    Status.EXISTS: ExistsError,
    Status.AGAIN: QueueFullError,
}


def exception(code: int, text: str, hint: str) -> Error:
    """The exception for an error of the library."""
    known = code if code in Status.__members__.values() else Status.FAILED
    return CLASSES.get(known, Error)(known, text, hint)
