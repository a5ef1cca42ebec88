// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "recording.hpp"

#include <algorithm>
#include <stdexcept>

namespace straightway::rosbag2 {
namespace {

const std::string kMagic = "\x89MCAP0\r\n";
enum Opcode : uint8_t { kHeader = 1, kFooter, kSchema, kChannel, kMessage, kMetadata = 0x0c, kDataEnd = 0x0f };
constexpr uint64_t kPrefixBytes = 9, kReadBytes = 1 << 20, kMaxRecordBytes = 1 << 30;

void check(straightway_status status) {
  if (status == STRAIGHTWAY_STATUS_OK) return;
  const char *hint = straightway_hint();
  std::string text = straightway_error();
  throw std::runtime_error(hint ? text + "; hint: " + hint : text);
}

template <typename T>
std::string little(T value) {
  std::string bytes;
  for (size_t at = 0; at < sizeof(T); ++at) bytes += static_cast<char>(value >> (8 * at) & 0xff);
  return bytes;
}

std::string counted(const std::string &text) { return little<uint32_t>(text.size()) + text; }

std::string record(Opcode opcode, const std::string &content) {
  return static_cast<char>(opcode) + little<uint64_t>(content.size()) + content;
}

std::string pairs(const std::map<std::string, std::string> &entries) {
  std::string bytes;
  for (const auto &[key, value] : entries) bytes += counted(key) + counted(value);
  return counted(bytes);
}

// The fields of a record's content, in order.
struct Fields {
  const std::string &bytes;
  size_t at = 0;

  template <typename T>
  T number() {
    const std::string part = text(sizeof(T));
    T value = 0;
    for (size_t byte = 0; byte < sizeof(T); ++byte) value |= static_cast<T>(static_cast<uint8_t>(part[byte])) << (8 * byte);
    return value;
  }
  std::string text(size_t length) {
    if (length > bytes.size() - at) throw std::runtime_error("a record of the recording is too short");
    at += length;
    return bytes.substr(at - length, length);
  }
  std::string counted() { return text(number<uint32_t>()); }
  std::string rest() { return text(bytes.size() - at); }
};

std::string quoted(const std::string &text) {
  std::string yaml = "\"";
  for (char one : text) yaml += one == '"' || one == '\\' ? std::string("\\") + one : std::string(1, one);
  return yaml + "\"";
}

}  // namespace

Owner::~Owner() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Owner::run(const std::function<void()> &job) {
  std::lock_guard one_at_a_time(calls_);
  std::unique_lock lock(mutex_);
  error_ = nullptr;
  job_ = &job;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !job_; });
  if (error_) std::rethrow_exception(error_);
}

void Owner::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return job_ || ended_; });
    if (!job_) return;
    try {
      (*job_)();
    } catch (...) {
      error_ = std::current_exception();
    }
    job_ = nullptr;
    changed_.notify_all();
  }
}

Writer::Writer(const std::string &device, const std::string &name, const Options &wanted) {
  owner_.run([&] {
    straightway_record_options options{};
    options.size = sizeof(options);
    options.block_bytes = wanted.block_bytes;
    options.on_full = wanted.drop ? STRAIGHTWAY_ON_FULL_DROP : STRAIGHTWAY_ON_FULL_WAIT;
    options.format = "mcap";
    check(straightway_recorder_open(device.c_str(), name.c_str(), nullptr, &options, &recorder_));
    // The first bytes find room in the recorder's memory.
    append(kMagic + record(kHeader, counted("ros2") + counted("straightway")));
  });
}

Writer::~Writer() {
  try {
    close();
  } catch (const std::exception &) {
    // Who wants to know calls close().
  }
}

// In the owner's thread.
bool Writer::append(const std::string &bytes) {
  uint32_t kept = 0;
  check(straightway_recorder_append(recorder_, bytes.data(), bytes.size(), 0, &kept));
  bytes_ += kept ? bytes.size() : 0;
  return kept;
}

void Writer::add_topic(const Topic &topic) {
  owner_.run([&] {
    if (channels_.count(topic.name)) return;
    if (channels_.size() == UINT16_MAX) throw std::runtime_error("a recording has at most 65535 topics");
    const uint16_t id = channels_.size() + 1;
    const std::string schema =
        little(id) + counted(topic.type) + counted(topic.definition_encoding) + counted(topic.definition);
    const std::string channel = little(id) + little(id) + counted(topic.name) + counted(topic.serialization_format) +
                                pairs({{"offered_qos_profiles", topic.offered_qos_profiles},
                                       {"topic_type_hash", topic.type_description_hash}});
    channels_[topic.name] = {id, record(kSchema, schema) + record(kChannel, channel)};
  });
}

