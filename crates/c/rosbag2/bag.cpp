// SPDX-License-Identifier: Apache-2.0 OR MIT
// Records messages from standard input as bag files on a volume, and reads them; the storage plug-in without ROS. See README.md.

#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "recording.hpp"

namespace {

using namespace straightway::rosbag2;

std::string take(uint64_t bytes) {
  std::string data(bytes, '\0');
  if (!std::cin.read(data.data(), bytes)) throw std::runtime_error("standard input ends within its data");
  return data;
}

// `topic NAME TYPE DEFINITION_BYTES QOS_BYTES` or `message TOPIC RECEIVED_NS SENT_NS BYTES`, a line, and what these count.
int record(const std::string &device, const std::string &name, uint64_t block_bytes, uint64_t split_bytes, bool drop) {
  std::vector<Topic> topics;
  std::unique_ptr<Writer> writer;
  uint64_t files = 0, before = 0, printed = 0;
  const auto print = [&](uint64_t durable) {
    if (durable > printed) std::cout << "durable " << durable << std::endl;
    printed = durable;
  };
  const auto close = [&] {
    writer->close();
    print(before += writer->durable_messages());
    writer.reset();
  };
  for (std::string line, what; std::getline(std::cin, line);) {
    std::istringstream words(line);
    words >> what;
    if (!writer) {
      writer = std::make_unique<Writer>(device, name + "_" + std::to_string(files++), Options{block_bytes, drop});
      for (const Topic &topic : topics) writer->add_topic(topic);
    }
    if (what == "topic") {
      Topic topic;
      uint64_t definition_bytes = 0, qos_bytes = 0;
      words >> topic.name >> topic.type >> definition_bytes >> qos_bytes;
      topic.serialization_format = "cdr";
      topic.definition_encoding = "ros2msg";
      topic.definition = take(definition_bytes);
      topic.offered_qos_profiles = take(qos_bytes);
      topics.push_back(topic);
      writer->add_topic(topic);
    } else if (what == "message") {
      Message message;
      uint64_t bytes = 0;
      words >> message.topic >> message.received_ns >> message.sent_ns >> bytes;
      message.data = take(bytes);
      if (!writer->write(message)) std::cout << "dropped " << message.received_ns << std::endl;
      print(before + writer->durable_messages());
      if (split_bytes && writer->bytes() >= split_bytes) close();
    } else {
      throw std::runtime_error("unknown line `" + line + "`");
    }
  }
  if (writer) close();
  return 0;
}

int play(const std::string &device, const std::vector<std::string> &names) {
  for (const std::string &name : names) {
    Reader reader(device, name);
    for (Message message; reader.next(message);)
      std::cout << "message " << message.topic << ' ' << message.received_ns << ' ' << message.sent_ns << ' '
                << message.data.size() << '\n'
                << message.data;
  }
  return 0;
}

int metadata(const std::string &device, const std::vector<std::string> &names) {
  std::vector<Summary> files;
  for (const std::string &name : names) files.push_back(Reader(device, name).summarize(name + ".mcap"));
  std::cout << bag_metadata(files);
  return 0;
}

}  // namespace

int main(int count, char **words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  try {
    const bool drop = arguments.size() == 6 && arguments[5] == "drop";
    if ((arguments.size() == 5 || drop) && arguments[0] == "record")
      return record(arguments[1], arguments[2], std::stoull(arguments[3]), std::stoull(arguments[4]), drop);
    if (arguments.size() >= 3 && (arguments[0] == "play" || arguments[0] == "metadata")) {
      const std::vector<std::string> names(arguments.begin() + 2, arguments.end());
      return (arguments[0] == "play" ? play : metadata)(arguments[1], names);
    }
  } catch (const std::exception &error) {
    std::cerr << "bag: " << error.what() << std::endl;
    return 1;
  }
  std::cerr << "usage: bag record DEVICE NAME BLOCK_BYTES SPLIT_BYTES [drop] | play DEVICE NAME_0... | metadata DEVICE NAME_0..." << std::endl;
  return 2;
}
