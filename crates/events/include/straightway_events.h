/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Stamps events from C: into a file of memory, by the processor's counter, or with the profiling timer rtl/timer, mapped.
 *
 *     struct swt_ring ring;
 *
 *     if (swt_ring_create(&ring, "/dev/shm/events", "control loop", 65536))
 *             return -1;                      // errno says why
 *     swt_ring_record(&ring);
 *     swt_stamp(&ring, 1);                    // some ten instructions, no system call
 *     swt_ring_close(&ring);                  // straightway timeline /dev/shm/events
 *
 * The file is a dump at any time (crates/events/README.md). A ring belongs to one thread. It keeps the first events of a run: those
 * that find no room are counted in `lost`. Functions return 0, or -1 with errno. Needs nothing but this file; C99 with GNU's
 * assembly; x86-64, AArch64 and RISC-V have a counter, others use CLOCK_MONOTONIC.
 */
#ifndef STRAIGHTWAY_EVENTS_H
#define STRAIGHTWAY_EVENTS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SWT_MAGIC 0x56455753u /* SWEV */
#define SWT_HEADER_BYTES 4096u
#define SWT_VALID (UINT64_C(2) << 32)

/* The page before a ring's events; little-endian, as every processor that is named above. */
struct swt_header {
	uint32_t magic, version, capacity, number;
	uint64_t lost, begin_counter, begin_ns, end_counter, end_ns;
	char name[32];
};

struct swt_event {
	uint64_t counter;
	/* The tag, and SWT_VALID. */
	uint64_t word;
};

struct swt_ring {
	struct swt_header *header;
	/* Where the next event goes, and where there is no more room: `next` while it is paused. */
	struct swt_event *next, *end;
	bool records;
};

static inline uint64_t swt_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t swt_counter(void)
{
#if defined(__x86_64__)
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t value;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#elif defined(__riscv) && __riscv_xlen == 64
	uint64_t value;

	__asm__ volatile("rdtime %0" : "=r"(value));
	return value;
#else
	return swt_now_ns();
#endif
}

/* Bytes of a ring's file, or 0 if `capacity` is 0. */
static inline size_t swt_ring_bytes(uint32_t capacity)
{
	return capacity ? SWT_HEADER_BYTES + sizeof(struct swt_event) * (size_t)capacity : 0;
}

/*
 * A ring of `capacity` events in a new file, best below /dev/shm; `name` is shown in the timeline. It is paused, and empty. A file
 * that exists is left alone: EEXIST.
 */
static inline int swt_ring_create(struct swt_ring *ring, const char *path, const char *name, uint32_t capacity)
{
	size_t bytes = swt_ring_bytes(capacity);
	int file, error;
	void *memory;

	if (!bytes) {
		errno = EINVAL;
		return -1;
	}
	file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return -1;
	/* Space that is missing is an error here, not a signal at a store. */
	error = posix_fallocate(file, 0, (off_t)bytes);
	memory = error ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED) {
		error = error ? error : errno;
		close(file);
		unlink(path);
		errno = error;
		return -1;
	}
	close(file);
	/* Also makes each page present: the first event of a page must not wait for it. */
	memset(memory, 0, bytes);
	ring->header = (struct swt_header *)memory;
	ring->next = ring->end = (struct swt_event *)((char *)memory + SWT_HEADER_BYTES);
	ring->records = false;
	ring->header->version = 1;
	ring->header->capacity = capacity;
	ring->header->number = (uint32_t)syscall(SYS_gettid);
	strncpy(ring->header->name, name, sizeof(ring->header->name) - 1);
	__atomic_store_n(&ring->header->magic, SWT_MAGIC, __ATOMIC_RELEASE);
	return 0;
}

/* The counter and the clock at one moment: of five readings the one that took the shortest time. */
static inline void swt_anchor(uint64_t *counter, uint64_t *ns)
{
	uint64_t shortest = UINT64_MAX;
	int turn;

	for (turn = 0; turn < 5; turn++) {
		uint64_t before = swt_counter(), now = swt_now_ns(), taken = swt_counter() - before;

		if (taken < shortest) {
			shortest = taken;
			*counter = before + taken / 2;
			*ns = now;
		}
	}
}

/* From now on events are stored. */
static inline void swt_ring_record(struct swt_ring *ring)
{
	if (!ring->header->begin_ns)
		swt_anchor(&ring->header->begin_counter, &ring->header->begin_ns);
	ring->end = (struct swt_event *)((char *)ring->header + swt_ring_bytes(ring->header->capacity));
	ring->records = true;
}

/* From now on events are neither stored nor counted. */
static inline void swt_ring_pause(struct swt_ring *ring)
{
	ring->end = ring->next;
	ring->records = false;
	swt_anchor(&ring->header->end_counter, &ring->header->end_ns);
}

/* Stamps an event, if the ring records. */
static inline void swt_stamp(struct swt_ring *ring, uint32_t tag)
{
	struct swt_event *next = ring->next;

	if (__builtin_expect(next == ring->end, 0)) {
		ring->header->lost += ring->records;
		return;
	}
	/* The counter first, then the word that makes the event valid. */
	*(volatile uint64_t *)&next->counter = swt_counter();
	__atomic_store_n(&next->word, tag | SWT_VALID, __ATOMIC_RELEASE);
	ring->next = next + 1;
}

/* Ends recording, and unmaps the ring; its file stays. */
static inline void swt_ring_close(struct swt_ring *ring)
{
	size_t bytes = swt_ring_bytes(ring->header->capacity);

	if (ring->records)
		swt_ring_pause(ring);
	munmap(ring->header, bytes);
	memset(ring, 0, sizeof(*ring));
}

/* The registers of a profiling timer, rtl/timer/README.md. */
#define SWT_TIMER_ID 0x524d4954u /* TIMR */
#define SWT_TIMER_CONTROL 0x08
#define SWT_TIMER_EVENT 0x10
#define SWT_TIMER_LOST 0x24

struct swt_timer {
	volatile uint32_t *registers;
};

/* Maps the timer of a UIO device, such as /dev/uio0. ENODEV: it is none. */
static inline int swt_timer_open(struct swt_timer *timer, const char *path)
{
	int file = open(path, O_RDWR | O_CLOEXEC), error;
	void *memory;

	if (file < 0)
		return -1;
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	error = errno;
	close(file);
	if (memory == MAP_FAILED) {
		errno = error;
		return -1;
	}
	timer->registers = (volatile uint32_t *)memory;
	if (timer->registers[0] != SWT_TIMER_ID) {
		munmap(memory, 4096);
		errno = ENODEV;
		return -1;
	}
	return 0;
}

/* Stamps an event in the cycle in which the timer takes this store. */
static inline void swt_timer_stamp(const struct swt_timer *timer, uint32_t tag)
{
	timer->registers[SWT_TIMER_EVENT / 4] = tag;
}

/* Records, or pauses. */
static inline void swt_timer_record(const struct swt_timer *timer, bool records)
{
	timer->registers[SWT_TIMER_CONTROL / 4] = records;
}

/* Events that found no room. */
static inline uint32_t swt_timer_lost(const struct swt_timer *timer)
{
	return timer->registers[SWT_TIMER_LOST / 4];
}

static inline void swt_timer_close(struct swt_timer *timer)
{
	munmap((void *)timer->registers, 4096);
	timer->registers = NULL;
}

#ifdef __cplusplus
}
#endif

#endif