bool Writer::write(const Message &message) {
  bool kept = false;
  owner_.run([&] {
    const auto found = channels_.find(message.topic);
    if (found == channels_.end()) throw std::runtime_error("unknown topic `" + message.topic + "`");
    Channel &channel = found->second;
    const std::string content = little(channel.id) + little(message.sequence) + little<uint64_t>(message.received_ns) +
                                little<uint64_t>(message.sent_ns) + message.data;
    // With the first message of a topic that is kept: what is appended at once is dropped whole.
    kept = append(channel.unwritten + record(kMessage, content));
    if (!kept) return;
    channel.unwritten.clear();
    ends_.push_back(bytes_);
  });
  return kept;
}

void Writer::write_metadata(const std::string &yaml) {
  owner_.run([&] { append(record(kMetadata, counted("rosbag2") + pairs({{"serialized_metadata", yaml}}))); });
}

void Writer::count_durable(uint64_t durable_bytes) {
  for (; !ends_.empty() && ends_.front() <= durable_bytes; ends_.pop_front()) ++durable_messages_;
}

uint64_t Writer::durable_messages() {
  owner_.run([&] {
    if (!recorder_) return;
    straightway_record_report report{};
    report.size = sizeof(report);
    check(straightway_recorder_get_report(recorder_, &report));
    count_durable(report.durable_bytes);
  });
  return durable_messages_;
}

void Writer::close() {
  owner_.run([&] {
    if (!recorder_) return;
    const straightway_recorder recorder = recorder_;
    straightway_record_report report{};
    report.size = sizeof(report);
    std::exception_ptr error;
    try {
      for (const auto &[name, channel] : channels_)
        if (!channel.unwritten.empty()) append(channel.unwritten);
      // Without these the stream is one that was cut, which `straightway export` completes too.
      append(record(kDataEnd, little<uint32_t>(0)) + record(kFooter, std::string(20, '\0')) + kMagic);
    } catch (...) {
      error = std::current_exception();
    }
    recorder_ = 0;
    const straightway_status status = straightway_recorder_close(recorder, &report);
    count_durable(report.durable_bytes);
    if (error) std::rethrow_exception(error);
    check(status);
  });
}

Reader::Reader(const std::string &device, const std::string &name) {
  owner_.run([&] {
    check(straightway_volume_open(device.c_str(), nullptr, &volume_));
    check(straightway_file_open(volume_, name.c_str(), 0, &file_));
    check(straightway_file_get_size(file_, &size_bytes_));
  });
  rewind();
}

Reader::~Reader() {
  owner_.run([&] {
    if (volume_) straightway_volume_close(volume_);
  });
}

void Reader::rewind() {
  held_.clear();
  at_bytes_ = 0;
  if (!read(kMagic.size())) return;
  if (held_.compare(0, kMagic.size(), kMagic) != 0) throw std::runtime_error("the recording is not MCAP");
  held_.erase(0, kMagic.size());
}

// Has at least so many bytes in `held_`; false if the recording ends before.
bool Reader::read(uint64_t bytes) {
  while (held_.size() < bytes) {
    std::string part(kReadBytes, '\0');
    size_t count = 0;
    owner_.run([&] { check(straightway_file_read(file_, at_bytes_, part.data(), part.size(), &count)); });
    if (count == 0) return false;
    held_.append(part, 0, count);
    at_bytes_ += count;
  }
  return true;
}

bool Reader::next(Message &message) {
  while (read(kPrefixBytes)) {
    Fields prefix{held_};
    const auto opcode = prefix.number<uint8_t>();
    const auto length = prefix.number<uint64_t>();
    if (length > kMaxRecordBytes) throw std::runtime_error("a record of the recording has an invalid length");
    if (opcode == kDataEnd || !read(kPrefixBytes + length)) return false;
    const std::string content = held_.substr(kPrefixBytes, length);
    held_.erase(0, kPrefixBytes + length);
    if (opcode == kSchema || opcode == kChannel) take_topic(content, opcode);
    if (opcode != kMessage) continue;
    Fields fields{content};
    const auto topic = topics_.find(fields.number<uint16_t>());
    if (topic == topics_.end()) throw std::runtime_error("a message of the recording has an unknown channel");
    message.topic = topic->second.name;
    message.sequence = fields.number<uint32_t>();
    message.received_ns = fields.number<uint64_t>();
    message.sent_ns = fields.number<uint64_t>();
    message.data = fields.rest();
    return true;
  }
  return false;
}

