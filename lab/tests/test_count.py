# SPDX-License-Identifier: Apache-2.0 OR MIT
"""lab/run --count.

Own guests: lab/run's own options are tested.
"""

import os
import statistics
import subprocess

import pytest

from test_lab import BUILD, OUT, REPOSITORY, lab

pytestmark = pytest.mark.cells("lab")

PROGRAM = r"""
#define _GNU_SOURCE
#define COUNT_MESSAGES
#include "marker.h"
#include <sys/syscall.h>
#include <unistd.h>
__attribute__((noinline)) void spin(void) { for (int i = 0; i < 1000; i++) __asm__ volatile("nop"); }
int main(void)
{
    static char memory[4096];
    for (int i = 0; i < 20; i++) { COUNT_BEGIN(1); COUNT_END(1); }
    for (int i = 0; i < 20; i++) { COUNT_BEGIN(2); __asm__ volatile("nop; nop; nop"); COUNT_END(2); }
    for (int i = 0; i < 20; i++) {
        char *at = memory; long n = sizeof(memory);
        COUNT_BEGIN(3); __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(0) : "memory"); COUNT_END(3);
    }
    for (int i = 0; i < 20; i++) { COUNT_BEGIN(4); spin(); COUNT_END(4); }
    if (count_waits((uint64_t)spin, (uint64_t)spin + 15)) return 1;
    for (int i = 0; i < 20; i++) { COUNT_BEGIN(5); spin(); COUNT_END(5); }
    for (int i = 0; i < 3; i++) { COUNT_BEGIN(6); syscall(SYS_getpid); syscall(SYS_getpid); COUNT_END(6); }
    return count_waits_in("cpu_idle_poll", "");
}
"""


@pytest.fixture(scope="module")
def program():
    folder = BUILD / f"count-test-{os.getpid()}"
    folder.mkdir(parents=True)
    source, path = folder / "program.c", folder / "program"
    source.write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-static", "-I", REPOSITORY / "lab" / "count", "-o", path, source], check=True)
    yield path
    source.unlink()
    path.unlink()
    folder.rmdir()


def test_instructions_between_markers_are_counted(program):
    output = OUT / f"count-{os.getpid()}.txt"
    try:
        seen = lab("--count", str(output), "--", "sh", "-c", f'{program} && cat "$STRAIGHTWAY_COUNTS"').stdout
        # The guest saw there what its program cost.
        assert seen.decode() == output.read_text()
        rows = [list(map(int, line.split())) for line in output.read_text().splitlines()]
    finally:
        output.unlink(missing_ok=True)
    assert len(rows) == 103
    middle = {label: statistics.median(row[1] for row in rows if row[0] == label) for label in range(1, 6)}
    waiting = {label: statistics.median(row[3] for row in rows if row[0] == label) for label in range(1, 6)}
    # Nothing; three; one, however often it repeats, and the instructions that load its registers.
    assert middle[1] == 0 and middle[2] == 3
    assert 1 <= middle[3] <= 8, middle
    assert 2000 < middle[4] < 4100 and waiting[4] == 0, (middle, waiting)
    assert [row[4] for row in rows if row[0] == 6] == [2, 2, 2] and not any(row[4] for row in rows if row[0] == 4)
    # The loop is counted separately, although its range was sent after it had run; its caller is not.
    assert waiting[5] > 2000 and middle[5] < 50, (middle, waiting)


def test_counting_is_of_one_cpu():
    done = lab("--count", "out/never", "--cpus", "2", "--", "true", check=2)
    assert b"one CPU" in done.stderr
