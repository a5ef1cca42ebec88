// SPDX-License-Identifier: Apache-2.0 OR MIT
// A rosbag2 bag file as a recording of a volume: a stream of MCAP in ROS 2's profile, with libstraightway. Needs no ROS.
//
// libstraightway's handles belong to one thread, and rosbag2 calls a storage from several. So each recording has a thread of its own.

#pragma once

#include <straightway.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace straightway::rosbag2 {

// Errors of all calls are std::runtime_error, with the library's reason and hint.

struct Topic {
  std::string name, type, serialization_format;
  // The message's definition with all that it refers to, and its language: `ros2msg` or `ros2idl`.
  std::string definition_encoding, definition;
  // As rosbag2 writes them: a sequence in YAML, or nothing.
  std::string offered_qos_profiles;
  std::string type_description_hash;
};

struct Message {
  std::string topic;
  int64_t received_ns = 0, sent_ns = 0;
  uint32_t sequence = 0;
  std::string data;
};

struct Options {
  // Messages are gathered into such blocks, and are durable soon after theirs is full. 0: the library's default.
  uint64_t block_bytes = 0;
  // Drop messages that the drive has no time for, instead of waiting.
  bool drop = false;
};

// Runs what uses the library's handles, one call at a time.
class Owner {
 public:
  Owner() : thread_([this] { work(); }) {}
  ~Owner();
  void run(const std::function<void()> &job);

 private:
  void work();

  std::mutex calls_, mutex_;
  std::condition_variable changed_;
  const std::function<void()> *job_ = nullptr;
  std::exception_ptr error_;
  bool ended_ = false;
  std::thread thread_;
};

class Writer {
 public:
  // Begins the recording `name`, which must not exist, on the volume of the device.
  Writer(const std::string &device, const std::string &name, const Options &options);
  ~Writer();

  void add_topic(const Topic &topic);
  // Returns whether the message was kept.
  bool write(const Message &message);
  // What rosbag2 knows of the bag, in YAML.
  void write_metadata(const std::string &yaml);
  // Of the stream so far.
  uint64_t bytes() const { return bytes_; }
  // The first so many messages that were kept survive a power cut.
  uint64_t durable_messages();
  // Ends the recording: all of it is durable.
  void close();

 private:
  struct Channel {
    uint16_t id;
    // Its schema and its channel, until they are in the stream.
    std::string unwritten;
  };

  bool append(const std::string &bytes);
  void count_durable(uint64_t durable_bytes);

  Owner owner_;
  straightway_recorder recorder_ = 0;
  std::map<std::string, Channel> channels_;
  uint64_t bytes_ = 0, durable_messages_ = 0;
  // Where each message ends that is not known to be durable.
  std::deque<uint64_t> ends_;
};

// What is known of a recording when all of it was read.
struct Summary {
  std::string file;
  std::map<std::string, std::pair<Topic, uint64_t>> topics;
  uint64_t messages = 0;
  int64_t first_ns = 0, last_ns = 0;
};

// Reads what Writer wrote, in its order, up to the last whole message.
class Reader {
 public:
  Reader(const std::string &device, const std::string &name);
  ~Reader();

  bool next(Message &message);
  // Begins again.
  void rewind();
  // Reads all of it, and begins again.
  Summary summarize(const std::string &file);
  uint64_t bytes() const { return size_bytes_; }

 private:
  bool read(uint64_t bytes);
  void take_topic(const std::string &content, uint8_t opcode);

  Owner owner_;
  straightway_volume volume_ = 0;
  straightway_file file_ = 0;
  uint64_t size_bytes_ = 0, at_bytes_ = 0;
  std::string held_;
  std::map<uint16_t, Topic> schemas_, topics_;
};

// metadata.yaml of a bag with these files, which `straightway export` made.
std::string bag_metadata(const std::vector<Summary> &files);

}  // namespace straightway::rosbag2
