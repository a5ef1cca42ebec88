# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The write barriers of the file system core: without any one of its barriers, the microprogram must violate a guarantee in
a directed power cut (rtl/sim/hwfs_barriers_bench.cpp); the complete microprogram must keep all guarantees.
crates/volume/src/order.rs has the barriers' names and the reason for each.

One bench runs every microprogram. STRAIGHTWAY_BARRIER=Rename removes only barriers whose name contains `Rename`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import benches  # noqa: E402
import cores  # noqa: E402

sys.path.insert(0, str(cores.RTL / "hwfs" / "microcode"))
import assemble  # noqa: E402
import isa  # noqa: E402

# The scenario that fails without each barrier; `bench +microcode=FILE` without a name runs all scenarios.
MISSED_BY = {
    "NodesBeforeClean@unmount_files": "renames",
    "CleanBeforeClean@unmount_files": "renames",
    "CleanBeforeAnswer@unmount_files": "renames",
    "CacheBeforeInUse@mark_in_use": "a death in an unmount",
    "NodesBeforeReserve@reserve_planned": "growth",
    "ReserveBeforeNodes@reserve_planned": "growth",
    "NodesBeforeRelease@release_record": "leaves shrink",
    "ReleaseBeforeNodes@release_super": "release",
    "NodesBeforeReserve@deep_counted": "leaves grow",
    "ReserveBeforeNodes@deep_record": "leaves grow",
    "ReserveBeforeNodes@create_nodes": "create",
    "CreateBeforeAnswer@create_nodes": "create",
    "FreeBeforeCreate@create_empty": "create",
    "SlotBeforeAnswer@create_empty": "create",
    "NodesBeforeReserve@create_plan": "put, the long way",
    "DataBeforeSize@commit": "create",
    "SlotBeforeAnswer@commit_durable": "create",
    "CommitBeforeCopy@close_released": "put, the long way",
    "RemoveBeforeAnswer@delete_more": "put",
    "CommitBeforeRemove@delete_empty": "empty files",
    "SlotBeforeAnswer@delete_empty": "empty files",
    "CommitBeforeRemove@delete_deep": "leaves go",
    "NodesBeforeRename@rename_free": "renames",
    "RenameBeforeName@rename_free": "renames",
    "NameBeforeOld@rename_free": "renames",
    "ReserveBeforeNodes@put_slot": "put",
    "CreateBeforeAnswer@put_nodes": "put",
    "NodesBeforeReserve@put_look": "put",
    "RemoveBeforeAnswer@delete_name": "put",
    "ReleaseBeforeNodes@delete_name": "put",
    "CacheBeforeRecovery@recover": "a death in a rename",
    "SlotBeforeAnswer@recover_old": "recovery",
    "RecoveryBeforeClear@recovered": "recovery",
}
BARRIERS = [name for name in assemble.assemble()[0].barriers if os.environ.get("STRAIGHTWAY_BARRIER", "") in name]


@pytest.fixture(scope="module")
def bench():
    return benches.build_barriers_bench()


def run(bench, folder, barrier=None, scenarios=(), hole=0):
    """Runs the bench without this barrier, or with such a hole behind the program's entries; returns its exit status and output."""
    assembler, words = assemble.assemble(isa.TARGET_BITS, hole)
    if barrier:
        assembler.without(barrier)
        words = assembler.words()
    (folder / "microcode").write_text(assemble.image(words), "utf-8")
    done = subprocess.run([bench, f"+microcode={folder / 'microcode'}", *scenarios], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600)
    return done.returncode, done.stdout


def test_barriers_have_the_names_of_the_software():
    text = (cores.ROOT / "crates" / "volume" / "src" / "order.rs").read_text("utf-8")
    software = set(re.findall(r"^    (\w+),$", text.split("pub enum Order {")[1].split("\n}")[0], re.M))
    # The core's sync has one flush, whether there is anything to commit or not, and its unmount makes the second superblock
    # durable before it answers. It gives no space back to its drive, makes one file at a time, keeps a volume's
    # size and its table's, and refuses long names.
    mine = {name.split("@")[0] for name in assemble.assemble()[0].barriers}
    assert mine - software == {"CleanBeforeAnswer"}
    together = {"NodesBeforeCreateMany", "CreateManyBeforeNodes", "CreateManyBeforeAnswer"}
    resize = {"GroupsBeforeResize", "ResizeBeforeNodes", "BitmapBeforeShrink", "ResizeBeforeAnswer"}
    growth = {"NodesBeforeTable", "TableBeforeFeature", "BucketBeforeTable", "TableBeforeCopy", "FormatBeforeNodes",
              "NodesBeforeFormat", "MovesBeforeShrink"}
    assert software - mine == {"OverwriteBeforeAnswer", "FreeBeforeDiscard", "NodesBeforeFeature"} | together | resize | growth
    assert set(MISSED_BY) == set(assemble.assemble()[0].barriers), "each barrier needs a scenario"


def test_the_whole_microprogram_keeps_its_promises(bench, tmp_path):
    status, output = run(bench, tmp_path)
    assert status == 0, output
    found = re.findall(r"^kept (.+): (\d+) images$", output, re.M)
    assert {name for name, _ in found} == set(MISSED_BY.values()), output
    assert all(int(count) >= 100 for _, count in found), output


def test_the_program_runs_in_the_upper_half_of_a_longer_control_store(bench, tmp_path):
    """Each branch, call, return and jump has a target of 13 bits then: the program begins at word 4,096."""
    status, output = run(bench, tmp_path, scenarios=["put", "create", "leaves grow", "renames", "recovery"], hole=(1 << 12) - 2)
    assert status == 0, output
    assert len(re.findall(r"^kept (.+): (\d+) images$", output, re.M)) == 5, output
    with pytest.raises(SystemExit, match="the control store has 4096 words"):
        assemble.assemble(hole=100)


@pytest.mark.shapes("barrier")
@pytest.mark.parametrize("barrier", BARRIERS)
def test_a_cut_breaks_what_a_barrier_held(bench, tmp_path, barrier):
    status, output = run(bench, tmp_path, barrier, [MISSED_BY[barrier]])
    assert status == 1 and re.search(r"^BROKEN ", output, re.M), f"no guarantee is violated without {barrier}: {output}"
