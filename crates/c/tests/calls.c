// SPDX-License-Identifier: Apache-2.0 OR MIT
// Every call, and every wrong use that the header names. Exits with 0 if all is as it should be.

#include <pthread.h>
#include "check.h"

enum { BLOCK = 512, BYTES = 1 << 16 };

static straightway_device opened(const char *name)
{
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
	straightway_device device;

	options.write = 1;
	options.buffer_bytes = 4 << 20;
	OK(straightway_open(name, &options, &device));
	CHECK(device);
	return device;
}

static char *allocated(straightway_device device, size_t bytes)
{
	void *buffer;

	OK(straightway_alloc(device, bytes, &buffer));
	CHECK((uintptr_t)buffer % 4096 == 0);
	return buffer;
}

static void blocking(const char *name)
{
	straightway_device device = opened(name);
	struct straightway_geometry geometry = { .size = sizeof(geometry) };
	char path[64];

	OK(straightway_get_geometry(device, &geometry));
	OK(straightway_get_path(device, path, sizeof(path)));
	CHECK(geometry.block_size_bytes == BLOCK && !geometry.read_only && geometry.queue_depth);
	// More than one request: the model's largest transfer is less than 2 MiB.
	size_t bytes = 1 << 21;
	char *out = allocated(device, bytes / 2), *in = allocated(device, bytes / 2);

	for (size_t at = 0; at < bytes / 2; at++)
		out[at] = (char)(at * 7 + at / 4096);
	OK(straightway_write(device, 3 * BLOCK, out, bytes / 2, 0));
	OK(straightway_flush(device));
	OK(straightway_read(device, 3 * BLOCK, in, bytes / 2));
	CHECK(!memcmp(in, out, bytes / 2));
	OK(straightway_write(device, 0, out + BLOCK, BLOCK, 1));
	OK(straightway_read(device, 0, in + 5 * BLOCK, BLOCK));
	CHECK(!memcmp(in + 5 * BLOCK, out + BLOCK, BLOCK));

	// Of a range that is not whole nothing is given back.
	WRONG(straightway_discard(device, 1, BLOCK), "not whole blocks");
	WRONG(straightway_discard(device, 0, 0), "not whole blocks");
	WRONG(straightway_discard(device, BLOCK, UINT64_MAX - BLOCK + 1), "do not fit on a device");
	WRONG(straightway_discard(device, 0, (geometry.block_count + 1) * BLOCK), "do not fit on a device");
	OK(straightway_read(device, 0, in, BLOCK));
	CHECK(!memcmp(in, out + BLOCK, BLOCK));
	OK(straightway_discard(device, 0, 4 * BLOCK));
	OK(straightway_read(device, 0, in, 8 * BLOCK));
	for (size_t at = 0; at < 4 * BLOCK; at++)
		CHECK(!in[at]);
	CHECK(!memcmp(in + 4 * BLOCK, out + BLOCK, 4 * BLOCK));

	WRONG(straightway_read(device, 1, in, BLOCK), "not whole blocks");
	WRONG(straightway_read(device, 0, in, BLOCK + 1), "not whole blocks");
	WRONG(straightway_read(device, 0, in, 0), "not whole blocks");
	WRONG(straightway_read(device, 0, in, bytes), "left of this buffer");
	WRONG(straightway_read(device, geometry.block_count * BLOCK, in, BLOCK), "do not fit on a device");
	WRONG(straightway_read(device, UINT64_MAX - BLOCK + 1, in, BLOCK), "do not fit on a device");
	WRONG(straightway_read(device, 0, path, BLOCK), "not a buffer of this device");
	WRONG(straightway_read(device, 0, NULL, BLOCK), "not a buffer of this device");
	WRONG(straightway_free(device, in + BLOCK), "not a buffer of this device");
	WRONG(straightway_get_path(device, path, 3), "bytes");
	OK(straightway_free(device, in));
	WRONG(straightway_free(device, in), "not a buffer of this device");
	// The other buffer is freed by this.
	OK(straightway_close(device));
	WRONG(straightway_read(device, 0, out, BLOCK), "closed");
	WRONG(straightway_close(device), "closed");
}

