// SPDX-License-Identifier: Apache-2.0 OR MIT
// libstraightway: the straight path to a drive. Generated from crates/c by its test; do not edit.
//
// A call returns a straightway_status; straightway_error() and straightway_hint() have the reason as text. A handle belongs to the
// thread that opened it; one that is closed or of another thread is an error. Memory for a device's transfers comes from
// straightway_alloc, and any part of it can be given to a request; while a request is in flight its memory belongs to the device.
// Files of a volume are read into and appended from any memory.

#ifndef STRAIGHTWAY_H
#define STRAIGHTWAY_H

#include <stddef.h>
#include <stdint.h>

// Options whose other members are 0, for a declaration: struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
#ifdef __cplusplus
// Before C++20 there are no designated initialisers, and compilers warn of the members that one leaves out.
extern "C++" {
template <typename Options> inline Options straightway_initial() {
  Options options = Options();
  options.size = sizeof(Options);
  return options;
}
}
#define STRAIGHTWAY_INITIAL(type) straightway_initial<struct type>()
#else
#define STRAIGHTWAY_INITIAL(type) { .size = sizeof(struct type) }
#endif
#define STRAIGHTWAY_OPTIONS_INIT STRAIGHTWAY_INITIAL(straightway_options)
#define STRAIGHTWAY_FORMAT_OPTIONS_INIT STRAIGHTWAY_INITIAL(straightway_format_options)
#define STRAIGHTWAY_RECORD_OPTIONS_INIT STRAIGHTWAY_INITIAL(straightway_record_options)
#define STRAIGHTWAY_PLAY_OPTIONS_INIT STRAIGHTWAY_INITIAL(straightway_play_options)
#define STRAIGHTWAY_MAP_OPTIONS_INIT STRAIGHTWAY_INITIAL(straightway_map_options)

// Memory for a file's name of up to 64 bytes of UTF-8, and the end.
#define STRAIGHTWAY_NAME_SIZE 65

// Memory for any file's name: 255 bytes of UTF-8 and the end.
#define STRAIGHTWAY_WHOLE_NAME_SIZE 256

// The status of a call, and of a request: the exit codes of the command, and two more.
enum straightway_status {
  // Done.
  STRAIGHTWAY_STATUS_OK = 0,
  // The device or the operating system failed.
  STRAIGHTWAY_STATUS_FAILED = 1,
  // Invalid arguments.
  STRAIGHTWAY_STATUS_USAGE = 2,
  // The device is missing, in use or not permitted.
  STRAIGHTWAY_STATUS_MISSING = 3,
  // This machine or this device does not support it.
  STRAIGHTWAY_STATUS_UNSUPPORTED = 4,
  // Stored data does not match its checksum.
  STRAIGHTWAY_STATUS_ROT = 6,
  // A recording ended because the drive did not keep up.
  STRAIGHTWAY_STATUS_LATE = 7,
  // No space left.
  STRAIGHTWAY_STATUS_FULL = 8,
  // The name is taken.
  STRAIGHTWAY_STATUS_EXISTS = 9,
  // No file has this name, or no further file.
  STRAIGHTWAY_STATUS_NOT_FOUND = 10,
  // As many requests are in flight as the device takes: poll first.
  STRAIGHTWAY_STATUS_AGAIN = 64,
  // A defect of the library. The handle can only be closed.
  STRAIGHTWAY_STATUS_DEFECT = 65,
};

// What happens to a message that finds no memory, because the drive did not keep up.
enum straightway_on_full {
  // The recording ends, with STRAIGHTWAY_STATUS_LATE; what came before is kept.
  STRAIGHTWAY_ON_FULL_END = 0,
  // The message is dropped, and NAME.gaps in the volume lists where, how much and when.
  STRAIGHTWAY_ON_FULL_DROP = 1,
  // straightway_recorder_append waits for memory.
  STRAIGHTWAY_ON_FULL_WAIT = 2,
};

// How to open a device. Begin with STRAIGHTWAY_OPTIONS_INIT.
struct straightway_options {
  // sizeof(struct straightway_options): later versions of the library can have more members.
  size_t size;
  // 1 to write the device, 0 to read it.
  uint32_t write;
  // The namespace of a controller, or 0 for its usual one.
  uint32_t namespace_id;
  // Required to write: the drive's serial number, or the file's path. NULL for memory.
  const char *destroy_data;
  // A path, as `straightway read --path` takes it, or NULL for the usual one.
  const char *path;
  // "poll", "interrupt", "hybrid", or NULL for the usual one.
  const char *mode;
  // Memory for all buffers, or 0 for 16 MiB.
  size_t buffer_bytes;
  // Requests in flight, or 0 for 32.
  uint32_t queue_depth;
};

