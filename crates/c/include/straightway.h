// libstraightway: the straight path to a drive. Generated from crates/c by its test; do not edit.
//
// A call returns a straightway_status; straightway_error() and straightway_hint() have the reason as text. A device belongs to the
// thread that opened it, and a handle that is closed or of another thread is an error. Memory for transfers comes from
// straightway_alloc, and any part of it can be given to a request; while a request is in flight its memory belongs to the device.

#ifndef STRAIGHTWAY_H
#define STRAIGHTWAY_H

#include <stddef.h>
#include <stdint.h>
// struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
#define STRAIGHTWAY_OPTIONS_INIT { .size = sizeof(struct straightway_options) }

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
  // No space left.
  STRAIGHTWAY_STATUS_FULL = 8,
  // As many requests are in flight as the device takes: poll first.
  STRAIGHTWAY_STATUS_AGAIN = 64,
  // A defect of the library. The handle can only be closed.
  STRAIGHTWAY_STATUS_DEFECT = 65,
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
  // Its result. straightway_error() has the text of the last one that failed in a call of straightway_poll.
  enum straightway_status status;
  // The drive's status field (NVMe Base Specification, "Completion Queue Entry: Status Field") if it answered with an error, or 0.
  uint32_t nvme_status;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, for example "0.1.0".
const char *straightway_version(void);

// What the last failed call of this thread said: one line, valid until the thread's next failed call.
const char *straightway_error(void);

// What to do about it, or an empty string; valid as long.
const char *straightway_hint(void);

// Opens a device by any name that the command takes: nvme0n1, a PCI address, a file, ram:64M, ... `options` may be NULL.
//
// A drive may be taken from its kernel driver until straightway_close; the next `straightway` command returns it if the program dies.
enum straightway_status straightway_open(const char *name,
                                         const struct straightway_options *options,
                                         straightway_device *device);

// Waits for all requests in flight, frees all buffers, and closes the device.
enum straightway_status straightway_close(straightway_device device);

// The device's shape and limits. The caller sets `size`.
enum straightway_status straightway_get_geometry(straightway_device device, struct straightway_geometry *geometry);

// Writes the name of the path by which the device is reached, as `straightway read --path` takes it, into `bytes` of `name`.
enum straightway_status straightway_get_path(straightway_device device,
                                             char *name,
                                             size_t bytes);

// Allocates a buffer at the start of a page, in memory that the device reaches.
enum straightway_status straightway_alloc(straightway_device device, size_t bytes, void **buffer);

// Frees a buffer of straightway_alloc.
enum straightway_status straightway_free(straightway_device device, void *buffer);

// Reads any number of whole blocks from byte `offset` of the device, and returns when they are there. Requests in flight stay so.
enum straightway_status straightway_read(straightway_device device,
                                         uint64_t offset,
                                         void *buffer,
                                         size_t bytes);

// Writes likewise. With `durable` 1, returns when the data survives a power cut.
enum straightway_status straightway_write(straightway_device device,
                                          uint64_t offset,
                                          const void *buffer,
                                          size_t bytes,
                                          uint32_t durable);

// Makes all completed writes durable.
enum straightway_status straightway_flush(straightway_device device);

// Submits a read of at most max_transfer_bytes. Until its completion the memory belongs to the device. The device may hold it back
// until straightway_kick or straightway_wait.
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

// Takes up to `most` ends of requests, without waiting; `count` tells how many. Requests end in any order.
enum straightway_status straightway_poll(straightway_device device,
                                         struct straightway_completion *completions,
                                         size_t most,
                                         size_t *count);

// Starts what was submitted, and sleeps until a completion may be there or the time has passed. A polled device returns at once.
enum straightway_status straightway_wait(straightway_device device,
                                         uint32_t timeout_us);

// How many submitted requests have not been polled.
enum straightway_status straightway_outstanding(straightway_device device, size_t *count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* STRAIGHTWAY_H */
