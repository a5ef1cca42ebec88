# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The NVMe/TCP initiator and Linux's target (nvmet-tcp) when the network, the path or the namespace is lost: old writes, idle servers, states of
the path, another namespace. On Debian's kernel, and on the newest of its backports and of Debian 13's.

Own guests: the kernel's target keeps sockets and modules that a shared guest would have to give back.
"""

import pytest

from pool import image
from scripted import own_guest
from test_fabric import TARGET


@pytest.fixture(params=["stock", "backports", "trixie"])
def kernel(request):
    try:
        image.find_kernel(request.param, "x86_64")
    except image.NotSetUp:
        pytest.skip(f"the kernel {request.param} is not there; run: tools/setup {request.param}")
    return ("--kernel", request.param)


# partner: nvmet | target
def test_a_write_that_the_network_held_is_not_executed_after_a_newer_one_and_an_idle_server_keeps_its_association(kernel):
    script = r"""
    target 1
    url=tcp://127.0.0.1:4431/nqn.t:d1
    mkfifo /tmp/go
    exec 3<>/tmp/go
    python3 tests/fabric_guest.py /tmp/n.sock 4431 4421 /run/t/d1 5 16 </tmp/go >/tmp/guest 2>&1 & guest=$!
    until grep -q network /tmp/guest; do kill -0 $guest || fail "$(cat /tmp/guest)"; sleep 0.1; done
    $S serve $url --write --destroy-data SERIAL1 --nbd unix:/tmp/n.sock >/dev/null 2>/tmp/err & server=$!
    until grep -q serving /tmp/err; do kill -0 $server || fail "$(cat /tmp/err)"; sleep 0.1; done
    echo served >&3
    until grep -q ended /tmp/guest; do kill -0 $guest || { cat /tmp/guest >&2; fail "$(cat /tmp/err)"; }; sleep 0.1; done
    cat /tmp/guest
    said 'connected again; writes wait'
    # Once, when the network held its packets: not while the server was idle.
    dmesg | grep -c 'keep-alive timer' >/tmp/expired
    [ "$(</tmp/expired)" -le 1 ] || fail "$(dmesg | grep keep-alive)"
    kill -TERM $server; wait $server || fail "$(cat /tmp/err)"
    kill $guest
    """
    print(own_guest(TARGET + script, *kernel))


# partner: nvmet | target
@pytest.mark.cells("kernel")
def test_states_of_the_path_another_namespace_and_what_info_and_trim_do(kernel):
    script = r"""
    target 1
    rc 0 $S info $(url 1)
    grep -q 'serial *SERIAL1' /tmp/out || fail "$(</tmp/out)"
    grep -q 'wait 16 s' /tmp/out || fail "$(</tmp/out)"
    rc 0 $S info $(url 1 '?keep-alive=2&quiesce=3') --json
    grep -q '"write_wait_ms": 9000' /tmp/out || fail "$(</tmp/out)"
    rc 2 $S info $(url 1 '?nsid=0'); said 'namespaces begin with 1'
    rc 0 $S format $(url 1) --destroy-data SERIAL1
    head -c 8M /dev/urandom >/tmp/blob
    rc 0 $S put $(url 1) /tmp/blob
    rc 0 $S rm $(url 1) blob
    before=$(stat -c %b /run/t/d1)
    rc 0 $S trim $(url 1)
    [ $(stat -c %b /run/t/d1) -lt $((before - 8192)) ] || fail "$before sectors, then $(stat -c %b /run/t/d1)"

    # The group of the namespace becomes inaccessible during a recording.
    state=$T/ports/1/ana_groups/1/ana_state
    start() { # NAME
      $S record $(url 1) $1 --acknowledge --block 64K --commit-interval 100ms --deadline 60s --from pattern --rate 1M --size 12M --buffers 256 >/tmp/acks 2>/tmp/err &
      victim=$!
      until grep -q durable /tmp/acks; do kill -0 $victim || { cat /tmp/err >&2; fail "it ended early"; }; sleep 0.1; done
    }
    start ana
    echo inaccessible >$state; sleep 1.5; echo optimized >$state
    wait $victim; same $? 0 "the recording"
    rc 0 $S play $(url 1) ana --to pattern
    # For longer than a command may be retried: the status has its name.
    echo inaccessible >$state
    rc 3 $S ls $(url 1); said 'not accessible by this path'
    echo optimized >$state

    # Another namespace behind the same name.
    start other
    die 1
    ns=$T/subsystems/nqn.t:d1/namespaces/1
    echo 0 >$ns/enable; echo 11112222-3333-4444-5555-666677778888 >$ns/device_uuid; echo 1 >$ns/enable
    listen 1
    wait $victim; status=$?
    [ $status != 0 ] || fail "the recording went on"
    said 'namespace 1 is another one after the reconnection: it has UUID 11112222-3333-4444-5555-666677778888, and had UUID'
    said 'another device is there now'; said 'straightway info tcp://.* shows what is there now'
    """
    own_guest(TARGET + script, *kernel)