// An open device. It belongs to the thread that opened it. 0 is none.
typedef uint64_t straightway_device;

// A device's shape and limits.
struct straightway_geometry {
  // sizeof(struct straightway_geometry), set by the caller.
  size_t size;
  // Bytes of a logical block.
  uint32_t block_size_bytes;
  // The most requests in flight.
  uint32_t queue_depth;
  // Logical blocks.
  uint64_t block_count;
  // The longest transfer of one request, in bytes.
  uint64_t max_transfer_bytes;
  // 1 if completed writes may be lost at a power cut until a flush.
  uint32_t volatile_write_cache;
  // 1 if it cannot be written.
  uint32_t read_only;
};

// The end of a request.
struct straightway_completion {
  // The number that it was submitted with.
  uint64_t tag;
  // Its memory, which belongs to the caller again; NULL for a flush.
  void *buffer;
  // Its length.
  uint64_t bytes;
  // Its result. straightway_error() has the text of the last one that failed in a call of
  // straightway_poll.
  enum straightway_status status;
  // The drive's status field (NVMe Base Specification, "Completion Queue Entry: Status Field")
  // if it answered with an error, or 0.
  uint32_t nvme_status;
};

// A generic or vendor specific command (NVMe Base Specification, "Submission Queue Entry").
struct straightway_command {
  // sizeof(struct straightway_command).
  size_t size;
  // 1 for an I/O queue, 0 for the admin queue.
  uint32_t is_io;
  // The opcode. Its bits 1:0 are the direction of the data: 1 to the drive, 2 from the drive, 0
  // none.
  uint32_t opcode;
  // The namespace of an admin command; or of an I/O command, or 0 for the drive's only one.
  uint32_t namespace_id;
  // Command dwords 10 to 13.
  uint32_t dwords[4];
  // Its name, which allows it, as `straightway command --allow` takes it: "identify",
  // "vendor-c1". NULL is refused.
  const char *name;
  // The data, in any memory: at most 4 KiB of an admin command, 1 MiB of an I/O command.
  void *data;
  // Its length.
  size_t bytes;
  // Set by the call: dword 0 of an admin command's completion, 0 of an I/O command.
  uint32_t result;
};

// How to make a volume. Begin with STRAIGHTWAY_FORMAT_OPTIONS_INIT.
struct straightway_format_options {
  // sizeof(struct straightway_format_options).
  size_t size;
  // The drive's serial number: its data will be lost. Required for a drive; NULL for memory and
  // plain files.
  const char *destroy_data;
  // 1 to format a plain file that holds data.
  uint32_t force;
  // 1 if files can have checksums.
  uint32_t checksums;
  // Bytes of the volume, or 0 for the whole device. A plain file that is missing or empty gets
  // this size.
  uint64_t volume_bytes;
  // Bytes of a unit of allocation, or 0 for the usual ones.
  uint64_t unit_bytes;
  // The most files, or 0 for the usual number.
  uint32_t slots;
  // At most 32 bytes, or NULL.
  const char *label;
};

// A mounted volume. It belongs to the thread that opened it. 0 is none.
typedef uint64_t straightway_volume;

// A mounted volume's shape and state.
struct straightway_volume_status {
  // sizeof(struct straightway_volume_status), set by the caller.
  size_t size;
  // Bytes that files can have together.
  uint64_t capacity_bytes;
  // Bytes of these that are free.
  uint64_t free_bytes;
  // Bytes of a unit of allocation.
  uint64_t unit_bytes;
  // The most files.
  uint32_t slots;
  // 1 if files can have checksums.
  uint32_t checksums;
  // 1 if it cannot be changed.
  uint32_t read_only;
  // Its identity.
  uint8_t uuid[16];
  // Its label.
  char label[33];
};

