// SPDX-License-Identifier: Apache-2.0 OR MIT
// Stores standard input as a file of a volume, then lists the volume: cc files.c $(pkg-config --cflags --libs straightway)
//
//     files DEVICE NAME      for example: files nvme0n1 log, after straightway format

#include <stdio.h>
#include <straightway.h>

static int failed(enum straightway_status status)
{
	fprintf(stderr, "files: %s\n", straightway_error());
	if (*straightway_hint())
		fprintf(stderr, "hint: %s\n", straightway_hint());
	return status;
}

// Stores it, durably up to the last megabyte at any time.
static enum straightway_status store(straightway_volume volume, const char *name)
{
	static char data[1 << 20];
	enum straightway_status status;
	straightway_file file;
	size_t bytes;

	status = straightway_file_create(volume, name, 0, 0, 0, &file);
	while (!status && (bytes = fread(data, 1, sizeof(data), stdin)) > 0) {
		status = straightway_file_append(file, data, bytes);
		if (!status)
			status = straightway_file_sync(file, NULL);
	}
	// Closing the volume closes the file too, after an error as well.
	return status ? status : straightway_file_close(file);
}

static enum straightway_status list(straightway_volume volume)
{
	struct straightway_entry entry = { .size = sizeof(entry) };
	enum straightway_status status;
	uint32_t cursor = 0;

	while (!(status = straightway_volume_next(volume, &cursor, &entry)))
		printf("%12llu %s\n", (unsigned long long)entry.size_bytes, entry.whole_name);
	return status == STRAIGHTWAY_STATUS_NOT_FOUND ? STRAIGHTWAY_STATUS_OK : status;
}

int main(int argc, char **argv)
{
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
	enum straightway_status status;
	straightway_volume volume;

	if (argc != 3) {
		fprintf(stderr, "usage: files DEVICE NAME\n");
		return STRAIGHTWAY_STATUS_USAGE;
	}
	options.write = 1;
	status = straightway_volume_open(argv[1], &options, &volume);
	if (status)
		return failed(status);
	if ((status = store(volume, argv[2])) || (status = list(volume))) {
		failed(status);
		straightway_volume_close(volume);
		return status;
	}
	status = straightway_volume_close(volume);
	return status ? failed(status) : 0;
}
