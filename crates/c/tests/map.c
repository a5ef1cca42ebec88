// SPDX-License-Identifier: Apache-2.0 OR MIT
// Maps: a file and a device as memory, to load from and to store to. `map FOLDER` works in images there.

#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include "check.h"

#define IS(call, wanted) CHECK((call) == STRAIGHTWAY_STATUS_##wanted)

enum { PAGE = 64 << 10, PAGES = 40, LONG = PAGE * PAGES - 1234, MEMORY = 8 * PAGE };

static char image[4096];
static unsigned char data[LONG], chunk[PAGE];
static sigjmp_buf caught;

static void on_signal(int signal)
{
	siglongjmp(caught, signal);
}

// The signal that a load from the byte ends in, or 0.
static int signal_of(const volatile unsigned char *byte)
{
	int signal = sigsetjmp(caught, 1);

	if (!signal)
		(void)*byte;
	return signal;
}

static void stored(uint32_t checksums)
{
	struct straightway_format_options format = STRAIGHTWAY_FORMAT_OPTIONS_INIT;
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
	straightway_volume volume;
	straightway_file file;

	format.volume_bytes = 32 << 20;
	format.checksums = checksums;
	format.force = 1;
	OK(straightway_format(image, &format));
	options.write = 1;
	OK(straightway_volume_open(image, &options, &volume));
	OK(straightway_file_create(volume, "data", 0, checksums, 0, &file));
	OK(straightway_file_append(file, data, LONG));
	OK(straightway_file_close(file));
	OK(straightway_file_create(volume, "empty", 0, 0, 0, &file));
	OK(straightway_volume_close(volume));
}

// As the file was, but for `changed`, which is 1 if its bytes 5 to 7 are "map".
static void checked(int changed)
{
	static unsigned char back[LONG];
	straightway_volume volume;
	straightway_file file;
	size_t count;

	OK(straightway_volume_open(image, NULL, &volume));
	OK(straightway_file_open(volume, "data", 0, &file));
	OK(straightway_file_read(file, 0, back, LONG, &count));
	CHECK(count == LONG);
	if (changed) {
		CHECK(!memcmp(back + 5, "map", 3));
		memcpy(back + 5, data + 5, 3);
	}
	CHECK(!memcmp(back, data, LONG));
	OK(straightway_volume_close(volume));
}

static straightway_map opened(const char *name, const char *file, const struct straightway_options *options,
			      unsigned char **memory, uint64_t wanted)
{
	struct straightway_map_options map_options = STRAIGHTWAY_MAP_OPTIONS_INIT;
	straightway_map map;
	uint64_t bytes;
	void *start;

	map_options.memory_bytes = MEMORY;
	OK(straightway_map_open(name, file, options, &map_options, &map));
	OK(straightway_map_get_memory(map, &start, &bytes));
	CHECK(bytes == wanted);
	*memory = start;
	return map;
}

static void *compared(void *memory)
{
	CHECK(!memcmp(memory, data, LONG));
	return NULL;
}

// All of the file, by this thread and another, through less memory than it needs.
static void read_through_memory(void)
{
	struct straightway_map_counters counters = { .size = sizeof(counters) };
	struct straightway_map_failure failure = { .size = sizeof(failure) };
	unsigned char *memory;
	straightway_volume volume;
	pthread_t other;
	straightway_map map = opened(image, "data", NULL, &memory, LONG);

	OK(straightway_map_prefetch(map, 0, PAGE));
	compared(memory);
	CHECK(!pthread_create(&other, NULL, compared, memory));
	CHECK(!pthread_join(other, NULL));
	OK(straightway_map_pin(map, PAGE, 2 * PAGE));
	CHECK(!memcmp(memory + PAGE, data + PAGE, 2 * PAGE));
	OK(straightway_map_get_counters(map, &counters));
	CHECK(counters.faults && !counters.writes && !counters.failures);
	CHECK(counters.reads >= 2 * PAGES - MEMORY / PAGE && counters.reads <= 2 * PAGES + 3);
	CHECK(counters.evictions >= counters.reads - MEMORY / PAGE);
	OK(straightway_map_unpin(map, PAGE, 2 * PAGE));
	OK(straightway_map_sync(map));
	IS(straightway_map_take_failure(map, &failure), NOT_FOUND);

	WRONG(straightway_map_prefetch(map, LONG - 1, 2), "does not fit");
	WRONG(straightway_map_pin(map, UINT64_MAX, 2), "from byte");
	WRONG(straightway_map_unpin(map, LONG + 1, 0), "does not fit");
	WRONG(straightway_map_pin(map, 0, LONG), "memory");
	WRONG(straightway_close(map), "a map's");
	WRONG(straightway_map_get_memory(map, NULL, NULL), "NULL");
	WRONG(straightway_map_get_counters(map, NULL), "NULL");
	WRONG(straightway_map_take_failure(map, NULL), "NULL");
	counters.size = 1;
	WRONG(straightway_map_get_counters(map, &counters), "straightway_map_counters");
	failure.size = 1;
	WRONG(straightway_map_take_failure(map, &failure), "straightway_map_failure");
	OK(straightway_map_close(map));
	WRONG(straightway_map_close(map), "closed");
	OK(straightway_volume_open(image, NULL, &volume));
	WRONG(straightway_map_close(volume), "a volume's");
	OK(straightway_volume_close(volume));
}