// A file of a volume.
struct straightway_entry {
  // sizeof(struct straightway_entry), set by the caller.
  size_t size;
  // Bytes of data.
  uint64_t size_bytes;
  // Bytes that it occupies.
  uint64_t allocated_bytes;
  // When it was last synced, in nanoseconds since 1970; 0 if that is unknown.
  uint64_t mtime_ns;
  // The number that the application gave it.
  uint64_t app_tag;
  // 1 if it has checksums.
  uint32_t checksums;
  // Its name, if that has at most 64 bytes; otherwise empty.
  char name[STRAIGHTWAY_NAME_SIZE];
  // Its name. Programs that were built before this member get an error for a file whose name has
  // more than 64 bytes.
  char whole_name[STRAIGHTWAY_WHOLE_NAME_SIZE];
};

// An open file of a volume. It belongs to the thread that opened it. 0 is none.
typedef uint64_t straightway_file;

// A file to be made by straightway_volume_create_many.
struct straightway_new_file {
  // sizeof(struct straightway_new_file).
  size_t size;
  // Its name.
  const char *name;
  // All that it will hold; NULL if `bytes` is 0.
  const void *data;
  // Bytes of these.
  size_t bytes;
  // Any number to keep.
  uint64_t app_tag;
};

// How to record. Begin with STRAIGHTWAY_RECORD_OPTIONS_INIT.
struct straightway_record_options {
  // sizeof(struct straightway_record_options).
  size_t size;
  // Bytes that the drive gets at once, or 0 for 1 MiB: messages are gathered into such blocks.
  // `commit_ms` limits how long.
  uint64_t block_bytes;
  // Blocks of memory, 2 to 4096, or 0 for 16.
  uint32_t buffers;
  // An enum straightway_on_full.
  uint32_t on_full;
  // How long after its first byte's arrival a block must be written, in microseconds, or 0 for 100000.
  // Misses are counted.
  uint64_t deadline_us;
  // How long after it was written a block is made durable, or 0 for 1000. What has waited as
  // long in a block that is not full is written, but for its last 4095 bytes at most; what is in
  // straightway_record_report.durable_bytes survives a power cut.
  uint32_t commit_ms;
  // Expected length, whose space is set aside at the beginning, or 0.
  uint64_t total_bytes;
  // 1 to go on at the end of the file, if there is one; its size must be a multiple of the
  // device's block.
  uint32_t append;
  // With format "sigmf": channels whose samples alternate, or 0 for 1.
  uint32_t channels;
  // Bytes of a segment: another file begins when one has this size, FILE_NAME.000001 and so on;
  // or 0 for one file.
  uint64_t segment_bytes;
  // The same each time one has gone on for so long, in microseconds; or 0. Only one of both.
  uint64_t segment_us;
  // The oldest segments are removed so that all have at most this size: a ring; or 0 for none.
  uint64_t keep_bytes;
  // What `straightway export` makes of it: "raw", "sigmf" or "mcap", or NULL for "raw". With
  // "mcap" and STRAIGHTWAY_ON_FULL_DROP a message has whole records, and none that a later one
  // needs: a dropped one is missing whole.
  const char *format;
  // With format "sigmf": the type of a sample, as in "ci16_le"; NULL with `append`: what the
  // file has.
  const char *sigmf_datatype;
  // With format "sigmf": samples per second, or 0 with `append`.
  double sample_rate_hz;
  // With format "sigmf": the centre frequency, or 0 if there is none.
  double frequency_hz;
  // With format "sigmf": the receiver in words, or NULL.
  const char *hardware;
};

// A recording in progress. It belongs to the thread that opened it. 0 is none.
typedef uint64_t straightway_recorder;

// A recording's counters.
struct straightway_record_report {
  // sizeof(struct straightway_record_report), set by the caller.
  size_t size;
  // Bytes of the blocks that were handed to the drive.
  uint64_t bytes;
  // Bytes of these that survive a power cut.
  uint64_t durable_bytes;
  // Messages that were dropped.
  uint64_t lost_messages;
  // Their bytes.
  uint64_t lost_bytes;
  // Runs of dropped messages with none between that was kept.
  uint64_t gaps;
  // Blocks that were written after their deadline.
  uint64_t misses;
  // The longest time from a block's arrival until it was written, in microseconds.
  uint64_t latency_max_us;
  // The high-water mark: most blocks that waited or were being written at one time.
  uint64_t waiting_max_blocks;
  // The same in bytes.
  uint64_t waiting_max_bytes;
  // Writes that failed and were repeated.
  uint64_t retries;
};

