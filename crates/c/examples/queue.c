// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads a device with many requests in flight: cc queue.c $(pkg-config --cflags --libs straightway)
//
//     queue DEVICE      for example: queue nvme0n1, queue ram:64M

#include <stdio.h>
#include <straightway.h>

enum { READ_BYTES = 4096, MOST_IN_FLIGHT = 64 };

static int failed(enum straightway_status status)
{
	fprintf(stderr, "queue: %s\n", straightway_error());
	if (*straightway_hint())
		fprintf(stderr, "hint: %s\n", straightway_hint());
	return status;
}

int main(int argc, char **argv)
{
	struct straightway_geometry geometry = { .size = sizeof(geometry) };
	straightway_device device;
	enum straightway_status status;
	char path[64];
	char *buffer;

	if (argc != 2) {
		fprintf(stderr, "usage: queue DEVICE\n");
		return STRAIGHTWAY_STATUS_USAGE;
	}
	status = straightway_open(argv[1], NULL, &device);
	if (status)
		return failed(status);
	if ((status = straightway_get_geometry(device, &geometry)) || (status = straightway_get_path(device, path, sizeof(path))))
		return failed(status);

	uint64_t reads = geometry.block_count * geometry.block_size_bytes / READ_BYTES;
	uint64_t in_flight = geometry.queue_depth < MOST_IN_FLIGHT ? geometry.queue_depth : MOST_IN_FLIGHT;
	uint64_t submitted = 0, done = 0, sum = 0;

	if ((status = straightway_alloc(device, in_flight * READ_BYTES, (void **)&buffer)))
		return failed(status);
	while (done < reads) {
		// The tag is the place of the request's memory; at the start all places are free.
		struct straightway_completion ended[MOST_IN_FLIGHT];
		size_t count = 0;

		for (; submitted < reads && submitted < in_flight; submitted++) {
			status = straightway_submit_read(device, submitted * READ_BYTES, buffer + submitted * READ_BYTES, READ_BYTES,
							 submitted);
			if (status)
				return failed(status);
		}
		if ((status = straightway_wait(device, 100000)) ||
		    (status = straightway_poll(device, ended, MOST_IN_FLIGHT, &count)))
			return failed(status);
		for (size_t at = 0; at < count; at++, done++) {
			if (ended[at].status)
				return failed(ended[at].status);
			sum += ((unsigned char *)ended[at].buffer)[0];
			if (submitted == reads)
				continue;
			status = straightway_submit_read(device, submitted++ * READ_BYTES, ended[at].buffer, READ_BYTES, ended[at].tag);
			if (status)
				return failed(status);
		}
	}
	printf("%llu reads of %d bytes by %s, sum of their first bytes %llu\n", (unsigned long long)done, READ_BYTES, path,
	       (unsigned long long)sum);
	status = straightway_close(device);
	return status ? failed(status) : 0;
}
