// SPDX-License-Identifier: Apache-2.0 OR MIT
// The storage plug-in `straightway` of rosbag2 (ROS 2 Jazzy) over recording.hpp. See README.md, also for what was not tried.

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <stdexcept>

#include "pluginlib/class_list_macros.hpp"
#include "recording.hpp"
#include "rosbag2_storage/qos.hpp"
#include "rosbag2_storage/ros_helper.hpp"
#include "rosbag2_storage/storage_interfaces/read_write_interface.hpp"
#include "rosbag2_storage/yaml.hpp"

namespace straightway::rosbag2 {

namespace rs = rosbag2_storage;
using IOFlag = rs::storage_interfaces::IOFlag;

class Storage : public rs::storage_interfaces::ReadWriteInterface {
 public:
  // The bag's folder gets a small file for each recording that names it and its device, so that a bag is played without a configuration.
  void open(const rs::StorageOptions &options, IOFlag flag) override {
    if (flag == IOFlag::READ_ONLY) {
      path_ = options.uri;
      const YAML::Node file = YAML::LoadFile(path_);
      reader_ = std::make_unique<Reader>(file["device"].as<std::string>(), file["recording"].as<std::string>());
      summary_ = reader_->summarize(path_);
      return;
    }
    YAML::Node settings;
    if (!options.storage_config_uri.empty()) settings = YAML::LoadFile(options.storage_config_uri);
    const char *device = std::getenv("STRAIGHTWAY_DEVICE");
    const auto name = settings["device"] ? settings["device"].as<std::string>() : std::string(device ? device : "");
    if (name.empty()) throw std::runtime_error("no device; hint: STRAIGHTWAY_DEVICE, or `device:` in --storage-config-file");
    Options wanted;
    if (settings["block_bytes"]) wanted.block_bytes = settings["block_bytes"].as<uint64_t>();
    if (settings["drop"]) wanted.drop = settings["drop"].as<bool>();
    path_ = options.uri + ".straightway";
    const std::string recording = std::filesystem::path(options.uri).filename();
    writer_ = std::make_unique<Writer>(name, recording, wanted);
    YAML::Node file;
    file["device"] = name;
    file["recording"] = recording;
    std::ofstream stream(path_);
    stream << file << std::endl;
    if (!stream) throw std::runtime_error("cannot write " + path_);
  }

  void create_topic(const rs::TopicMetadata &topic, const rs::MessageDefinition &definition) override {
    writer().add_topic({topic.name, topic.type, topic.serialization_format, definition.encoding,
                        definition.encoded_message_definition,
                        rs::serialize_rclcpp_qos_vector(topic.offered_qos_profiles), topic.type_description_hash});
  }

  void remove_topic(const rs::TopicMetadata &) override {}

  void write(std::shared_ptr<const rs::SerializedBagMessage> message) override {
    const auto &data = *message->serialized_data;
    const bool kept = writer().write({message->topic_name, message->recv_timestamp, message->send_timestamp, 0,
                                      {reinterpret_cast<const char *>(data.buffer), data.buffer_length}});
    if (!kept) return;
    summary_.first_ns = summary_.messages ? std::min(summary_.first_ns, message->recv_timestamp) : message->recv_timestamp;
    summary_.last_ns = std::max(summary_.last_ns, message->recv_timestamp);
    ++summary_.messages;
  }

  void write(const std::vector<std::shared_ptr<const rs::SerializedBagMessage>> &messages) override {
    for (const auto &message : messages) write(message);
  }

  void update_metadata(const rs::BagMetadata &metadata) override {
    if (metadata.compression_mode == "message") throw std::runtime_error("messages that are compressed one by one are not supported");
    if (writer_) writer_->write_metadata(YAML::Dump(YAML::convert<rs::BagMetadata>::encode(metadata)));
  }

  uint64_t get_minimum_split_file_size() const override { return 1 << 20; }
  uint64_t get_bagfile_size() const override { return writer_ ? writer_->bytes() : reader_ ? reader_->bytes() : 0; }
  std::string get_relative_file_path() const override { return path_; }
  std::string get_storage_identifier() const override { return "straightway"; }