// How to play. Begin with STRAIGHTWAY_PLAY_OPTIONS_INIT.
struct straightway_play_options {
  // sizeof(struct straightway_play_options).
  size_t size;
  // Bytes per second, or 0 for as fast as the program takes blocks.
  uint64_t bytes_per_second;
  // How long after it is due a block must be there, in microseconds, or 0 for 100000. Misses are
  // counted.
  uint64_t deadline_us;
  // Bytes of a block, or 0 for 1 MiB; a multiple of 64 KiB if checksums are compared.
  uint64_t block_bytes;
  // Blocks of memory that are read ahead, 1 to 4096, or 0 for 16.
  uint32_t buffers;
  // 1 not to compare checksums.
  uint32_t no_verify;
};

// A playback in progress. It belongs to the thread that opened it. 0 is none.
typedef uint64_t straightway_player;

// A playback's counters.
struct straightway_play_report {
  // sizeof(struct straightway_play_report), set by the caller.
  size_t size;
  // Bytes of the blocks that were delivered.
  uint64_t bytes;
  // Blocks that were delivered after their deadline.
  uint64_t misses;
  // The longest by which a deadline was missed, in microseconds.
  uint64_t lateness_max_us;
  // The longest time from a block's due time until it was delivered, in microseconds.
  uint64_t latency_max_us;
  // Blocks that had not been read when they were due, or for which the program left no memory.
  uint64_t underruns;
  // Reads that failed and were repeated.
  uint64_t retries;
};

// How to map. Begin with STRAIGHTWAY_MAP_OPTIONS_INIT.
struct straightway_map_options {
  // sizeof(struct straightway_map_options).
  size_t size;
  // Bytes that are read when one is touched: a power of two from 4096 to 2 MiB, or 0 for 64 KiB.
  // Checksums are compared if it is at least that.
  size_t page_bytes;
  // The most memory that holds content, or 0 for 64 MiB. Half of it can be stored to before it
  // is written.
  size_t memory_bytes;
  // Bytes that are read behind what is touched, for accesses in ascending order; or 0 for none.
  size_t read_ahead_bytes;
};

// A file of a volume, or a device, as memory. It belongs to the thread that opened it; all threads
// can use the memory. 0 is none.
typedef uint64_t straightway_map;

// What a map has done so far.
struct straightway_map_counters {
  // sizeof(struct straightway_map_counters), set by the caller.
  size_t size;
  // Times that a thread waited for a page.
  uint64_t faults;
  // Pages that were read.
  uint64_t reads;
  // Those of them that no thread had touched.
  uint64_t reads_ahead;
  // Pages that were written.
  uint64_t writes;
  // Pages whose memory was taken for others.
  uint64_t evictions;
  // Accesses that could not be served and pages that could not be written.
  uint64_t failures;
};

