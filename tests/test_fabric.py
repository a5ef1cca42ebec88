# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The NVMe/TCP initiator against Linux's target (nvmet-tcp): files, names that are refused, four targets as stripes, and a
mirror whose remote machine dies amid a recording and comes back.

Own guests: the kernel's target keeps sockets and modules that a shared guest would have to give back.
"""

# partner: nvmet | target

from scripted import own_guest

# The targets run beside the initiator: one subsystem and one port each, over files in memory.
TARGET = r"""
modprobe -a nvmet nvmet_tcp || fail "no nvmet_tcp"
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
busybox ip link set lo up
T=/sys/kernel/config/nvmet
[ -d /run/t ] || mkdir /run/t
target() { # NUMBER: makes one, listening
  truncate -s 64M /run/t/d$1
  mkdir $T/subsystems/nqn.t:d$1 $T/subsystems/nqn.t:d$1/namespaces/1 $T/ports/$1
  echo 1 >$T/subsystems/nqn.t:d$1/attr_allow_any_host
  echo SERIAL$1 >$T/subsystems/nqn.t:d$1/attr_serial
  echo -n /run/t/d$1 >$T/subsystems/nqn.t:d$1/namespaces/1/device_path
  echo 1 >$T/subsystems/nqn.t:d$1/namespaces/1/buffered_io
  echo 1 >$T/subsystems/nqn.t:d$1/namespaces/1/enable
  echo tcp >$T/ports/$1/addr_trtype; echo ipv4 >$T/ports/$1/addr_adrfam
  echo 127.0.0.1 >$T/ports/$1/addr_traddr; echo 442$1 >$T/ports/$1/addr_trsvcid
  listen $1
}
listen() { ln -s $T/subsystems/nqn.t:d$1 $T/ports/$1/subsystems/; }
# As when the machine dies: its connections end, and its port is closed.
die() { rm $T/ports/$1/subsystems/nqn.t:d$1; }
url() { echo "tcp://127.0.0.1:442$1/nqn.t:d$1${2:-}"; }
"""


def test_files_on_a_target_with_digests_and_queues_and_what_is_refused(options=()):
    script = r"""
    target 1; target 2
    head -c 3M /dev/urandom >/tmp/blob
    rc 2 $S format $(url 1); said 'nothing was done'
    rc 2 $S format $(url 1) --destroy-data OTHER; said 'serial number is .SERIAL1'
    rc 0 $S format $(url 1) --destroy-data SERIAL1
    for options in '' '?hdgst' '?ddgst' '?hdgst&ddgst&queues=3' '?write-through'; do
      rc 0 $S put $(url 1 "$options") /tmp/blob --force
      rc 0 $S get $(url 1 "$options") blob /tmp/back --force
      cmp /tmp/blob /tmp/back || fail "another blob with '$options'"
    done
    rc 0 $S check $(url 1) --read-data
    rc 0 $S record $(url 1) take --from pattern --rate 2M --size 2M --deadline 60s
    rc 0 $S play $(url 1) take --to pattern
    rc 3 $S ls tcp://127.0.0.1:4421/nqn.t:d2; said 'no such subsystem'
    rc 2 $S ls tcp://127.0.0.1:4421/; said 'tcp://127.0.0.1:4421/nqn.t:d1'
    rc 3 $S ls tcp://127.0.0.1:4439/x; said 'Connection refused'
    rc 3 $S ls "$(url 1 '?nsid=7')"
    echo 0 >$T/subsystems/nqn.t:d2/attr_allow_any_host
    rc 3 $S ls $(url 2); said 'forbids this host'; said 'allow nqn.'
    # A server of another protocol.
    python3 -c '
import socket
s = socket.create_server(("127.0.0.1", 4450)); open("/tmp/up", "w").close()
c, _ = s.accept(); c.recv(128); c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 8); c.recv(1)' &
    until [ -e /tmp/up ]; do sleep 0.1; done
    rc 3 $S ls tcp://127.0.0.1:4450/x; said 'not an NVMe/TCP target'
    """
    own_guest(TARGET + script, *options)


def test_a_volume_on_stripes_over_four_targets_and_a_mirror_whose_machine_dies():
    script = r"""
    for i in 1 2 3 4; do target $i; done
    all=$(url 1),$(url 2),$(url 3),$(url 4)
    names=SERIAL1,SERIAL2,SERIAL3,SERIAL4
    rc 0 $S array stripe:64K,$all --create --destroy-data $names
    rc 0 $S format stripe:64K,$all --destroy-data $names
    head -c 5M /dev/urandom >/tmp/blob
    rc 0 $S put stripe:64K,$all /tmp/blob
    rc 0 $S get stripe:64K,$all blob /tmp/back; cmp /tmp/blob /tmp/back || fail "another blob"
    rc 0 $S check stripe:64K,$all --read-data

    mirror="mirror:$(url 1 '?reconnect=1'),$(url 2 '?reconnect=1')"
    rc 0 $S array "$mirror" --create --destroy-data SERIAL1,SERIAL2
    rc 0 $S format "$mirror" --destroy-data SERIAL1,SERIAL2
    "$S" record "$mirror" take --acknowledge --block 64K --commit-interval 100ms --deadline 60s --from pattern --rate 1M --size 6M --buffers 96 >/tmp/told 2>/tmp/err &
    victim=$!
    until grep -q durable /tmp/told; do kill -0 $victim || { cat /tmp/err >&2; fail "it ended early"; }; sleep 0.1; done
    die 2
    wait $victim; same $? 0 "the recording"
    said "goes on without tcp://127.0.0.1:4422"
    rc 0 $S play "$mirror" take --to pattern; said 'is missing'
    listen 2
    rc 0 $S array "$mirror"; grep -q 'to be rebuilt' /tmp/out || fail "$(</tmp/out)"
    rc 0 $S array "$mirror" --rebuild
    die 1
    rc 0 $S play "$mirror" take --to pattern
    """
    own_guest(TARGET + script)
