// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hostile callers of /dev/chardiskXnY: ioctls, vectors, mappings and closes with random arguments, from
 * several threads that share files and memory.
 *
 *     fuzz NODE SEED CALLS
 *
 * It writes to the drive. Calls are expected to fail; the caller of this checks for kernel warnings,
 * remaining pins and calls that do not return.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "chario.h"

#define THREADS 4
#define FILES 4
#define MEMORY (24ul << 20)
/* Not the kernel's, in the guests of the tests. */
#ifdef __x86_64__
#define WINDOW 0x20000000ull
#define SYSTEM_RAM 0ull
#else
#define WINDOW 0x7c000000ull
#define SYSTEM_RAM 0x40000000ull
#endif
#define WINDOW_END (WINDOW + (64ull << 20))

static const char *node;
static int files[FILES];
static uint8_t *memory, *holes;
static uint64_t calls, most_calls, good;

struct thread {
	pthread_t id;
	uint64_t state;
};

/* xorshift64*: the same seed gives the same arguments; the order of the threads is the scheduler's. */
static uint64_t next(struct thread *t)
{
	t->state ^= t->state >> 12;
	t->state ^= t->state << 25;
	t->state ^= t->state >> 27;
	return t->state * 2685821657736338717ull;
}

static uint64_t below(struct thread *t, uint64_t limit)
{
	return next(t) % limit;
}

/* Mostly values that could be valid, sometimes almost valid ones, sometimes arbitrary ones. */
static uint64_t number(struct thread *t, uint64_t plausible)
{
	static const uint64_t edges[] = { 0, 1, 511, 512, 4095, 4096, 1ull << 31, 1ull << 32, 1ull << 40,
		1ull << 62, INT64_MAX, 1ull << 63, UINT64_MAX - 4095, UINT64_MAX };

	switch (below(t, 12)) {
	case 0:
		return edges[below(t, sizeof(edges) / sizeof(*edges))];
	case 1:
		return next(t);
	case 2:
		return below(t, plausible) + below(t, 600) - 300;
	default:
		return below(t, plausible) & ~511ull;
	}
}

static void *address(struct thread *t)
{
	switch (below(t, 10)) {
	case 0:
		return (void *)number(t, UINT64_MAX / 2);
	case 1:
		return holes + (below(t, MEMORY) & ~511ull);
	case 2:
		return memory + below(t, MEMORY);
	default:
		return memory + (below(t, MEMORY) & ~511ull);
	}
}

static size_t length(struct thread *t)
{
	return below(t, 4) ? (1 + below(t, 64)) * 512 : number(t, MEMORY);
}

static void vectors(struct thread *t, int file)
{
	struct iovec entries[20];
	int index, count = below(t, 20) + 1;
	uint64_t at = number(t, 128ull << 20);
	int flags = below(t, 8) ? 0 : 1 << below(t, 6);

	for (index = 0; index < count; index++) {
		entries[index].iov_base = address(t);
		entries[index].iov_len = below(t, 6) ? length(t) : 0;
	}
	if (below(t, 2))
		good += preadv2(file, entries, count, at, flags) > 0;
	else
		good += pwritev2(file, entries, count, at, flags) > 0;
}

static void requests(struct thread *t, int file)
{
	union {
		struct chario_register reg;
		struct chario_transfer transfer;
		struct chario_phys phys;
		struct chario_window window;
		struct chario_info info;
		uint32_t word;
		uint8_t bytes[64];
	} a;
	unsigned int index, request;
	void *argument = &a;

	memset(&a, 0, sizeof(a));
	switch (below(t, 12)) {
	case 0:
		a.reg = (struct chario_register){ (uintptr_t)address(t), length(t), 0,
			below(t, 20) ? below(t, 2) : next(t) };
		request = CHARIO_IOC_REGISTER;
		break;
	case 1:
		a.word = below(t, 4) ? below(t, 8) : next(t);
		request = CHARIO_IOC_UNREGISTER;
		break;
	case 2:
	case 3:
	case 4:
		a.transfer = (struct chario_transfer){ number(t, 128ull << 20), length(t), number(t, 1 << 16),
			below(t, 8), below(t, 12) ? below(t, 4) : next(t) };
		request = CHARIO_IOC_TRANSFER;
		break;
	case 5:
	case 6:
		a.phys = (struct chario_phys){ number(t, 128ull << 20), length(t),
			below(t, 4) ? WINDOW + number(t, 64ull << 20) : number(t, 1ull << 30),
			below(t, 12) ? below(t, 4) : next(t), !below(t, 20) };
		request = CHARIO_IOC_PHYS;
		break;
	case 7:
		a.window = (struct chario_window){ WINDOW + number(t, 64ull << 20), number(t, 1ull << 22) };
		if (below(t, 2))
			a.window.address &= ~4095ull, a.window.length &= ~4095ull;
		/* A window in System RAM, or beyond all memory, must be refused; nothing else is requested. */
		request = below(t, 2) ? CHARIO_IOC_GRANT : CHARIO_IOC_REVOKE;
		if (request == CHARIO_IOC_GRANT && (a.window.address < WINDOW ||
		    a.window.address + a.window.length > WINDOW_END))
			a.window.address = SYSTEM_RAM + (number(t, 0x10000000) & ~4095ull);
		break;
	case 8:
		a.word = below(t, 4);
		request = CHARIO_IOC_COMPLETION;
		break;
	case 9:
		request = CHARIO_IOC_INFO;
		break;
	default:
		for (index = 0; index < sizeof(a.bytes); index++)
			a.bytes[index] = next(t);
		request = below(t, 2) ? next(t) : _IOC(below(t, 4), 'c', 0xc0 + below(t, 10), below(t, 80));
		/* A grant of anything is what the drill above is for. */
		if (_IOC_NR(request) == 0xc6)
			return;
	}
	if (!below(t, 16))
		argument = address(t);
	good += ioctl(file, request, argument) >= 0;
}

