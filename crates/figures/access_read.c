// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Reads 4 KiB of a device or a file, one after another. For `make figures ONLY=access`.
 *
 *     access_read pread PATH COUNT          by pread, past the page cache where the file allows that
 *     access_read device NAME COUNT         by libstraightway
 *     access_read file DEVICE NAME COUNT    a file of a volume, by libstraightway
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <straightway.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 4096 };

static uint64_t place(long number, uint64_t bytes)
{
	return (uint64_t)number * 7919 % (bytes / READ_BYTES) * READ_BYTES;
}

static int read_path(const char *path, long count)
{
	int file = open(path, O_RDONLY | O_DIRECT);
	off_t bytes = lseek(file, 0, SEEK_END);
	void *buffer;
	long i;

	if (file < 0 || bytes < READ_BYTES || posix_memalign(&buffer, READ_BYTES, READ_BYTES)) {
		perror(path);
		return 1;
	}
	for (i = 0; i < count; i++) {
		if (pread(file, buffer, READ_BYTES, place(i, bytes)) != READ_BYTES) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

static enum straightway_status read_device(const char *name, long count)
{
	struct straightway_geometry geometry = { .size = sizeof(geometry) };
	enum straightway_status status;
	straightway_device device;
	void *buffer;
	long i;

	status = straightway_open(name, NULL, &device);
	status = status ? status : straightway_get_geometry(device, &geometry);
	status = status ? status : straightway_alloc(device, READ_BYTES, &buffer);
	for (i = 0; i < count && !status; i++)
		status = straightway_read(device, place(i, (uint64_t)geometry.block_size_bytes * geometry.block_count), buffer, READ_BYTES);
	return status ? status : straightway_close(device);
}

static enum straightway_status read_file(const char *name, const char *file_name, long count)
{
	enum straightway_status status;
	straightway_volume volume;
	straightway_file file;
	char buffer[READ_BYTES];
	uint64_t bytes = 0;
	size_t done;
	long i;

	status = straightway_volume_open(name, NULL, &volume);
	status = status ? status : straightway_file_open(volume, file_name, 0, &file);
	status = status ? status : straightway_file_get_size(file, &bytes);
	for (i = 0; i < count && !status; i++)
		status = straightway_file_read(file, place(i, bytes), buffer, READ_BYTES, &done);
	return status ? status : straightway_volume_close(volume);
}

int main(int argc, char **argv)
{
	long count = argc > 3 ? atol(argv[argc - 1]) : 0;
	enum straightway_status status;

	if (count <= 0) {
		fprintf(stderr, "access_read: see the first comment\n");
		return 2;
	}
	if (!strcmp(argv[1], "pread"))
		return read_path(argv[2], count);
	status = strcmp(argv[1], "file") ? read_device(argv[2], count) : read_file(argv[2], argv[3], count);
	if (status)
		fprintf(stderr, "access_read: %s\n", straightway_error());
	return status;
}
