// SPDX-License-Identifier: GPL-2.0-only
/*
 * One path to a drive, call by call, between the markers of lab/count.
 *
 *     count MODE NODE BYTES CALLS [WINDOW [STAT]]
 *
 * MODE: pread or pwrite (of a block device, a file or CharIO's node), with -buffered (without O_DIRECT; nothing is cached at the
 * beginning), -sync (O_SYNC), -poll and -registered (CharIO); registered, phys and phys-write by ioctl, with -poll; mmap and
 * mmap-random (MADV_RANDOM), which load one byte; copy, which appends all of it to NODE.copy by read and write between one pair of
 * markers; empty, which has nothing between the markers.
 *
 * The label is 1. Offsets go through the first 64 MiB, in order, or with mmap so that none follows another. The first WARM_UP lines
 * are of calls that fill caches and page tables. STAT is /sys/block/DISK/stat: its reads, blocks read, writes and blocks written are
 * printed before the first call and after each.
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

	if (!strncmp(mode, "phys-write", 10))
		phys.flags = CHARIO_WRITE;

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

/* What the disk has done so far. */
static int print_stat(const char *path)
{
	unsigned long long reads, read_blocks, writes, written_blocks;
	FILE *stat = fopen(path, "r");
	int found;

	if (!stat)
		return -1;
	found = fscanf(stat, "%llu %*u %llu %*u %llu %*u %llu", &reads, &read_blocks, &writes, &written_blocks);
	fclose(stat);
	printf("%llu %llu %llu %llu\n", reads, read_blocks, writes, written_blocks);
	return found == 4 ? 0 : -1;
}

static int copy_file(const char *from, uint8_t *memory, size_t bytes, size_t calls)
{
	char name[4096];
	int in = open(from, O_RDONLY), out;

	snprintf(name, sizeof(name), "%s.copy", from);
	out = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
	if (in < 0 || out < 0)
		return -1;
	posix_fadvise(in, 0, 0, POSIX_FADV_DONTNEED);
	COUNT_BEGIN(1);
	while (calls--)
		if (read(in, memory, bytes) != (ssize_t)bytes || write(out, memory, bytes) != (ssize_t)bytes)
			return -1;
	COUNT_END(1);
	return unlink(name);
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
		fprintf(stderr, "usage: count MODE NODE BYTES CALLS [WINDOW [STAT]]\n");
		return 2;
	}
	bytes = strtoull(argv[3], NULL, 0);
	calls = strtoull(argv[4], NULL, 0);
	if (argc > 5)
		window = strtoull(argv[5], NULL, 0);
	if (tell_waits())
		return fail("finding what waits in /proc/kallsyms");
	maps = !strncmp(argv[1], "mmap", 4);
	file = open(argv[2], O_RDWR | (maps || strstr(argv[1], "-buffered") ? 0 : O_DIRECT) | (strstr(argv[1], "-sync") ? O_SYNC : 0));
	if (file < 0)
		return fail(argv[2]);
	if (strstr(argv[1], "-buffered"))
		posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
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
	if (!strncmp(argv[1], "copy", 4))
		return copy_file(argv[2], memory, bytes, calls) ? fail("copying") : 0;
	if (argc > 6 && print_stat(argv[6]))
		return fail(argv[6]);
	for (index = 0; index < calls + WARM_UP; index++) {
		uint64_t block = maps ? index * 7919 : index;
		long done = one(argv[1], file, memory, bytes, block * bytes % SPAN, window);

		if (done != (long)bytes)
			return fail("a call");
		if (argc > 6 && print_stat(argv[6]))
			return fail(argv[6]);
	}
	return 0;
}
