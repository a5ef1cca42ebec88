// SPDX-License-Identifier: Apache-2.0 OR MIT
// Playbacks: the blocks of a file, in order and not before they are due. `play FOLDER` works in images there.

#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include "check.h"

enum { BLOCK = 64 << 10, BLOCKS = 30, LONG = BLOCK * (BLOCKS - 1) + 777 };

static char device[4096], image[4096];
static unsigned char data[LONG], part[4096];

static void stored(const char *name, uint32_t checksums)
{
	struct straightway_format_options format = STRAIGHTWAY_FORMAT_OPTIONS_INIT;
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
	straightway_volume volume;
	straightway_file file;

	format.volume_bytes = 32 << 20;
	format.checksums = checksums;
	OK(straightway_format(name, &format));
	options.write = 1;
	OK(straightway_volume_open(name, &options, &volume));
	OK(straightway_file_create(volume, "data", 0, checksums, 0, &file));
	OK(straightway_file_append(file, data, LONG));
	OK(straightway_file_create(volume, "empty", 0, 0, 0, &file));
	OK(straightway_volume_close(volume));
}

static straightway_player begun(const char *name, uint64_t bytes_per_second, uint32_t buffers)
{
	struct straightway_play_options options = STRAIGHTWAY_PLAY_OPTIONS_INIT;
	straightway_player player;

	options.bytes_per_second = bytes_per_second;
	options.block_bytes = BLOCK;
	options.buffers = buffers;
	OK(straightway_player_open(name, "data", NULL, &options, &player));
	return player;
}

// Takes `count` blocks from the beginning, and compares them.
static void taken(straightway_player player, unsigned count)
{
	const void *block;
	uint64_t offset;
	size_t bytes;

	for (unsigned number = 0; number < count; number++) {
		OK(straightway_player_next(player, &block, &bytes, &offset));
		CHECK(offset == (uint64_t)number * BLOCK);
		CHECK(bytes == (number == BLOCKS - 1 ? LONG % BLOCK : BLOCK));
		CHECK(!memcmp(block, data + offset, bytes));
	}
}

