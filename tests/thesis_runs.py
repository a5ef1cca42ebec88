# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs of a machine on which each claim of the thesis holds, as tools/reproduction reads them; tests change them."""

import copy

from reproduction import responses, speeds, straight, userspace
from reproduction.evidence import BOTH, KERNEL, KIB, MIB

BOARD = {"environment_before": {"cpu_model": "ARMv8 Processor rev 4"}, "device": {"model": "INTEL SSDPEDMW400G4"}}
LAB = {"environment_before": {"cpu_model": "QEMU TCG CPU version 2.5+"}, "device": {"model": "QEMU NVMe Ctrl"}}


def cell(path, operation, pattern, size, speed, cpu=50, deviation=0.01, **more):
    return {
        "path": path, "operation": operation, "pattern": pattern, "block_size_bytes": size, "throughput_mib_s": speed, "cpu_percent": cpu,
        "throughput_mib_s_ci95": [speed * 0.99, speed * 1.01], "throughput_mib_s_stddev": speed * deviation, "samples": [],
        "mib_s_per_cpu_percent": speed / cpu, "queue_depth": 1, "threads": 1, "errors": 0, **more,
    }  # fmt: skip


def sweep():
    def speed(path, pattern, size):
        if "direct" in path:
            return 4 if size < 64 * KIB else 100 if size == 64 * KIB else 180
        return 100 if pattern == "sequential" else 10 if size < 64 * KIB else 99

    def cpu(path, pattern, size):
        # The exceptions: 4 of 48.
        return 100 if "buffered" in path else 110 if size == 512 and pattern == "random" else 30

    return {
        "results": [
            cell(path, operation, pattern, size, speed(path, pattern, size), cpu(path, pattern, size))
            for path in KERNEL for operation in BOTH for pattern in ("sequential", "random") for size in speeds.SWEPT
        ]
    }  # fmt: skip


def counts():
    direct = dict(zip(speeds.COUNTED, (2_000_000, 250_000, 200_000, 120_000, 90_000, 110_000)))

    def request(path, operation, size):
        price = 2_000 if path == "chario" else 1_000 if path == "chario-phys" else 60_000 if "buffered" in path else 20_000
        record = {"path": path, "operation": operation, "block_size_bytes": size, "user": [10] * 4, "kernel": [price] * 4, "waiting": [0] * 4}
        if not path.startswith("chario"):
            cached = "buffered" in path and operation == "read"
            more = "ext4" in path and operation == "write"
            record["commands"] = [1, 0, 0, 0] if cached else [4, 3, 3, 3] if more else [2] * 4 if operation == "write" else [1] * 4
            record["moved_bytes"] = [128 * KIB, 0, 0, 0] if cached else [size] * 4
        return record

    bulk = [(path, operation, pattern, size) for path in KERNEL for operation in BOTH for pattern in ("sequential", "random") for size in speeds.COUNTED]
    return {
        "bulk": [
            {"path": path, "operation": operation, "pattern": pattern, "block_size_bytes": size, "commands_per_mib": 8 if "buffered" in path else 256,
             "instructions_per_mib": taken, "kernel_instructions_per_mib": taken}
            for path, operation, pattern, size in bulk for taken in [1_000_000 if "buffered" in path else direct[size]]
        ],
        "requests": [
            {"path": "copy", "operation": "copy", "block_size_bytes": 4096, "user": [1], "kernel": [99], "waiting": [0]},
            *[request(path, operation, size * KIB) for path in (*KERNEL, *straight.CHARIO) for operation in BOTH for size in (4, 8, 40, 80, 128, 1024, 16384)],
        ],
    }  # fmt: skip


def trace(name):
    *path, operation, size = name.removeprefix("trace-").split("-")
    path, number = "-".join(path), int(size[:-1]) * KIB
    longest, median = (9e6 if path.endswith("buffered") else 1e6), 70e3 if path == "chario" else 100e3
    device, width = (0.45, 1.5) if path == "chario" else (0.3, 1.2)
    peak = [0.0, 0.5, 1.0, 0.5, 0.0]
    return {
        "path": path, "operation": operation, "block_size_bytes": number, "coverage": 1.0,
        "parts": [{"name": "application", "share": 1 - device}, {"name": "device", "share": device}],
        "exceedance": [[median * 0.9, 1.0], [median, 0.5], [median * width, 0.05], [longest, 0.001]],
        "density": [[float(at), value] for at, value in enumerate(peak + peak)],
    }  # fmt: skip


def periodic():
    cells = []
    for path in KERNEL:
        for operation in BOTH:
            for synchronous in (True, False):
                for condition in range(6):
                    direct = "direct" in path
                    # Reads are not faster with direct I/O; asynchronous writes are faster and flatter, but further out on ext4.
                    slow = 2e6 if operation == "write" and not direct or operation == "read" and direct else 1e6
                    median, spread = (slow if synchronous else slow / 2), 4e5 if synchronous else 1e5
                    longest = (5e6 if direct else 9e6) * (4 if path == "ext4-buffered" and not synchronous else 1)
                    box = {"median_ns": median, "quartile1_ns": median, "quartile3_ns": median + spread, "max_ns": longest}
                    cells.append({"path": path, "operation": operation, "priority": "normal", "load": str(condition), "synchronous": synchronous, "response": box})
    return {"cells": cells}


def periods():
    return {"cells": [{"period_ns": ms * 1_000_000, "overruns": late, "service": {"max_ns": 18e6}} for ms, late in ((5, 100), (15, 3), (20, 0), (25, 0))]}


