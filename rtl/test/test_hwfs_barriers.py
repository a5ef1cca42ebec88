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
    "ReserveBeforeNodes@put_slot_any": "put in a grown table",
    "CreateBeforeAnswer@put_nodes_any": "put in a grown table",
    "NodesBeforeReserve@put_look_any": "put in a grown table",
    "RemoveBeforeAnswer@delete_name_any": "put in a grown table",
    "ReleaseBeforeNodes@delete_name_any": "put in a grown table",
}
# Only the second program knows format 1.1.
GROWN = {"put in a grown table", "the long way in a grown table", "recovery in a grown table", "growth by software", "long names of software"}
BARRIERS = [name for name in assemble.assemble(grown=True)[0].barriers if os.environ.get("STRAIGHTWAY_BARRIER", "") in name]


@pytest.fixture(scope="module")
def bench():
    return benches.build_barriers_bench()


def run(bench, folder, barrier=None, scenarios=(), grown=True, hole=0, instead=None):
    """Runs the bench without this barrier, with such a hole behind the program's entries, or with one instruction in place of another;
    returns its exit status and output."""
    assembler, words = assemble.assemble(grown, hole)
    if barrier:
        assembler.without(barrier)
        words = assembler.words()
    if instead:
        lines = [(where, instead[1] if text == instead[0] else text) for where, text in assembler.lines]
        assert lines != assembler.lines
        assembler.lines = lines
        words = assembler.words()
    (folder / "microcode").write_text(assemble.image(words), "utf-8")
    done = subprocess.run([bench, f"+microcode={folder / 'microcode'}", *scenarios], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600)
    return done.returncode, done.stdout


def test_barriers_have_the_names_of_the_software():
    text = (cores.ROOT / "crates" / "volume" / "src" / "order.rs").read_text("utf-8")
    software = set(re.findall(r"^    (\w+),$", text.split("pub enum Order {")[1].split("\n}")[0], re.M))
    # The core's sync has one flush, whether there is anything to commit or not, and its unmount makes the second superblock
    # durable before it answers. It gives no space back to its drive, makes and removes one file at a time, keeps a volume's
    # size and its table's, and refuses long names.
    mine = {name.split("@")[0] for name in assemble.assemble()[0].barriers}
    assert mine - software == {"CleanBeforeAnswer"}
    together = {"NodesBeforeCreateMany", "CreateManyBeforeNodes", "CreateManyBeforeAnswer", "NodesBeforeRemoveMany",
                "RemoveManyBeforeNodes", "BitmapsBeforeFree"}
    resize = {"GroupsBeforeResize", "ResizeBeforeNodes", "BitmapBeforeShrink", "ResizeBeforeAnswer"}
    growth = {"NodesBeforeTable", "TableBeforeFeature", "BucketBeforeTable", "TableBeforeCopy", "FormatBeforeNodes",
              "NodesBeforeFormat", "MovesBeforeShrink"}
    assert software - mine == {"OverwriteBeforeAnswer", "FreeBeforeDiscard", "NodesBeforeFeature"} | together | resize | growth
    assert set(MISSED_BY) == set(assemble.assemble(grown=True)[0].barriers), "each barrier needs a scenario"


@pytest.mark.parametrize("grown", [False, True])
def test_the_whole_microprogram_keeps_its_promises(bench, tmp_path, grown):
    scenarios = set(MISSED_BY.values()) | GROWN if grown else set(MISSED_BY.values()) - GROWN
    status, output = run(bench, tmp_path, scenarios=sorted(scenarios), grown=grown)
    assert status == 0, output
    found = re.findall(r"^kept (.+): (\d+) images$", output, re.M)
    assert {name for name, _ in found} == scenarios, output
    assert all(int(count) >= 100 for _, count in found), output


def test_the_program_runs_in_the_upper_half_of_a_longer_control_store(bench, tmp_path):
    """Each branch, call, return and jump has a target of 13 bits then: the program begins at word 4,096."""
    status, output = run(bench, tmp_path, scenarios=["put", "create", "leaves grow", "renames", "recovery"], grown=False,
                         hole=(1 << 12) - 2)
    assert status == 0, output
    assert len(re.findall(r"^kept (.+): (\d+) images$", output, re.M)) == 5, output
    with pytest.raises(SystemExit, match="does not fit 13 bits"):
        assemble.assemble(hole=5000)


@pytest.mark.parametrize("scenario,instead", [
    ("growth by software", ("call parent", "tst r0, 0")),         # a file of a split that is not complete is not looked for in the parent
    ("growth by software", ("call leave_out", "mov r1, r1")),     # a file that moved is listed twice
    ("growth by software", ("call settle_table", "mov r1, r1")),  # the table node's older member would hide a bucket
    ("long names of software", ("bnc root_long", "mov r3, r3")),  # the entries are looked for in the name
    ("long names of software", ("call zero_node", "call zero_slot")),  # a free slot keeps a part of its name
])
def test_what_the_changes_of_software_need_is_missed(bench, tmp_path, scenario, instead):
    status, output = run(bench, tmp_path, scenarios=[scenario], instead=instead)
    assert status == 1 and re.search(r"^BROKEN ", output, re.M), output


@pytest.mark.shapes("barrier")
@pytest.mark.parametrize("barrier", BARRIERS)
def test_a_cut_breaks_what_a_barrier_held(bench, tmp_path, barrier):
    status, output = run(bench, tmp_path, barrier, [MISSED_BY[barrier]])
    assert status == 1 and re.search(r"^BROKEN ", output, re.M), f"no guarantee is violated without {barrier}: {output}"
