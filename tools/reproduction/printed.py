# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The numbers that the thesis prints, and ours beside them.

The thesis measures a board (tables 3.2, 4.1 to 4.4) and a server (3.1), ours is emulated: what can be compared is which is larger, and
by what factor, not the numbers themselves.
"""

from .evidence import cell

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 128 * KIB, MIB, 16 * MIB)

# Table 4.1: MiB/s, and MiB/s for each per cent of a core, by block size.
TABLE_41 = {
    ("chario", "read"): ((51.0, 154.2, 152.0, 151.6), (0.51, 1.86, 1.82, 1.84)),
    ("block-buffered", "read"): ((130.6, 136.4, 125.4, 126.0), (0.86, 0.89, 0.81, 0.80)),
    ("block-direct", "read"): ((44.5, 88.7, 146.8, 146.5), (0.42, 0.96, 1.03, 0.99)),
    ("ext4-buffered", "read"): ((114.2, 119.9, 112.8, 112.8), (0.80, 0.79, 0.72, 0.74)),
    ("ext4-direct", "read"): ((43.2, 146.3, 130.8, 146.2), (0.40, 1.75, 0.91, 1.01)),
    ("chario", "write"): ((48.7, 148.4, 169.3, 188.8), (0.49, 1.82, 2.06, 2.37)),
    ("block-buffered", "write"): ((36.8, 36.0, 35.2, 42.8), (0.29, 0.29, 0.27, 0.27)),
    ("block-direct", "write"): ((43.1, 93.3, 157.3, 180.6), (0.42, 1.09, 1.49, 1.70)),
    ("ext4-buffered", "write"): ((85.0, 85.3, 80.5, 81.0), (0.53, 0.50, 0.49, 0.49)),
    ("ext4-direct", "write"): ((21.5, 132.8, 143.5, 175.2), (0.21, 1.55, 1.37, 1.64)),
}
# Tables 3.1 and 3.2: MiB/s standard and direct, ms standard and direct; on the server, on the board.
APPLICATIONS = {
    "webserver": ((296.2, 535.9, 0.814, 0.551), (32.8, 16.8, 3.994, 15.666)),
    "fileserver": ((337.9, 984.4, 3.375, 1.239), (47.8, 77.7, 15.34, 7.945)),
    "varmail": ((80.5, 108.2, 0.708, 0.657), (13.4, 12.1, 4.055, 5.083)),
    "videoserver": ((343.3, 519.7, 2.259, 2.51), (124.1, 195.3, 8.241, 4.981)),
    "netsfs": ((2.7, 3.4, 0.014, 0.091), (2.7, 3.4, 0.076, 0.225)),
    "webproxy": ((121.4, 206.9, 1.673, 1.177), (9.2, 7.3, 32.111, 27.255)),
    "oltp": ((36.1, 85.7, 4.729, 8.759), (3.3, 5.7, 1.333, 14.576)),
}
# Table 4.2: MiB/s read and written; our path and block size.
TABLE_42 = {
    "block device, 128 KiB": ((798.21, 646.46), "block-buffered", 128 * KIB),
    "block device, 512 MiB (ours 16 MiB)": ((730.21, 514.08), "block-buffered", 16 * MIB),
    "direct I/O, 128 KiB": ((803.31, 690.80), "block-direct", 128 * KIB),
    "direct I/O, 512 MiB (ours 16 MiB)": ((1377.78, 763.61), "block-direct", 16 * MIB),
    "user space, 128 KiB": ((1444.34, 1004.58), "straightway-poll", 128 * KIB),
}
TABLE_43 = {("io_uring", "read"): 744, ("straightway-poll", "read"): 1415, ("io_uring", "write"): 559, ("straightway-poll", "write"): 445}


def table(head, rows):
    return [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows), ""]


def table_41(result):
    run = result("table-41")
    if run is None:
        return []
    rows = []
    for (path, operation), (speeds, ratios) in TABLE_41.items():
        cells = []
        for number, speed, ratio in zip(SIZES, speeds, ratios):
            ours = cell(run, path=path, operation=operation, block_size_bytes=number)
            cells.append(f"{speed:g} ({ratio:g}) / {ours['throughput_mib_s']:.0f} ({ours['mib_s_per_cpu_percent']:.2g})")
        rows.append((f"{path}, {operation}", *cells))
    text = "The thesis's MiB/s (and MiB/s for each per cent of a core of CPU time) / ours:"
    return [text, "", *table(("path", "4 KiB", "128 KiB", "1 MiB", "16 MiB"), rows)]


def table_42(result):
    run = result("table-42")
    if run is None:
        return []
    rows = []
    for name, (theirs, path, number) in TABLE_42.items():
        ours = [cell(run, path=path, operation=operation, block_size_bytes=number)["throughput_mib_s"] for operation in ("read", "write")]
        rows.append((name, *(f"{their:.0f} / {our:.0f}" for their, our in zip(theirs, ours))))
    return ["The thesis's MiB/s / ours:", "", *table(("interface", "read", "write"), rows)]


def table_43(result):
    run = result("table-43")
    if run is None:
        return []
    rows = [
        (f"{path}, {operation}", f"{speed} / {cell(run, path=path, operation=operation)['throughput_mib_s']:.0f}")
        for (path, operation), speed in TABLE_43.items()
    ]
    return ["The thesis's MiB/s (`libaio` for `io_uring`) / ours:", "", *table(("path", "random 4 KiB"), rows)]


def applications(result):
    rows = []
    for name, theirs in APPLICATIONS.items():
        runs = [result(f"workload-{name}-{how}") for how in ("standard", "direct")]
        if None not in runs:
            ours = [*(run["throughput_mib_s"] for run in runs), *(run["mean_latency_ns"] / 1e6 for run in runs)]
            rows.append((name, *(f"{server:g} / {board:g} / {our:.3g}" for server, board, our in zip(*theirs, ours))))
    head = ("application", "MiB/s, standard", "MiB/s, direct", "ms, standard", "ms, direct")
    return ["The thesis's server / its board / ours:", "", *table(head, rows)] if rows else []
