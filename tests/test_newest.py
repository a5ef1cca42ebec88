"""Tests of other files on the newest kernel that Debian offers for this release (its backports)."""

import pytest
import test_chario
import test_data
import test_events
import test_fabric
from pool import image
from scripted import DRIVE

KERNEL = "backports"


@pytest.fixture(autouse=True)
def kernel():
    try:
        image.find_kernel(KERNEL, "x86_64")
    except image.NotSetUp:
        pytest.skip("the newest kernel is not there; run: tools/setup backports chario")


def test_every_path_reads_what_every_path_wrote():
    test_data.test_every_path_reads_what_every_path_wrote(DRIVE, ("--kernel", KERNEL))


def test_every_call_of_chario_does_what_the_manual_says():
    test_chario.test_every_call_does_what_the_manual_says(KERNEL)


def test_a_read_of_chario_is_a_timeline():
    test_events.test_a_read_of_chario_is_a_timeline(KERNEL)


def test_files_on_its_target():
    test_fabric.test_files_on_a_target_with_digests_and_queues_and_what_is_refused(("--kernel", KERNEL))
