# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Arrays of NumPy's files, in place: what is touched is read."""

from typing import TYPE_CHECKING, Any

from straightway._errors import UsageError
from straightway._map import map

if TYPE_CHECKING:
    import numpy


def open_npy(device: str, name: str, **options: Any) -> "numpy.ndarray[Any, Any]":
    """The array in the file `name` of a volume, as `numpy.save` wrote it, without reading it: `options` are those of `map`. Without
    `write` it is read-only. The map is closed when no array of it is left."""
    from numpy import frombuffer
    from numpy.lib import format as npy

    mapped = map(device, name, **options)
    memory = mapped.memory
    try:
        stream = _Head(memory)
        version = npy.read_magic(stream)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        if version not in readers:
            raise ValueError(f"version {version} of the format is unknown")
        shape, fortran_order, dtype = readers[version](stream)
        if dtype.hasobject:
            raise ValueError("it holds objects of Python")
        count = 1
        for length in shape:
            count *= length
        if len(memory) < stream.position + count * dtype.itemsize:
            raise ValueError("it is shorter than its header says")
        array = frombuffer(memory, dtype, count, stream.position)
    except ValueError as error:
        raise UsageError(2, f"{name} is no array that can be mapped: {error}", "write it by numpy.save") from None
    return array.reshape(shape[::-1]).T if fortran_order else array.reshape(shape)


class _Head:
    """The beginning of memory as a stream."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self.position = 0

    def read(self, count: int = -1, /) -> bytes:
        end = self.position + count if count >= 0 else None
        data = bytes(self._memory[self.position : end])
        self.position += len(data)
        return data
