# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Libraries for data on a volume, each round trip with what the library itself reads: run by tests/test_data_tools.py with the packages
of requirements-data.lock."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy
import pandas
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
import xarray
import zarr

import fsspec
import straightway


@pytest.fixture
def options(tmp_path):
    name = str(tmp_path / "image")
    straightway.format(name, volume_bytes=256 << 20, checksums=True)
    options = {"device": name, "write": True}
    yield options
    fsspec.filesystem("straightway", **options).close()
    # Another process has it then, and all of it is as it was written.
    program = "import sys, straightway\nwith straightway.open_volume(sys.argv[1]) as v: [v[name].readall() for name in v]"
    subprocess.run([sys.executable, "-c", program, name], check=True)


def frame():
    rng = numpy.random.default_rng(7)
    return pandas.DataFrame({"t": numpy.arange(50_000), "x": rng.normal(size=50_000), "who": ["a", "b"] * 25_000})


# partner: pandas | reader
def test_pandas(options):
    made = frame()
    for name, write, read in (
        ("a.csv", lambda path: made.to_csv(path, index=False, storage_options=options), pandas.read_csv),
        ("b.csv.gz", lambda path: made.to_csv(path, index=False, storage_options=options), pandas.read_csv),
        ("c.parquet", lambda path: made.to_parquet(path, storage_options=options), pandas.read_parquet),
    ):
        path = f"straightway://{name}"
        write(path)
        pandas.testing.assert_frame_equal(read(path, storage_options=options), made)


# partner: pyarrow | reader
def test_pyarrow(options):
    fs = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fsspec.filesystem("straightway", **options)))
    table = pyarrow.Table.from_pandas(frame(), preserve_index=False)
    pyarrow.parquet.write_to_dataset(table, "set", partition_cols=["who"], filesystem=fs)
    found = pyarrow.dataset.dataset("set", filesystem=fs, partitioning="hive")
    assert found.count_rows() == 50_000 and len(found.files) == 2
    some = found.to_table(columns=["t"], filter=pyarrow.dataset.field("who") == "b").column("t").to_numpy()
    assert sorted(some) == list(range(1, 50_000, 2))


# partner: zarr | reader
def test_zarr(options):
    data = numpy.arange(1_000_000, dtype="<i4").reshape(1000, 1000)
    store = zarr.storage.FsspecStore.from_url("straightway://cube", storage_options=options)
    array = zarr.create_array(store=store, name="x", shape=data.shape, chunks=(100, 250), dtype="i4")
    array[:] = data
    array.append(data[:100])
    again = zarr.open_group(store=store, mode="r")["x"]
    assert again.shape == (1100, 1000) and (again[:1000] == data).all() and (again[1000:] == data[:100]).all()
    assert (again[37:41, 249:252] == data[37:41, 249:252]).all()


# partner: xarray | reader
def test_xarray(options):
    made = xarray.Dataset({"t": (("y", "x"), numpy.arange(6000.0).reshape(60, 100))}, {"y": numpy.arange(60)})
    made.to_zarr("straightway://weather.zarr", storage_options=options)
    found = xarray.open_zarr("straightway://weather.zarr", storage_options=options)
    xarray.testing.assert_identical(found.load(), made)
    found.close()
    fs = fsspec.filesystem("straightway", **options)
    local = Path(options["device"]).parent / "weather.nc"
    made.to_netcdf(local, engine="h5netcdf")
    fs.put(str(local), "weather.nc")
    with fs.open("weather.nc") as file, xarray.open_dataset(file, engine="h5netcdf") as found:
        xarray.testing.assert_equal(found.load(), made)


# partner: h5py | reader
def test_h5py(options):
    fs = fsspec.filesystem("straightway", **options)
    local = Path(options["device"]).parent / "a.h5"
    with h5py.File(local, "w") as file:
        file.create_dataset("d", data=numpy.arange(300_000), chunks=(4096,), compression="gzip")
    fs.put(str(local), "runs/a.h5")
    with fs.open("runs/a.h5") as opened, h5py.File(opened) as file:
        assert file["d"][123_456] == 123_456 and file["d"][:].sum() == sum(range(300_000))