static void opened_to_read(const char *name)
{
	straightway_device device;

	OK(straightway_open(name, NULL, &device));
	char *buffer = allocated(device, BLOCK);

	WRONG(straightway_write(device, 0, buffer, BLOCK, 0), "opened to read");
	WRONG(straightway_submit_write(device, 0, buffer, BLOCK, 0, 1), "opened to read");
	WRONG(straightway_discard(device, 0, BLOCK), "opened to read");
	OK(straightway_read(device, 0, buffer, BLOCK));
	OK(straightway_close(device));
}

static void queued(const char *name)
{
	straightway_device device = opened(name);
	struct straightway_geometry geometry = { .size = sizeof(geometry) };
	struct straightway_completion ended[8];
	char *buffer = allocated(device, BYTES);
	size_t count, outstanding, seen = 0;
	unsigned tags = 0;

	OK(straightway_get_geometry(device, &geometry));
	memset(buffer, 'x', BYTES);
	OK(straightway_write(device, 0, buffer, BYTES, 0));
	for (uint64_t tag = 0; tag < 8; tag++)
		OK(straightway_submit_read(device, tag * BLOCK, buffer + tag * BLOCK, BLOCK, tag));
	WRONG(straightway_submit_read(device, 0, buffer + BLOCK / 2 + BLOCK, BLOCK, 9), "some of these bytes");
	WRONG(straightway_free(device, buffer), "in flight");
	// A blocking call leaves them in flight.
	OK(straightway_read(device, 0, buffer + 32 * BLOCK, BLOCK));
	OK(straightway_flush(device));
	OK(straightway_outstanding(device, &outstanding));
	CHECK(outstanding == 8);
	OK(straightway_kick(device));
	while (seen < 8) {
		OK(straightway_wait(device, 1000));
		OK(straightway_poll(device, ended, 3, &count));
		CHECK(count <= 3);
		for (size_t at = 0; at < count; at++, seen++) {
			CHECK(ended[at].status == STRAIGHTWAY_STATUS_OK && ended[at].bytes == BLOCK && !ended[at].nvme_status);
			CHECK(ended[at].buffer == buffer + ended[at].tag * BLOCK);
			tags |= 1u << ended[at].tag;
		}
	}
	CHECK(tags == 0xff);
	OK(straightway_submit_write(device, 0, buffer, BLOCK, 0, UINT64_MAX));
	OK(straightway_submit_flush(device, UINT64_MAX));
	OK(straightway_flush(device));
	for (seen = 0; seen < 2; seen += count) {
		OK(straightway_wait(device, 1000));
		OK(straightway_poll(device, ended, 8, &count));
		for (size_t at = 0; at < count; at++)
			CHECK(ended[at].tag == UINT64_MAX && !ended[at].status);
	}

	// A full queue says so, and nothing is lost.
	uint64_t depth = geometry.queue_depth < BYTES / BLOCK ? geometry.queue_depth : BYTES / BLOCK;

	for (uint64_t tag = 0; tag < depth; tag++)
		OK(straightway_submit_read(device, tag * BLOCK, buffer + tag * BLOCK, BLOCK, tag));
	if (depth == geometry.queue_depth) {
		CHECK(straightway_submit_flush(device, 0) == STRAIGHTWAY_STATUS_AGAIN);
		CHECK(*straightway_hint());
		// A flush that waits makes room itself.
		OK(straightway_flush(device));
	}
	WRONG(straightway_poll(device, NULL, 8, &count), "NULL");
	WRONG(straightway_poll(device, ended, 8, NULL), "NULL");
	// What is in flight ends first.
	OK(straightway_close(device));
}

static void *other_thread(void *device)
{
	WRONG(straightway_kick(*(straightway_device *)device), "this thread");
	blocking("ram:4M");
	return NULL;
}