  rs::BagMetadata get_metadata() override {
    rs::BagMetadata metadata;
    metadata.storage_identifier = get_storage_identifier();
    metadata.bag_size = get_bagfile_size();
    metadata.relative_file_paths = {path_};
    metadata.message_count = summary_.messages;
    metadata.duration = std::chrono::nanoseconds(summary_.last_ns - summary_.first_ns);
    metadata.starting_time = decltype(metadata.starting_time)(std::chrono::nanoseconds(summary_.first_ns));
    for (const auto &[name, entry] : summary_.topics) {
      rs::TopicInformation information{};
      information.topic_metadata.name = name;
      information.topic_metadata.type = entry.first.type;
      information.topic_metadata.serialization_format = entry.first.serialization_format;
      information.topic_metadata.offered_qos_profiles = rs::to_rclcpp_qos_vector(entry.first.offered_qos_profiles, 9);
      information.topic_metadata.type_description_hash = entry.first.type_description_hash;
      information.message_count = entry.second;
      metadata.topics_with_message_count.push_back(information);
    }
    return metadata;
  }

  std::vector<rs::TopicMetadata> get_all_topics_and_types() override {
    std::vector<rs::TopicMetadata> topics;
    for (const auto &one : get_metadata().topics_with_message_count) topics.push_back(one.topic_metadata);
    return topics;
  }

  void get_all_message_definitions(std::vector<rs::MessageDefinition> &definitions) override {
    std::map<std::string, rs::MessageDefinition> by_type;
    for (const auto &[name, entry] : summary_.topics) {
      rs::MessageDefinition &one = by_type[entry.first.type];
      one.topic_type = entry.first.type;
      one.encoding = entry.first.definition_encoding;
      one.encoded_message_definition = entry.first.definition;
      one.type_hash = entry.first.type_description_hash;
    }
    definitions.clear();
    for (const auto &[type, one] : by_type) definitions.push_back(one);
  }

  // A recording is read in its own order.
  bool set_read_order(const rs::ReadOrder &order) override { return order.sort_by == rs::ReadOrder::File && !order.reverse; }

  bool has_next() override {
    while (reader_ && !next_) {
      Message message;
      if (!reader_->next(message)) return false;
      if (message.received_ns < from_ns_ || !is_selected(message.topic)) continue;
      next_ = std::make_shared<rs::SerializedBagMessage>();
      next_->topic_name = message.topic;
      next_->recv_timestamp = message.received_ns;
      next_->send_timestamp = message.sent_ns;
      next_->serialized_data = rs::make_serialized_message(message.data.data(), message.data.size());
    }
    return next_ != nullptr;
  }

  std::shared_ptr<rs::SerializedBagMessage> read_next() override {
    if (!has_next()) throw std::runtime_error("the bag has no further message");
    return std::move(next_);
  }

  void set_filter(const rs::StorageFilter &filter) override {
    filter_ = filter;
    // What was read ahead may be excluded now.
    if (next_ && !is_selected(next_->topic_name)) next_.reset();
  }
  void reset_filter() override { set_filter({}); }

  void seek(const rcutils_time_point_value_t &time) override {
    from_ns_ = time;
    next_.reset();
    if (reader_) reader_->rewind();
  }

 private:
  Writer &writer() {
    if (!writer_) throw std::runtime_error("the bag is not open for writing");
    return *writer_;
  }

  // Topics by name and by expression; other filters of rosbag2 (services, actions) select nothing here.
  bool is_selected(const std::string &topic) const {
    const auto has = [&](const std::vector<std::string> &names) { return std::find(names.begin(), names.end(), topic) != names.end(); };
    if (has(filter_.exclude_topics)) return false;
    if (!filter_.regex_to_exclude.empty() && std::regex_match(topic, std::regex(filter_.regex_to_exclude))) return false;
    if (filter_.topics.empty() && filter_.regex.empty()) return true;
    return has(filter_.topics) || (!filter_.regex.empty() && std::regex_match(topic, std::regex(filter_.regex)));
  }

  std::string path_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Reader> reader_;
  Summary summary_;
  rs::StorageFilter filter_;
  int64_t from_ns_ = INT64_MIN;
  std::shared_ptr<rs::SerializedBagMessage> next_;
};

}  // namespace straightway::rosbag2

PLUGINLIB_EXPORT_CLASS(straightway::rosbag2::Storage, rosbag2_storage::storage_interfaces::ReadWriteInterface)
