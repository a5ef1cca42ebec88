# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stripes and mirrors of emulated drives, by the command: volumes, recordings, a member that leaves and returns, and what is
refused.

Own guests: a member of a mirror is unplugged amid a recording, by the host; a shared guest has room for two drives only.
"""

# partner: QEMU's nvme | drive

from hotplug import hotplug_guest
from scripted import own_guest

FUNCTIONS = r"""
node() { local d; for d in /sys/class/nvme/nvme*; do [ "$(tr -d ' ' <$d/serial)" = $1 ] && echo ${d##*/}n1; done; }
durable() { set -- $(tail -n 1 /tmp/told); echo $2; }
# With those that the kernel merged: how many it merges depends on when it is interrupted.
reads() { set -- $(</sys/block/$1/stat); echo $(($1 + $2)); }
"""
DRIVES = [word for serial in "ABCD" for word in ("--drive", f"size=64M,serial={serial}")]
SMALL = ["--drive", "size=32M,serial=SMALL"]


def test_stripes_hold_volumes_share_the_commands_and_refuse_other_members():
    script = r"""
    a=$(node A) b=$(node B) c=$(node C) d=$(node D)
    head -c 8M /dev/urandom >/tmp/blob
    for set in $a,$b $a,$b,$c,$d; do
      names=A,B; [ $set = $a,$b ] || names=A,B,C,D
      stripe=stripe:64K,$set
      rc 0 $S array $stripe --create --destroy-data $names
      rc 0 $S format $stripe --destroy-data $names
      rc 0 $S put $stripe /tmp/blob
      rc 0 $S record $stripe take --from pattern --rate 4M --size 4M --deadline 60s
      rc 0 $S play $stripe take --to pattern
      # A read of whole stripes: the drives' commands are within one of equal.
      before=; for one in ${set//,/ }; do before="$before $(reads $one)"; done
      rc 0 $S read $stripe --length 16M --checksum
      least=; most=; i=0
      for one in ${set//,/ }; do
        i=$((i + 1)); n=$(($(reads $one) - $(set -- $before; echo ${!i})))
        [ -n "$least" ] && [ $least -le $n ] || least=$n
        [ -n "$most" ] && [ $most -ge $n ] || most=$n
      done
      [ $((most - least)) -le 1 ] || fail "commands of the drives: $least to $most"
      rc 0 $S get $stripe blob /tmp/out.blob --force; cmp /tmp/blob /tmp/out.blob || fail "another blob"
      rc 0 $S check $stripe --read-data
    done
    # The layout is the hardware's: the array's second stripe is the first of the second drive.
    rc 0 $S read stripe:64K,$a,$b,$c,$d --offset 64K --length 64K --checksum; one=$(</tmp/out)
    rc 0 $S read $b --length 64K --checksum --path io_uring; same "$one" "$(</tmp/out)" "the second stripe"
    # Nothing of these is written.
    sum_all() { for one in $a $b $c $d; do sha256sum </dev/$one; done; }
    before=$(sum_all)
    rc 2 $S put stripe:64K,$b,$a,$c,$d /tmp/blob two; said 'members are swapped: member 1 is member 2'
    rc 2 $S put stripe:32K,$a,$b,$c,$d /tmp/blob two; said 'the members are striped'
    rc 2 $S put stripe:64K,$a,$b /tmp/blob two; said 'the array has 4 members, and 2 were named'
    rc 2 $S put mirror:$a,$b /tmp/blob two; said 'the members are striped'
    rc 2 $S array stripe:64K,$a,$b --create; said 'nothing was done'
    rc 2 $S array stripe:64K,$a,$b --create --destroy-data B,A; said 'serial number'
    rc 3 $S put stripe:64K,$a,nvme9n1 /tmp/blob two
    rc 2 $S array stripe:64K,$a,$(node SMALL) --create --destroy-data A,SMALL; said 'blocks of data, not'
    same "$(sum_all)" "$before" "the drives' contents"
    rc 0 $S array stripe:64K,$a,$b --create --destroy-data A,B
    rc 0 $S array stripe:64K,$c,$b --create --destroy-data C,B
    rc 2 $S array stripe:64K,$a,$b; said 'belongs to another array'
    """
    own_guest(FUNCTIONS + script, *DRIVES, *SMALL)


def test_a_mirror_records_on_when_a_member_is_unplugged_and_rebuilds_it(tmp_path):
    script = r"""
    a=$(node LAB1) b=$(node B)
    mirror=mirror:$a,$b
    rc 0 $S array $mirror --create --destroy-data LAB1,B
    rc 0 $S format $mirror --destroy-data LAB1,B
    rc 0 $S put $mirror /etc/passwd
    "$S" record $mirror take --acknowledge --block 64K --commit-interval 100ms --deadline 60s --from pattern --rate 1M --size 40M --buffers 256 >/tmp/told 2>/tmp/err &
    victim=$!
    until_() { until "$@"; do kill -0 $victim || { cat /tmp/err >&2; fail "it ended before $*"; }; sleep 0.1; done; }
    until_ grep -q durable /tmp/told
    unplug
    # How long a kernel takes that polls its ports is not known.
    until_ grep -q "goes on without $a" /tmp/err
    before=$(durable)
    until_ eval '[ "$(durable)" != "$before" ]'
    kill -INT $victim; wait $victim; same $? 0 "the recording"
    cat /tmp/err >&2
    rc 0 $S play $mirror take --to pattern
    rc 0 $S check $mirror --read-data
    plug
    until a=$(node LAB1); [ -n "$a" ] && [ -b /dev/$a ]; do sleep 0.1; done
    mirror=mirror:$a,$b
    rc 0 $S array $mirror; grep -q 'to be rebuilt' /tmp/out || fail "$(</tmp/out)"
    # It is not read before it is rebuilt.
    rc 0 $S play $mirror take --to pattern
    rc 0 $S array $mirror --rebuild; said 'members are equal'
    rc 0 $S array $mirror; ! grep -q 'to be' /tmp/out || fail "$(</tmp/out)"
    # The other one alone is not needed any more.
    rc 0 $S play mirror:$a,nvme9n1 take --to pattern
    rc 0 $S get $mirror passwd /tmp/passwd; cmp /etc/passwd /tmp/passwd || fail "another file"
    """
    hotplug_guest(FUNCTIONS + script, tmp_path, size="64M", others=["size=64M,serial=B"])