// An access that could not be served, or a page that could not be written.
struct straightway_map_failure {
  // sizeof(struct straightway_map_failure), set by the caller.
  size_t size;
  // The page's first byte in the map.
  uint64_t offset;
  // 1 if its write failed, and the next sync tries again; 0 if its read failed, and the access
  // got SIGBUS.
  uint32_t write;
  // Why; straightway_error() has the text.
  enum straightway_status status;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, for example "0.1.0".
const char *straightway_version(void);

// What the last failed call of this thread said: one line, valid until the thread's next failed
// call.
const char *straightway_error(void);

// What to do about it, or an empty string; valid as long.
const char *straightway_hint(void);

// Opens a device by any name that the command takes: nvme0n1, a PCI address, a file, ram:64M, ...
// `options` may be NULL.
//
// A drive may be taken from its kernel driver until straightway_close; the next `straightway`
// command returns it if the program dies.
enum straightway_status straightway_open(const char *name,
                                         const struct straightway_options *options,
                                         straightway_device *device);

// Waits for all requests in flight, frees all buffers, and closes the device.
enum straightway_status straightway_close(straightway_device device);

// The device's shape and limits. The caller sets `size`.
enum straightway_status straightway_get_geometry(straightway_device device, struct straightway_geometry *geometry);

// Writes the name of the path by which the device is reached, as `straightway read --path` takes
// it, into `bytes` of `name`.
enum straightway_status straightway_get_path(straightway_device device, char *name, size_t bytes);

// Allocates a buffer at the start of a page, in memory that the device reaches.
enum straightway_status straightway_alloc(straightway_device device, size_t bytes, void **buffer);

// Frees a buffer of straightway_alloc.
enum straightway_status straightway_free(straightway_device device, void *buffer);

// Reads any number of whole blocks from byte `offset` of the device, and returns when they are
// there. Requests in flight stay so.
enum straightway_status straightway_read(straightway_device device, uint64_t offset, void *buffer, size_t bytes);

// Writes likewise. With `durable` 1, returns when the data survives a power cut.
enum straightway_status straightway_write(straightway_device device,
                                          uint64_t offset,
                                          const void *buffer,
                                          size_t bytes,
                                          uint32_t durable);

// Makes all completed writes durable.
enum straightway_status straightway_flush(straightway_device device);

// Gives whole blocks from byte `offset` back to the drive (trim): until they are written again, a
// read of them may return anything. A discard is like a write, and needs a device that was opened
// to write. Requests in flight stay so. It fails with STRAIGHTWAY_STATUS_UNSUPPORTED where the
// drive or the path has none.
enum straightway_status straightway_discard(straightway_device device, uint64_t offset, uint64_t bytes);

// Submits a read of at most max_transfer_bytes. Until its completion the memory belongs to the
// device. The device may hold it back until straightway_kick or straightway_wait.
enum straightway_status straightway_submit_read(straightway_device device,
                                                uint64_t offset,
                                                void *buffer,
                                                size_t bytes,
                                                uint64_t tag);

// Submits a write likewise. With `durable` 1, it completes when the data survives a power cut.
enum straightway_status straightway_submit_write(straightway_device device,
                                                 uint64_t offset,
                                                 const void *buffer,
                                                 size_t bytes,
                                                 uint32_t durable,
                                                 uint64_t tag);

// Submits a flush, which covers the writes that have completed.
enum straightway_status straightway_submit_flush(straightway_device device, uint64_t tag);

// Starts everything that was submitted: one doorbell or system call for all of it.
enum straightway_status straightway_kick(straightway_device device);

// Takes up to `most` ends of requests, without waiting; `count` tells how many. Requests end in
// any order.
enum straightway_status straightway_poll(straightway_device device,
                                         struct straightway_completion *completions,
                                         size_t most,
                                         size_t *count);

// Starts what was submitted, and sleeps until a completion may be there or the time has passed. A
// polled device returns at once.
enum straightway_status straightway_wait(straightway_device device, uint32_t timeout_us);

// How many submitted requests have not been polled.
enum straightway_status straightway_outstanding(straightway_device device, size_t *count);

// Sends a command to a drive that this process drives itself (a straight path, or model:SIZE), and
// waits for its end. Requests in flight stay so. A command that may change the drive or its data
// needs a device that was opened to write. What the driver owns (queues, events, doorbells) is
// refused.
enum straightway_status straightway_send_command(straightway_device device, struct straightway_command *command);

// Makes the volume on the device that the command calls `name` longer or shorter, under its
// conditions: its files stay where they are. `volume_bytes` is the new size, or 0 for all of the
// device; a plain file that is shorter is made longer. Of `options`, path, mode and namespace_id
// are used; they may be NULL. `after_bytes`, if it is not NULL, is the size then. Nothing else may
// have the volume open. STRAIGHTWAY_STATUS_FULL: its files do not fit, and nothing was changed.
enum straightway_status straightway_resize(const char *name,
                                           const struct straightway_options *options,
                                           uint64_t volume_bytes,
                                           uint64_t *after_bytes);

// Makes an empty volume on the device that the command calls `name`, under its conditions.
// `options` may be NULL.
enum straightway_status straightway_format(const char *name, const struct straightway_format_options *options);

// Opens the volume on the device that the command calls `name`: to read it, or with options.write
// also to change it, which needs no destroy_data. options.buffer_bytes is for the files' buffers:
// each file that is read or appended to takes 1 MiB for either. `options` may be NULL. At most 64
// files of a volume are open at the same time.
enum straightway_status straightway_volume_open(const char *name,
                                                const struct straightway_options *options,
                                                straightway_volume *volume);

// Syncs and closes the volume's open files, unmounts it and closes its device. The handles are
// closed in every case.
enum straightway_status straightway_volume_close(straightway_volume volume);

// The volume's shape and state. Counting its free space reads every bitmap. The caller sets
// `size`.
enum straightway_status straightway_volume_get_status(straightway_volume volume,
                                                      struct straightway_volume_status *status);

// The next file, in no order: `cursor` is 0 before the first call, and the call moves it.
// STRAIGHTWAY_STATUS_NOT_FOUND after the last one. Files that come and go between the calls may be
// in the list or not. The caller sets `size` of `entry`.
enum straightway_status straightway_volume_next(straightway_volume volume,
                                                uint32_t *cursor,
                                                struct straightway_entry *entry);

// The file of this name. The caller sets `size` of `entry`.
enum straightway_status straightway_volume_find(straightway_volume volume,
                                                const char *name,
                                                struct straightway_entry *entry);

// Renames a file, which must not be open, to a name that is free. It has either name after a power
// cut, and the new one when this returns.
enum straightway_status straightway_volume_rename(straightway_volume volume, const char *name, const char *new_name);

// Removes a file, which must not be open, and frees its space.
enum straightway_status straightway_volume_remove(straightway_volume volume, const char *name);

// Opens a file to read it; with `append` 1 also to append to it, which one handle can at a time.
enum straightway_status straightway_file_open(straightway_volume volume,
                                              const char *name,
                                              uint32_t append,
                                              straightway_file *file);

// Makes an empty file, durably, and opens it to append to it. Space for `reserve_bytes` is set
// aside until it is closed, or 0. With `checksums` 1 each 64 KiB get a checksum, which a read
// compares; the volume must have been made with checksums. `app_tag` is any number to keep.
enum straightway_status straightway_file_create(straightway_volume volume,
                                                const char *name,
                                                uint64_t reserve_bytes,
                                                uint32_t checksums,
                                                uint64_t app_tag,
                                                straightway_file *file);

// Makes `count` whole files, durably. Up to 1,024 of less than 64 KiB share the flushes of one
// operation, so this is the way to store many small files; a longer one takes an operation of its
// own. `made`, if it is not NULL, is how many were made, also after an error: the first ones.
// After a power cut each of them is there, whole, or not at all; a longer one may be there, empty.
// `checksums` is as in straightway_file_create.
enum straightway_status straightway_volume_create_many(straightway_volume volume,
                                                       const struct straightway_new_file *files,
                                                       size_t count,
                                                       uint32_t checksums,
                                                       size_t *made);

// Syncs a file and closes it. After an error it is closed too, with what was durable before.
enum straightway_status straightway_file_close(straightway_file file);

// A file's durable size.
enum straightway_status straightway_file_get_size(straightway_file file, uint64_t *size_bytes);

// Reads `bytes` from any `offset` of a file into any memory. `count` is less only at the file's
// durable size: what was appended and not synced cannot be read. Of a file with checksums, whole
// chunks of 64 KiB are read and compared; STRAIGHTWAY_STATUS_ROT if they differ.
enum straightway_status straightway_file_read(straightway_file file,
                                              uint64_t offset,
                                              void *buffer,
                                              size_t bytes,
                                              size_t *count);

// Appends `bytes` of any memory, which is the caller's again when this returns. They are part of
// the file, and durable, after the next straightway_file_sync or straightway_file_close. After an
// error the file has what was synced, and perhaps some of what was appended since.
enum straightway_status straightway_file_append(straightway_file file, const void *buffer, size_t bytes);

// Makes all that was appended durable. When it returns STRAIGHTWAY_STATUS_OK, the file has at
// least all of it after a power cut at any time; `size_bytes`, if it is not NULL, is the file's
// size then.
enum straightway_status straightway_file_sync(straightway_file file, uint64_t *size_bytes);

// Begins to record a new file on the volume of the device that the command calls `name`. A thread
// of the library writes it, and the device belongs to that thread until
// straightway_recorder_close. Of `options`, path, mode and namespace_id are used; both options may
// be NULL. A file of a volume with checksums has them.
enum straightway_status straightway_recorder_open(const char *name,
                                                  const char *file_name,
                                                  const struct straightway_options *options,
                                                  const struct straightway_record_options *record_options,
                                                  straightway_recorder *recorder);

// Hands in a message of any length, which arrived `age_us` microseconds ago: it is copied, and the
// caller's again when this returns. It never waits for the drive, except with
// STRAIGHTWAY_ON_FULL_WAIT. `kept`, if it is not NULL, is 0 if the message was dropped, whole.
// After an error the recording has ended, and is closed as usual.
enum straightway_status straightway_recorder_append(straightway_recorder recorder,
                                                    const void *buffer,
                                                    size_t bytes,
                                                    uint64_t age_us,
                                                    uint32_t *kept);

// The counters so far, a moment old. The caller sets `size`.
enum straightway_status straightway_recorder_get_report(straightway_recorder recorder,
                                                        struct straightway_record_report *report);

// Ends the recording, and returns when all of it is durable and the device is closed. `report`, if
// it is not NULL, has the last counters, also after an error: durable_bytes of it are in the file.
// The handle is closed in every case.
enum straightway_status straightway_recorder_close(straightway_recorder recorder,
                                                   struct straightway_record_report *report);

// Begins to play a file of the volume on the device that the command calls `name`. A thread of the
// library reads it ahead, and the device belongs to that thread until straightway_player_close. Of
// `options`, path, mode and namespace_id are used; both options may be NULL.
enum straightway_status straightway_player_open(const char *name,
                                                const char *file_name,
                                                const struct straightway_options *options,
                                                const struct straightway_play_options *play_options,
                                                straightway_player *player);

// Waits until the next block is due and there, and lends it: `bytes` at `block`, to read, until
// the next call for this player. After the last block `block` is NULL and `bytes` is 0. Time
// begins with the first block. `offset`, if it is not NULL, is where in the file it is. After an
// error the playback has ended, and is closed as usual.
enum straightway_status straightway_player_next(straightway_player player,
                                                const void **block,
                                                size_t *bytes,
                                                uint64_t *offset);

// Ends the playback, wherever it is, and closes the device. `report`, if it is not NULL, has the
// counters, also after an error. The handle is closed in every case.
enum straightway_status straightway_player_close(straightway_player player, struct straightway_play_report *report);

// Maps `file_name`, a file of the volume on the device that the command calls `name`; or the
// device itself, if it is NULL. Until straightway_map_close the device belongs to the map, whose
// thread reads a page when it is first touched. Both options may be NULL.
//
// Of `options`, path, mode, namespace_id, write and queue_depth, the pages that are read or
// written at the same time, are used. With `write` the memory can be stored to: a file's data
// changes in place, which needs a file without checksums, and its size stays. A device also needs
// destroy_data.
//
// Where a page cannot be read, or a map for reading is stored to, the access ends in a signal as
// with mmap; straightway_map_pin returns an error. A child process does not inherit the memory.
// Needs userfaultfd, or fails with STRAIGHTWAY_STATUS_UNSUPPORTED.
enum straightway_status straightway_map_open(const char *name,
                                             const char *file_name,
                                             const struct straightway_options *options,
                                             const struct straightway_map_options *map_options,
                                             straightway_map *map);

// Where the memory begins, and how many bytes the file or the device has. Any thread can use it
// until straightway_map_close.
enum straightway_status straightway_map_get_memory(straightway_map map, void **memory, uint64_t *bytes);

// Reads a range soon, without waiting: as much of it, from its start, as there is memory for.
enum straightway_status straightway_map_prefetch(straightway_map map, uint64_t offset, uint64_t bytes);

// Reads a range and keeps it in memory until it is unpinned, as often as it was pinned: loads from
// it neither wait nor fail.
enum straightway_status straightway_map_pin(straightway_map map, uint64_t offset, uint64_t bytes);

// Lets the memory of a pinned range be used for other pages again.
enum straightway_status straightway_map_unpin(straightway_map map, uint64_t offset, uint64_t bytes);

// Writes what was stored until now, and makes it durable. What cannot be written stays in memory,
// for the next sync.
enum straightway_status straightway_map_sync(straightway_map map);

// What the map has done so far. The caller sets `size`.
enum straightway_status straightway_map_get_counters(straightway_map map, struct straightway_map_counters *counters);

// Takes the oldest failure of the last thousand; STRAIGHTWAY_STATUS_NOT_FOUND if there is none.
// The caller sets `size`.
enum straightway_status straightway_map_take_failure(straightway_map map, struct straightway_map_failure *failure);

// Makes durable what was stored, ends the map and closes the device. No thread may use the memory
// from the beginning of this call on. The handle is closed in every case; an error says that what
// was stored since the last sync may be lost.
enum straightway_status straightway_map_close(straightway_map map);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* STRAIGHTWAY_H */