void Reader::take_topic(const std::string &content, uint8_t opcode) {
  Fields fields{content};
  const auto id = fields.number<uint16_t>();
  if (opcode == kSchema) {
    Topic &schema = schemas_[id];
    schema.type = fields.counted();
    schema.definition_encoding = fields.counted();
    schema.definition = fields.counted();
    return;
  }
  Topic topic = schemas_[fields.number<uint16_t>()];
  topic.name = fields.counted();
  topic.serialization_format = fields.counted();
  const std::string metadata = fields.counted();
  for (Fields entries{metadata}; entries.at < metadata.size();) {
    const std::string key = entries.counted();
    const std::string value = entries.counted();
    if (key == "offered_qos_profiles") topic.offered_qos_profiles = value;
    if (key == "topic_type_hash") topic.type_description_hash = value;
  }
  topics_[id] = topic;
}

Summary Reader::summarize(const std::string &file) {
  Summary summary;
  summary.file = file;
  rewind();
  for (Message message; next(message); ++summary.messages) {
    ++summary.topics[message.topic].second;
    summary.first_ns = summary.messages ? std::min(summary.first_ns, message.received_ns) : message.received_ns;
    summary.last_ns = std::max(summary.last_ns, message.received_ns);
  }
  for (const auto &[id, topic] : topics_) summary.topics[topic.name].first = topic;
  rewind();
  return summary;
}

std::string bag_metadata(const std::vector<Summary> &files) {
  Summary all;
  std::string paths, parts;
  const auto times = [](const Summary &one, const std::string &indent) {
    return indent + "starting_time:\n" + indent + "  nanoseconds_since_epoch: " + std::to_string(one.first_ns) + "\n" +
           indent + "duration:\n" + indent + "  nanoseconds: " + std::to_string(one.last_ns - one.first_ns) + "\n" +
           indent + "message_count: " + std::to_string(one.messages) + "\n";
  };
  for (const Summary &file : files) {
    paths += "    - " + quoted(file.file) + "\n";
    parts += "    - path: " + quoted(file.file) + "\n" + times(file, "      ");
    for (const auto &[name, topic] : file.topics) {
      all.topics[name].first = topic.first;
      all.topics[name].second += topic.second;
    }
    if (!file.messages) continue;
    all.first_ns = all.messages ? std::min(all.first_ns, file.first_ns) : file.first_ns;
    all.last_ns = std::max(all.last_ns, file.last_ns);
    all.messages += file.messages;
  }
  std::string yaml = "rosbag2_bagfile_information:\n  version: 9\n  storage_identifier: mcap\n" + times(all, "  ") +
                     "  topics_with_message_count:" + (all.topics.empty() ? " []\n" : "\n");
  for (const auto &[name, entry] : all.topics) {
    const auto &[topic, messages] = entry;
    std::string profiles = topic.offered_qos_profiles.empty() ? " []" : "";
    // A sequence of YAML stays one when all of it is indented.
    for (size_t at = 0, end; at < topic.offered_qos_profiles.size(); at = end + 1) {
      end = std::min(topic.offered_qos_profiles.find('\n', at), topic.offered_qos_profiles.size());
      profiles += "\n          " + topic.offered_qos_profiles.substr(at, end - at);
    }
    yaml += "    - topic_metadata:\n        name: " + quoted(name) + "\n        type: " + quoted(topic.type) +
            "\n        serialization_format: " + quoted(topic.serialization_format) +
            "\n        offered_qos_profiles:" + profiles +
            "\n        type_description_hash: " + quoted(topic.type_description_hash) +
            "\n      message_count: " + std::to_string(messages) + "\n";
  }
  return yaml + "  compression_format: \"\"\n  compression_mode: \"\"\n  relative_file_paths:\n" + paths + "  files:\n" + parts +
         "  custom_data: ~\n  ros_distro: \"\"\n";
}

}  // namespace straightway::rosbag2