static void opening(void)
{
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
	straightway_device device = 77;
	pthread_t thread;

	WRONG(straightway_open(NULL, NULL, &device), "NULL");
	CHECK(!device);
	WRONG(straightway_open("ram:4M", NULL, NULL), "NULL");
	WRONG(straightway_open("ram:4q", NULL, &device), "4q");
	WRONG(straightway_open("\xff", NULL, &device), "UTF-8");
	CHECK(straightway_open("/nonexistent/x", NULL, &device) == STRAIGHTWAY_STATUS_MISSING);
	options.path = "nonsense";
	WRONG(straightway_open("ram:4M", &options, &device), "nonsense");
	options.path = "vfio";
	CHECK(straightway_open("ram:4M", &options, &device) == STRAIGHTWAY_STATUS_UNSUPPORTED);
	options.path = NULL;
	options.queue_depth = 1 << 16;
	WRONG(straightway_open("ram:4M", &options, &device), "queue depth");
	options.queue_depth = 0;
	options.size--;
	WRONG(straightway_open("ram:4M", &options, &device), "straightway_options");
	WRONG(straightway_close(0), "this thread");
	WRONG(straightway_close(UINT64_MAX), "this thread");
	CHECK(*straightway_version());

	// For reading only.
	OK(straightway_open("ram:4M", NULL, &device));
	OK(pthread_create(&thread, NULL, other_thread, &device));
	OK(pthread_join(thread, NULL));
	OK(straightway_close(device));
}

// A drive's own commands, on a controller that this process drives, while a read is in flight.
static void commands(void)
{
	straightway_device device = opened("model:4M"), reading;
	struct straightway_command command = { .size = sizeof(command) };
	struct straightway_completion ended;
	char *buffer = allocated(device, BLOCK);
	unsigned char page[4096];
	size_t count = 0;

	OK(straightway_submit_read(device, 0, buffer, BLOCK, 5));
	// Identify Controller (NVMe Base Specification, "Identify command").
	command.opcode = 0x06;
	command.dwords[0] = 1;
	command.data = page;
	command.bytes = sizeof(page);
	WRONG(straightway_send_command(device, &command), "`identify` is refused unless it is named");
	command.name = "format-nvm";
	WRONG(straightway_send_command(device, &command), "the command is `identify`");
	command.name = "identify";
	memset(page, 0, sizeof(page));
	OK(straightway_send_command(device, &command));
	CHECK(page[4] && (page[512] & 15) == 6);
	command.bytes = 0;
	WRONG(straightway_send_command(device, &command), "1 to 4096 bytes");
	command.bytes = sizeof(page);
	command.data = NULL;
	WRONG(straightway_send_command(device, &command), "NULL");
	command.data = page;
	command.opcode = 0x106;
	WRONG(straightway_send_command(device, &command), "opcode");
	command.size = 4;
	WRONG(straightway_send_command(device, &command), "straightway_command");
	WRONG(straightway_send_command(device, NULL), "NULL");

	// A feature's value is dword 0 of the completion: the number of queues is at least one of each.
	command = (struct straightway_command){ .size = sizeof(command), .opcode = 0x0a, .dwords = { 7 }, .name = "get-features" };
	command.data = page;
	command.bytes = sizeof(page);
	command.result = 77;
	OK(straightway_send_command(device, &command));
	CHECK(command.result != 77);

	// An I/O command, in a queue of its own; it changes the drive, which was opened to write.
	memset(page, 0x5a, BLOCK);
	command = (struct straightway_command){ .size = sizeof(command), .is_io = 1, .opcode = 0x01, .dwords = { 3 }, .name = "write" };
	command.data = page;
	command.bytes = BLOCK;
	OK(straightway_send_command(device, &command));
	while (!count) {
		OK(straightway_wait(device, 1000));
		OK(straightway_poll(device, &ended, 1, &count));
	}
	CHECK(ended.tag == 5 && !ended.status);
	OK(straightway_read(device, 3 * BLOCK, buffer, BLOCK));
	CHECK(!memcmp(buffer, page, BLOCK));
	OK(straightway_close(device));
	WRONG(straightway_send_command(device, &command), "closed");

	OK(straightway_open("model:4M", NULL, &reading));
	WRONG(straightway_send_command(reading, &command), "may change the drive");
	OK(straightway_close(reading));
	OK(straightway_open("ram:4M", NULL, &reading));
	command.opcode = 2;
	command.name = "read";
	CHECK(straightway_send_command(reading, &command) == STRAIGHTWAY_STATUS_UNSUPPORTED);
	OK(straightway_close(reading));
}

int main(void)
{
	const char *names[] = { "ram:4M", "model:4M" };

	for (size_t at = 0; at < 2; at++) {
		opened_to_read(names[at]);
		blocking(names[at]);
		queued(names[at]);
	}
	opening();
	commands();
	puts("all calls are as they should be");
	return 0;
}
