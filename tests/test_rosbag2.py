# SPDX-License-Identifier: Apache-2.0 OR MIT
"""rosbag2's storage plug-in without ROS: what it records on a volume is a bag that the rosbags package reads, also after the recorder
was killed; and it reads its recordings itself. Built with the sanitizers."""

# partner: rosbags | reader

import contextlib
import os
import subprocess
import threading

import numpy
import pytest
from rosbags.interfaces import MessageDefinitionFormat, QosReliability
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from scripted import ROOT
from test_power import good, straightway

TYPES = get_typestore(Stores.ROS2_JAZZY)
IMU, TEXT = "sensor_msgs/msg/Imu", "std_msgs/msg/String"
TOPICS = {"/imu": IMU, "/text": TEXT}
NEVER = "{sec: 9223372036, nsec: 854775807}"
QOS = f"""\
- history: keep_last
  depth: 5
  reliability: best_effort
  durability: volatile
  deadline: {NEVER}
  lifespan: {NEVER}
  liveliness: automatic
  liveliness_lease_duration: {NEVER}
  avoid_ros_namespace_conventions: false
"""


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    program = tmp_path_factory.mktemp("rosbag2") / "bag"
    done = subprocess.run([ROOT / "crates/c/rosbag2/build", "--sanitize", program], capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return program


def topics():
    """The lines that announce them."""
    for name, kind in TOPICS.items():
        definition = TYPES.generate_msgdef(kind, ros_version=2)[0].encode()
        qos = QOS.encode() if kind == IMU else b""
        yield f"topic {name} {kind} {len(definition)} {len(qos)}\n".encode() + definition + qos


def message(number):
    """One message: its topic, its time, and its bytes."""
    if number % 3 == 0:
        return "/text", 1000 + number, bytes(TYPES.serialize_cdr(TYPES.types[TEXT](data=f"number {number} {'x' * (number % 50)}"), TEXT))
    types = TYPES.types
    vector, nine = types["geometry_msgs/msg/Vector3"](x=number, y=0.5, z=-1), numpy.arange(9, dtype=numpy.float64)
    header = types["std_msgs/msg/Header"](stamp=types["builtin_interfaces/msg/Time"](sec=number, nanosec=7), frame_id="base")
    imu = types[IMU](header=header, orientation=types["geometry_msgs/msg/Quaternion"](x=0, y=0, z=0, w=1), orientation_covariance=nine,
                     angular_velocity=vector, angular_velocity_covariance=nine, linear_acceleration=vector,
                     linear_acceleration_covariance=nine)  # fmt: skip
    return "/imu", 1000 + number, bytes(TYPES.serialize_cdr(imu, IMU))


def line(topic, time, data):
    return f"message {topic} {time} {time - 1} {len(data)}\n".encode() + data


def run(program, *words, data=b""):
    done = subprocess.run([program, *map(str, words)], input=data, capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr.decode()


def exported(program, image, names, folder, expected=0):
    """The messages, and the connections, of the bag that these recordings are; each export ends with this status."""
    folder.mkdir()
    for name in names:
        status, _, errors = straightway("--quiet", "export", image, name, folder / f"{name}.mcap")
        assert status == expected, errors
    status, metadata, errors = run(program, "metadata", image, *names)
    assert status == 0, errors
    (folder / "metadata.yaml").write_bytes(metadata)
    with Reader(folder) as reader:
        found = [(connection.topic, time, data) for connection, time, data in reader.messages()]
        assert reader.message_count == len(found)
        assert (reader.start_time, reader.end_time) == (found[0][1], found[-1][1] + 1)
        assert {one.topic: one.msgtype for one in reader.connections} == TOPICS
        for one in reader.connections:
            assert one.msgcount == sum(topic == one.topic for topic, _, _ in found)
            assert one.msgdef.format == MessageDefinitionFormat.MSG
            assert one.msgdef.data == TYPES.generate_msgdef(one.msgtype, ros_version=2)[0]
            assert [profile.reliability for profile in one.ext.offered_qos_profiles] == [QosReliability.BEST_EFFORT] * (one.msgtype == IMU)
    return found


def test_a_bag_in_several_files_is_read_by_rosbags_and_by_the_plug_in(bag, tmp_path):
    image = tmp_path / "disk.img"
    good("--quiet", "format", image, "--size", "64M", "--checksums")
    messages = [message(number) for number in range(1000)]
    stream = b"".join([*topics(), *(line(*one) for one in messages)])
    status, said, errors = run(bag, "record", image, "run", 4096, 100_000, data=stream)
    assert status == 0 and said.splitlines()[-1] == b"durable 1000", errors
    names = good("ls", image).split()
    assert len(names) > 2 and names == [f"run_{number}" for number in range(len(names))]
    assert exported(bag, image, names, tmp_path / "run") == messages
    status, said, errors = run(bag, "play", image, *names)
    assert status == 0 and said == b"".join(line(*one) for one in messages), errors
    # The recording itself is a whole file, without indexes.
    good("--quiet", "get", image, "run_0", tmp_path / "run_0.mcap")
    whole = (tmp_path / "run_0.mcap").read_bytes()
    assert whole.startswith(b"\x89MCAP0\r\n") and whole.endswith(b"\x89MCAP0\r\n")


def test_what_the_drive_has_no_time_for_is_dropped_whole(bag, tmp_path):
    """On a drive whose commands take a while: the bag has every message that was not named as dropped, in its order."""
    drive = f"model:64M,file={tmp_path / 'disk.img'},latency=3ms"
    good("--quiet", "format", drive)
    messages = [message(number) for number in range(1000)]
    stream = b"".join([*topics(), *(line(*one) for one in messages)])
    status, said, errors = run(bag, "record", drive, "run", 4096, 0, "drop", data=stream)
    assert status == 0, errors
    dropped = {int(words[1]) for words in map(bytes.split, said.splitlines()) if words[0] == b"dropped"}
    print(f"{len(dropped)} of {len(messages)} dropped")
    kept = [one for one in messages if one[1] not in dropped]
    assert dropped and kept
    assert exported(bag, drive, ["run_0"], tmp_path / "run", expected=7) == kept
    status, said, errors = run(bag, "play", drive, "run_0")
    assert status == 0 and said == b"".join(line(*one) for one in kept), errors


def test_what_was_acknowledged_is_in_the_bag_of_a_recorder_that_was_killed(bag, tmp_path):
    image = tmp_path / "disk.img"
    good("--quiet", "format", image, "--size", "64M", "--checksums")
    recorder = subprocess.Popen([bag, "record", image, "cut", "4096", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    acknowledged = [0]
    reading = threading.Thread(target=lambda: acknowledged.extend(int(said.split()[1]) for said in recorder.stdout))
    reading.start()
    recorder.stdin.write(b"".join(topics()))
    written = []
    # Fed until it is killed, so in the middle of a recording.
    while acknowledged[-1] < 500:
        assert recorder.poll() is None and len(written) < 100_000
        written.append(message(len(written)))
        recorder.stdin.write(line(*written[-1]))
    recorder.kill()
    reading.join()
    with contextlib.suppress(BrokenPipeError):
        recorder.stdin.close()
    recorder.wait()
    acknowledged = acknowledged[-1]
    found = exported(bag, image, ["cut_0"], tmp_path / "cut")
    print(f"{acknowledged} acknowledged, {len(found)} of {len(written)} found")
    assert acknowledged <= len(found) and found == written[:len(found)]
    status, said, errors = run(bag, "play", image, "cut_0")
    assert status == 0 and said == b"".join(line(*one) for one in found), errors
    # The volume takes the next one.
    status, _, errors = run(bag, "record", image, "next", 4096, 0, data=b"".join([*topics(), *(line(*one) for one in written[:9])]))
    assert status == 0, errors
    assert exported(bag, image, ["next_0"], tmp_path / "next") == written[:9]


def test_errors_have_a_reason(bag, tmp_path):
    image, text = tmp_path / "disk.img", tmp_path / "text"
    good("--quiet", "format", image, "--size", "16M")
    text.write_text("not a bag, but long enough to be one")
    good("--quiet", "put", image, text)
    stream = b"".join([*topics(), line(*message(0))])
    assert run(bag, "record", image, "run", 4096, 0, data=stream)[0] == 0
    for words, data, why in (
        (("record", image, "run", 4096, 0), stream, "a file has this name already"),
        (("record", tmp_path / "none", "run", 4096, 0), stream, "there is no file"),
        (("record", image, "other", 4096, 0), line(*message(0)), "unknown topic `/text`"),
        (("record", image, "cut", 4096, 0), stream[:-1], "standard input ends within its data"),
        (("play", image, "none"), b"", "no file has this name"),
        (("play", image, "text"), b"", "the recording is not MCAP"),
    ):
        status, _, errors = run(bag, *words, data=data)
        assert status == 1 and errors.startswith(("bag: ", "straightway: ")) and why in errors, (words, errors)
        assert "Sanitizer" not in errors and not os.path.exists(tmp_path / "none")
    assert run(bag, "play", image)[0] == 2