static void others(struct thread *t, int file)
{
	struct pollfd one = { file, POLLIN | POLLOUT, 0 };
	uint64_t at = WINDOW + number(t, 64ull << 20);
	size_t bytes = number(t, 1 << 20);
	void *mapped;
	int fd;

	switch (below(t, 8)) {
	case 0:
		mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, below(t, 4) ? MAP_SHARED : MAP_PRIVATE, file, at);
		if (mapped != MAP_FAILED) {
			/* The processor is told if there is nothing at an address, and tells the program. */
			if (at < WINDOW_END)
				*(volatile uint8_t *)mapped = 1;
			munmap(mapped, bytes);
		}
		break;
	case 1:
		lseek(file, number(t, 128ull << 20), below(t, 6));
		break;
	case 2:
		poll(&one, 1, 0);
		break;
	case 3:
		fsync(file);
		break;
	case 4:
		/* Pages that vanish while another thread's transfer has them pinned. */
		madvise(memory + (below(t, MEMORY) & ~4095ull), (1 + below(t, 64)) * 4096, MADV_DONTNEED);
		break;
	case 5:
		fd = open(node, (int)below(t, 3) | (below(t, 4) ? 0 : O_EXCL) | (below(t, 8) ? 0 : O_APPEND));
		if (fd >= 0) {
			vectors(t, fd);
			requests(t, fd);
			close(fd);
		}
		break;
	case 6:
		good += read(file, address(t), length(t)) > 0;
		break;
	default:
		good += write(file, address(t), length(t)) > 0;
		break;
	}
}

static void *run(void *argument)
{
	struct thread *t = argument;

	while (__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) < most_calls) {
		int file = files[below(t, FILES)];

		switch (below(t, 4)) {
		case 0:
			others(t, file);
			break;
		case 1:
			vectors(t, file);
			break;
		default:
			requests(t, file);
		}
	}
	return NULL;
}

/* With nothing mapped after it: a read past its end must not reach this program's own stacks. */
static uint8_t *guarded(size_t bytes)
{
	uint8_t *area = mmap(NULL, 4 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (area == MAP_FAILED || mprotect(area, bytes, PROT_READ | PROT_WRITE))
		return NULL;
	return area;
}

int main(int argc, char **argv)
{
	struct thread threads[THREADS];
	int index;

	if (argc != 4) {
		fprintf(stderr, "usage: fuzz NODE SEED CALLS\n");
		return 2;
	}
	node = argv[1];
	most_calls = strtoull(argv[3], NULL, 0);
	memory = guarded(MEMORY);
	holes = guarded(MEMORY);
	if (!memory || !holes)
		return 3;
	/* Not the first piece: the first thread's stack would be placed there; everything below it is free. */
	for (index = 2; index < (int)(MEMORY / (128 << 10)); index += 2)
		munmap(holes + index * (128ul << 10), 128 << 10);
	for (index = 1; index < (int)(MEMORY / (128 << 10)); index += 4)
		mprotect(holes + index * (128ul << 10), 128 << 10, PROT_READ);
	for (index = 0; index < FILES; index++) {
		files[index] = open(node, index ? O_RDWR : O_RDONLY);
		if (files[index] < 0) {
			perror(node);
			return 3;
		}
	}
	for (index = 0; index < THREADS; index++) {
		threads[index].state = (strtoull(argv[2], NULL, 0) + 1) * 0x9e3779b97f4a7c15ull + index;
		if (pthread_create(&threads[index].id, NULL, run, &threads[index]))
			return 3;
	}
	for (index = 0; index < THREADS; index++)
		pthread_join(threads[index].id, NULL);
	printf("seed %s: %llu calls, %llu did something\n", argv[2], (unsigned long long)most_calls,
	       (unsigned long long)good);
	return 0;
}
