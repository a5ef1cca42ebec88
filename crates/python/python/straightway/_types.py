# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Types of arguments."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from typing import TypeAlias

    from typing_extensions import Buffer


class Array(Protocol):
    """An array of NumPy, whose types name the buffer protocol only from Python 3.12 on."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


if TYPE_CHECKING:
    AnyBuffer: TypeAlias = Buffer | Array
    """Contiguous memory of any object."""