def profile(name):
    how, size = name.removeprefix("profile-block-").split("-")
    number = {"4K": 4 * KIB, "128K": 128 * KIB, "1M": MIB, "16M": 16 * MIB}[size]
    functions = [{"name": "copy_user_generic_string", "own_share": 0.5 if how == "buffered" else 0.0}, {"name": "memset", "own_share": 0.3}]
    return {"path": f"block-{how}", "block_size_bytes": number, "busy_samples": 900, "functions": functions}


def interrupts():
    calls = [["stock", "chario", operation, 4096, 128] for operation in BOTH for _ in range(100)]
    for path, spread in {"block-buffered": 60, "block-direct": 12, "ext4-buffered": 25, "ext4-direct": 13}.items():
        for operation in BOTH:
            calls += [["stock", path, operation, 4096 + extra, 100 + extra] for extra in (0, spread if operation == "write" else 1) for _ in range(10)]
    return {"computed": [4096, 128], "calls": calls}


def speed(name):
    times = 1 << int(name.removeprefix("speed-"))
    paths = ("block-buffered", "block-direct")
    results = [
        {"path": path, "operation": operation, "block_size_bytes": size, "iops": 400 / times}
        for path in paths for operation in BOTH for size in (4 * KIB, 512 * KIB, 16 * MIB)
    ]  # fmt: skip
    return {"points": [{"loop_ns": times, "results": results}]}


def sequential(path, number, read, write, **more):
    return [cell(path, operation, "sequential", number, rate, **more) for operation, rate in (("read", read), ("write", write))]


def table(name):
    if name == "table-41":
        of = {"chario": 150, "ext4-direct": 120, "block-direct": 110, "ext4-buffered": 100, "block-buffered": 40}
        return {"results": [one for path, rate in of.items() for number in straight.TABLE for one in sequential(path, number, rate, rate)]}
    if name == "table-42":
        of = [("block-buffered", 798, 646, 730, 514), ("block-direct", 803, 691, 1378, 764), ("straightway-poll", 1400, 900, 1400, 900)]
        return {"results": [one for path, *rates in of for number, (r, w) in ((128 * KIB, rates[:2]), (16 * MIB, rates[2:])) for one in sequential(path, number, r, w)]}
    if name == "table-42-queue":
        return {"results": sequential("straightway-poll", 128 * KIB, 1444, 1005, queue_depth=64)}
    if name == "table-43":
        of, more = {"io_uring": (744, 559), "straightway-poll": (1415, 445)}, {"queue_depth": 32}
    else:
        of, more = {"block-direct": (744, 559), "straightway-poll": (1415, 445)}, {"threads": 4}
    return {"results": [cell(path, operation, "random", 4096, rate, **more) for path, rates in of.items() for operation, rate in zip(BOTH, rates)]}


def by_size(name):
    results, is_threaded = [], name.endswith("threads")
    for path in userspace.THREADED if is_threaded else ("block-buffered", "io_uring", "straightway-poll"):
        for operation in BOTH:
            for pattern in ("sequential", "random"):
                for number in userspace.SIZES:
                    ours = path == "straightway-poll"
                    rate = (30 if ours else 20) if number < 128 * KIB else 200
                    if is_threaded and operation == "write" and pattern == "random":
                        rate = 100
                    elif path == "block-buffered":
                        rate = 300 if pattern == "sequential" else 5
                    cpu = 99 if ours else 40 if number == 16 * MIB else 90
                    results.append(cell(path, operation, pattern, number, rate, cpu, 0.01 if ours else 0.1, threads=4 if is_threaded else 1))
    return {"results": results}


def workload(name, platform):
    """As on the thesis's server (0) or board (1): the way that is ahead is ahead by twice."""
    _, kind, how = name.split("-")
    ahead = [(kind in responses.higher_standard(platform, first)) == (how == "standard") for first in (0, 2)]
    rate, mean = 20 if ahead[0] else 10, 2e6 if ahead[1] else 1e6
    runs = [{"throughput_mib_s": rate + run, "mean_latency_ns": mean + run} for run in range(3)]
    return {"workload": kind, "throughput_mib_s": rate, "mean_latency_ns": mean, "runs": runs}


def figures():
    names = {"block_device": 138_320, "user_space_driver": 3_280, "ring": 872}
    return {
        "firmware.coprocessor_clock_mhz": 100,
        **{f"firmware.main_cpu_{name}_instructions_per_mib": value for name, value in names.items()},
        **{f"firmware.sequential_{operation}_of_a_limited_drive_ring_percent": 100 for operation in BOTH},
    }


def world(platform=0, machine=BOARD):
    """The result of each run by its name, on such a machine; one that is asked for twice is the same."""
    whole = {
        "sweep": sweep, "counts": counts, "periodic": periodic, "periodic-10": periodic, "periods": periods, "interrupts": interrupts, "figures": figures,
        "sweep-tmpfs": lambda: {"results": [cell("file-buffered", "read", "sequential", size, 300) for size in speeds.TMPFS]},
    }  # fmt: skip
    named = {"trace": trace, "profile": profile, "table": table, "by": by_size, "speed": speed}
    made = {}

    def result(name):
        kind = name.split("-")[0]
        if name not in made:
            made[name] = whole[name]() if name in whole else workload(name, platform) if kind == "workload" else named[kind](name)
            made[name] |= copy.deepcopy(machine)
        return made[name]

    return result