static void over(straightway_player player)
{
	struct straightway_play_report report = { .size = sizeof(report) };
	const void *block;
	size_t bytes;

	for (unsigned again = 0; again < 2; again++) {
		OK(straightway_player_next(player, &block, &bytes, NULL));
		CHECK(!block && !bytes);
	}
	OK(straightway_player_close(player, &report));
	CHECK(report.bytes == LONG && !report.retries && report.lateness_max_us <= report.latency_max_us);
	WRONG(straightway_player_close(player, NULL), "closed");
	WRONG(straightway_player_next(player, &block, &bytes, NULL), "closed");
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Time begins when its memory is full, before the first block: from its opening on, no block comes before it is due.
static void at_a_rate(void)
{
	enum { RATE = 20 << 20 };
	double begin = now_s();
	straightway_player player = begun(device, RATE, 4);
	const void *block;
	uint64_t offset;
	size_t bytes;

	for (unsigned number = 0; number < BLOCKS; number++) {
		OK(straightway_player_next(player, &block, &bytes, &offset));
		CHECK(now_s() - begin >= (double)offset / RATE);
		CHECK(!memcmp(block, data + offset, bytes));
	}
	over(player);
}

static void refused(void)
{
	struct straightway_play_options options = STRAIGHTWAY_PLAY_OPTIONS_INIT;
	struct straightway_play_report report = { .size = 1 };
	straightway_player player = 77;
	const void *block;
	size_t bytes;

	CHECK(straightway_player_open(device, "other", NULL, NULL, &player) == STRAIGHTWAY_STATUS_NOT_FOUND);
	CHECK(!player);
	CHECK(straightway_player_open("/nonexistent/x", "data", NULL, NULL, &player) == STRAIGHTWAY_STATUS_MISSING);
	WRONG(straightway_player_open(NULL, "data", NULL, NULL, &player), "NULL");
	WRONG(straightway_player_open(device, NULL, NULL, NULL, &player), "NULL");
	WRONG(straightway_player_open(device, "data", NULL, NULL, NULL), "NULL");
	options.buffers = 5000;
	WRONG(straightway_player_open(device, "data", NULL, &options, &player), "buffers");
	options.buffers = 0;
	options.block_bytes = 1000;
	CHECK(straightway_player_open(device, "data", NULL, &options, &player) == STRAIGHTWAY_STATUS_USAGE);
	options.size = 0;
	WRONG(straightway_player_open(device, "data", NULL, &options, &player), "straightway_play_options");
	OK(straightway_player_open(device, "empty", NULL, NULL, &player));
	WRONG(straightway_player_next(player, NULL, &bytes, NULL), "NULL");
	WRONG(straightway_player_next(player, &block, NULL, NULL), "NULL");
	OK(straightway_player_next(player, &block, &bytes, NULL));
	CHECK(!block);
	WRONG(straightway_recorder_close(player, NULL), "a player's");
	WRONG(straightway_player_close(player, &report), "straightway_play_report");
	OK(straightway_player_close(player, NULL));
}

// The playback ends where the data is not what it was.
static void rotten(void)
{
	struct straightway_play_options options = STRAIGHTWAY_PLAY_OPTIONS_INIT;
	struct straightway_play_report report = { .size = sizeof(report) };
	straightway_player player;
	const void *block;
	size_t bytes;
	long at = 0;
	FILE *disk;

	CHECK((disk = fopen(image, "r+b")));
	while (fread(part, 1, sizeof(part), disk) == sizeof(part) && memcmp(part, data + 5 * BLOCK, sizeof(part)))
		at += sizeof(part);
	CHECK(!fseek(disk, at + 100, SEEK_SET) && fputc(part[100] ^ 1, disk) != EOF && !fclose(disk));
	player = begun(image, 0, 2);
	taken(player, 5);
	CHECK(straightway_player_next(player, &block, &bytes, NULL) == STRAIGHTWAY_STATUS_ROT);
	CHECK(!block && !bytes && strstr(straightway_error(), "checksum"));
	OK(straightway_player_close(player, &report));
	CHECK(report.bytes == 5 * BLOCK);
	// Unless nothing is compared: then the byte is as it is.
	options.block_bytes = BLOCK;
	options.no_verify = 1;
	OK(straightway_player_open(image, "data", NULL, &options, &player));
	taken(player, 5);
	OK(straightway_player_next(player, &block, &bytes, NULL));
	CHECK(bytes == BLOCK && ((const unsigned char *)block)[100] == (data[5 * BLOCK + 100] ^ 1));
	OK(straightway_player_close(player, NULL));
}

int main(int argc, char **argv)
{
	struct straightway_play_report report = { .size = sizeof(report) };
	straightway_player player;

	CHECK(argc == 2);
	for (size_t at = 0; at < LONG; at++)
		data[at] = (unsigned char)((at * 2654435761u) >> 13);
	snprintf(device, sizeof(device), "model:64M,file=%s/played", argv[1]);
	snprintf(image, sizeof(image), "%s/verified", argv[1]);
	stored(device, 0);
	stored(image, 1);
	for (uint32_t buffers = 1; buffers < 40; buffers += 19) {
		player = begun(device, 0, buffers);
		taken(player, BLOCKS);
		over(player);
	}
	player = begun(image, 0, 3);
	taken(player, BLOCKS);
	over(player);
	at_a_rate();
	// It ends wherever it is: with a block that the program has, and others behind it.
	player = begun(device, 1 << 20, 4);
	taken(player, 3);
	OK(straightway_player_close(player, &report));
	CHECK(report.bytes >= 3 * BLOCK && report.bytes <= LONG);
	refused();
	rotten();
	puts("all calls are as they should be");
	return 0;
}
