/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The ioctls of /dev/chardiskXnY, shared with user space.
 *
 * Every structure has the same layout for 32-bit and 64-bit callers, and every reserved field must
 * be zero. docs/chario.md describes each call.
 */
#ifndef CHARIO_H
#define CHARIO_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define CHARIO_VERSION 1

/* How a file's calls learn that the drive has finished. */
#define CHARIO_INTERRUPT 0
#define CHARIO_POLL 1

/* struct chario_info, flags */
#define CHARIO_INFO_READ_ONLY (1u << 0)
#define CHARIO_INFO_WRITE_CACHE (1u << 1) /* fsync reaches the drive */
#define CHARIO_INFO_POLL_QUEUES (1u << 2) /* polling takes no interrupts */
#define CHARIO_INFO_TRANSLATED (1u << 3) /* an IOMMU translates the drive's addresses */

/* struct chario_transfer and struct chario_phys, flags */
#define CHARIO_WRITE (1u << 0) /* to the drive; otherwise from it */
#define CHARIO_FUA (1u << 1) /* a write that returns when the data is durable */

struct chario_info {
	__u32 version;
	__u32 flags;
	__u32 nsid;
	__u32 block_bytes;
	__u32 command_bytes; /* the largest command */
	__u32 unit_bytes; /* a call is split into units, a unit into commands */
	__u32 queue_depth;
	__u32 lanes; /* pairs of queues */
	__u32 buffer_align_bytes;
	__u32 registered_max; /* registered buffers a file may have */
	__u64 size_bytes;
};

/* struct chario_register, flags: read() and write() with memory in it use it too */
#define CHARIO_BY_ADDRESS (1u << 0)

struct chario_register {
	__u64 address;
	__u64 length;
	__u32 buffer; /* out: the number for struct chario_transfer */
	__u32 flags;
};

/* A transfer with a registered buffer. Returns the number of bytes moved, as read() does. */
struct chario_transfer {
	__u64 position; /* on the drive, in bytes */
	__u64 length;
	__u64 offset; /* in the registered buffer */
	__u32 buffer;
	__u32 flags;
};

/* A transfer with memory inside a granted window. Returns the number of bytes moved. */
struct chario_phys {
	__u64 position;
	__u64 length;
	__u64 address; /* physical */
	__u32 flags;
	__u32 reserved;
};

/* Physical memory that transfers and mmap() of this controller's files may name. */
struct chario_window {
	__u64 address;
	__u64 length;
};

#define CHARIO_IOC_INFO _IOR('c', 0xc0, struct chario_info)
#define CHARIO_IOC_COMPLETION _IOW('c', 0xc1, __u32)
#define CHARIO_IOC_REGISTER _IOWR('c', 0xc2, struct chario_register)
#define CHARIO_IOC_UNREGISTER _IOW('c', 0xc3, __u32)
#define CHARIO_IOC_TRANSFER _IOW('c', 0xc4, struct chario_transfer)
#define CHARIO_IOC_PHYS _IOW('c', 0xc5, struct chario_phys)
#define CHARIO_IOC_GRANT _IOW('c', 0xc6, struct chario_window)
#define CHARIO_IOC_REVOKE _IOW('c', 0xc7, struct chario_window)

#endif
