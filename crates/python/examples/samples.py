# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stores an array of samples in a volume, and reads it back into memory that NumPy uses without a copy: samples.py DEVICE"""

import sys

import numpy

import straightway


def main(name: str) -> None:
    samples = numpy.arange(4096, dtype=numpy.float64)
    straightway.format(name, volume_bytes=16 << 20, checksums=True)
    with straightway.open_volume(name, write=True) as volume:
        with volume.create("samples") as file:
            file.write(samples)
        read = numpy.empty_like(samples)
        with volume["samples"] as file:
            file.readinto(read)
    print(f"{read.size} samples in samples, mean {read.mean()}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except straightway.Error as error:
        sys.exit(f"samples: {error}")