static void stored_through_memory(void)
{
	struct straightway_map_counters counters = { .size = sizeof(counters) };
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
	unsigned char *memory;
	straightway_map map;

	options.write = 1;
	map = opened(image, "data", &options, &memory, LONG);
	memcpy(memory + 5, "map", 3);
	OK(straightway_map_sync(map));
	OK(straightway_map_get_counters(map, &counters));
	CHECK(counters.writes == 1);
	OK(straightway_map_close(map));
	checked(1);
	map = opened(image, "data", &options, &memory, LONG);
	memcpy(memory + 5, data + 5, 3);
	OK(straightway_map_close(map)); // which syncs
	checked(0);
}

static void of_a_device(void)
{
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
	unsigned char *memory;
	FILE *disk;
	straightway_map map = opened(image, NULL, NULL, &memory, 32 << 20);

	CHECK((disk = fopen(image, "rb")));
	for (size_t at = 0; at < 32 << 20; at += PAGE)
		CHECK(fread(chunk, PAGE, 1, disk) == 1 && !memcmp(memory + at, chunk, PAGE));
	CHECK(!fclose(disk));
	OK(straightway_map_close(map));
	options.write = 1;
	WRONG(straightway_map_open(image, NULL, &options, NULL, &map), "overwrite");
	CHECK(!map);
	options.destroy_data = image;
	WRONG(straightway_map_open(image, "data", &options, NULL, &map), "destroy_data");
	map = opened("ram:1M", NULL, &(struct straightway_options){ .size = sizeof(options), .write = 1 }, &memory, 1 << 20);
	memset(memory, 7, 1 << 20);
	CHECK(memory[0] == 7 && memory[(1 << 20) - 1] == 7);
	OK(straightway_map_close(map));
}

static void refused(void)
{
	struct straightway_map_options map_options = STRAIGHTWAY_MAP_OPTIONS_INIT;
	straightway_map map;

	IS(straightway_map_open(image, "other", NULL, NULL, &map), NOT_FOUND);
	WRONG(straightway_map_open(image, "empty", NULL, NULL, &map), "empty");
	IS(straightway_map_open("/nonexistent/x", "data", NULL, NULL, &map), MISSING);
	WRONG(straightway_map_open(NULL, "data", NULL, NULL, &map), "NULL");
	WRONG(straightway_map_open(image, "data", NULL, NULL, NULL), "NULL");
	map_options.page_bytes = 12345;
	WRONG(straightway_map_open(image, "data", NULL, &map_options, &map), "pages of 12345 bytes");
	map_options.page_bytes = SIZE_MAX;
	WRONG(straightway_map_open(image, "data", NULL, &map_options, &map), "pages of");
	map_options.page_bytes = 4 << 20;
	WRONG(straightway_map_open(image, "data", NULL, &map_options, &map), "pages of");
	map_options.page_bytes = PAGE;
	map_options.memory_bytes = PAGE - 1;
	WRONG(straightway_map_open(image, "data", NULL, &map_options, &map), "memory");
	map_options.size++;
	WRONG(straightway_map_open(image, "data", NULL, &map_options, &map), "straightway_map_options");
	checked(0);
}

// Where the device's data is not what it was, a load is SIGBUS and a pin is an error, and each says so.
static void rotten(void)
{
	struct sigaction action = { .sa_handler = on_signal }, before;
	struct straightway_map_failure failure = { .size = sizeof(failure) };
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
	unsigned char *memory;
	straightway_map map;
	long at = 0;
	FILE *disk;

	// Its third page, by its first bytes.
	CHECK((disk = fopen(image, "r+b")));
	while (fread(chunk, 1, 4096, disk) == 4096 && memcmp(chunk, data + 2 * PAGE, 4096))
		at += 4096;
	CHECK(!fseek(disk, at + 100, SEEK_SET) && fputc(data[2 * PAGE + 100] ^ 1, disk) != EOF && !fclose(disk));

	map = opened(image, "data", NULL, &memory, LONG);
	CHECK(!memcmp(memory, data, 2 * PAGE));
	IS(straightway_map_pin(map, PAGE, 2 * PAGE), ROT);
	CHECK(strstr(straightway_error(), "checksum"));
	CHECK(!sigaction(SIGBUS, &action, &before));
	CHECK(signal_of(memory + 2 * PAGE) == SIGBUS);
	CHECK(!sigaction(SIGBUS, &before, NULL));
	CHECK(!memcmp(memory + 3 * PAGE, data + 3 * PAGE, LONG - 3 * PAGE));
	OK(straightway_map_take_failure(map, &failure));
	CHECK(failure.offset == 2 * PAGE && failure.status == STRAIGHTWAY_STATUS_ROT && !failure.write);
	CHECK(strstr(straightway_error(), "checksum"));
	OK(straightway_map_close(map));
	options.write = 1;
	WRONG(straightway_map_open(image, "data", &options, NULL, &map), "checksums");
}

int main(int argc, char **argv)
{
	straightway_map map;

	CHECK(argc == 2);
	for (size_t at = 0; at < LONG; at++)
		data[at] = (unsigned char)((at * 2654435761u) >> 13);
	if (straightway_map_open("ram:1M", NULL, NULL, NULL, &map) == STRAIGHTWAY_STATUS_UNSUPPORTED) {
		printf("SKIPPED: %s\n", straightway_error());
		return 0;
	}
	CHECK(map);
	OK(straightway_map_close(map));
	snprintf(image, sizeof(image), "%s/mapped", argv[1]);
	stored(0);
	read_through_memory();
	stored_through_memory();
	of_a_device();
	refused();
	stored(1);
	read_through_memory();
	rotten();
	return 0;
}
