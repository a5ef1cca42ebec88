// SPDX-License-Identifier: GPL-2.0-only
/*
 * One path to a drive, call by call, between the markers of lab/count.
 *
 *     count MODE NODE BYTES CALLS [WINDOW]
 *
 * MODE: pread or pwrite (of a block device or of CharIO's node), with -poll and -registered (CharIO);
 * registered and phys by ioctl, with -poll; mmap and mmap-random (MADV_RANDOM), which load one byte; empty, which has nothing
 * between the markers. The label is 1. Offsets go through the first 64 MiB, in order, or with mmap so that none follows another. The first WARM_UP lines are of calls that fill caches and page tables.
 */
#define _GNU_SOURCE
#define COUNT_MESSAGES
#include <fcntl.h>
#include <inttypes.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "chario.h"
#include "marker.h"

#define SPAN (64ul << 20)
#define WARM_UP 32

static int fail(const char *what)
{
	perror(what);
	return 1;
}

/* The idle loop (the lab boots with idle=poll), and the loop in which CharIO polls a ring. */
static int tell_waits(void)
{
	return count_waits_in("cpu_idle_poll", "") || count_waits_in("look", "chario") < 0;
}

static long one(const char *mode, int file, uint8_t *memory, size_t bytes, uint64_t at, uint64_t window)
{
	struct chario_transfer transfer = { .position = at, .length = bytes };
	struct chario_phys phys = { .position = at, .length = bytes, .address = window };
	long done;

	if (!strncmp(mode, "pread", 5)) {
		COUNT_BEGIN(1);
		done = pread(file, memory, bytes, at);
		COUNT_END(1);
	} else if (!strncmp(mode, "pwrite", 6)) {
		COUNT_BEGIN(1);
		done = pwrite(file, memory, bytes, at);
		COUNT_END(1);
	} else if (!strncmp(mode, "registered", 10)) {
		COUNT_BEGIN(1);
		done = ioctl(file, CHARIO_IOC_TRANSFER, &transfer);
		COUNT_END(1);
	} else if (!strncmp(mode, "phys", 4)) {
		COUNT_BEGIN(1);
		done = ioctl(file, CHARIO_IOC_PHYS, &phys);
		COUNT_END(1);
	} else if (!strncmp(mode, "mmap", 4)) {
		volatile uint8_t *byte = memory + at;

		COUNT_BEGIN(1);
		*byte;
		COUNT_END(1);
		done = bytes;
	} else {
		COUNT_BEGIN(1);
		COUNT_END(1);
		done = bytes;
	}
	return done;
}

int main(int argc, char **argv)
{
	size_t bytes, calls, index;
	uint64_t window = 0;
	uint8_t *memory;
	uint32_t poll = CHARIO_POLL;
	bool maps;
	int file;

	if (argc < 5) {
		fprintf(stderr, "usage: count MODE NODE BYTES CALLS [WINDOW]\n");
		return 2;
	}
	bytes = strtoull(argv[3], NULL, 0);
	calls = strtoull(argv[4], NULL, 0);
	if (argc > 5)
		window = strtoull(argv[5], NULL, 0);
	if (tell_waits())
		return fail("finding what waits in /proc/kallsyms");
	maps = !strncmp(argv[1], "mmap", 4);
	file = open(argv[2], O_RDWR | (maps ? 0 : O_DIRECT));
	if (file < 0)
		return fail(argv[2]);
	if (maps)
		memory = mmap(NULL, SPAN, PROT_READ, MAP_SHARED, file, 0);
	else
		memory = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED || (!strcmp(argv[1], "mmap-random") && madvise(memory, SPAN, MADV_RANDOM)))
		return fail("mmap");
	if (!maps)
		memset(memory, 1, bytes);
	if (strstr(argv[1], "-poll") && ioctl(file, CHARIO_IOC_COMPLETION, &poll))
		return fail("polling");
	if (!strncmp(argv[1], "registered", 10) || strstr(argv[1], "-registered")) {
		struct chario_register request = { .address = (uintptr_t)memory, .length = bytes };

		if (strstr(argv[1], "-registered"))
			request.flags = CHARIO_BY_ADDRESS;

		if (ioctl(file, CHARIO_IOC_REGISTER, &request))
			return fail("registering");
	}
	for (index = 0; index < calls + WARM_UP; index++) {
		uint64_t block = maps ? index * 7919 : index;
		long done = one(argv[1], file, memory, bytes, block * bytes % SPAN, window);

		if (done != (long)bytes)
			return fail("a call");
	}
	return 0;
}
