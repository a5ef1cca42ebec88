// SPDX-License-Identifier: Apache-2.0 OR MIT
// Volumes: every call, and every wrong use that the header names. `volumes FOLDER` works in images there.

#include <pthread.h>
#include "check.h"

#define IS(call, wanted) CHECK((call) == STRAIGHTWAY_STATUS_##wanted)

enum { LONG = (3 << 20) + 12345 };

static char image[4096];
static unsigned char data[LONG], back[LONG];

static straightway_volume opened(uint32_t write)
{
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
	straightway_volume volume;

	options.write = write;
	OK(straightway_volume_open(image, &options, &volume));
	CHECK(volume);
	return volume;
}

static void formatted(uint32_t checksums)
{
	struct straightway_format_options options = STRAIGHTWAY_FORMAT_OPTIONS_INIT;

	options.volume_bytes = 32 << 20;
	options.label = "in C";
	options.unit_bytes = 8 << 10;
	options.checksums = checksums;
	OK(straightway_format(image, &options));
	// It holds a volume now.
	WRONG(straightway_format(image, &options), "nothing was done");
	// The member of the options, not the command's --force.
	CHECK(strstr(straightway_hint(), "options.force = true, if") == straightway_hint());
	options.force = 1;
	OK(straightway_format(image, &options));
	options.size++;
	WRONG(straightway_format(image, &options), "straightway_format_options");
	WRONG(straightway_format(NULL, NULL), "NULL");
}

static uint64_t size_of_file(straightway_volume volume, const char *name)
{
	struct straightway_entry entry = { .size = sizeof(entry) };

	OK(straightway_volume_find(volume, name, &entry));
	CHECK(!strcmp(entry.whole_name, name));
	return entry.size_bytes;
}

static void check_bytes(straightway_file file, uint64_t offset, size_t bytes, size_t wanted)
{
	size_t count;

	memset(back, 0xee, sizeof(back));
	OK(straightway_file_read(file, offset, back, bytes, &count));
	CHECK(count == wanted);
	CHECK(!memcmp(back, data + offset, wanted));
}

// Appends of any length, and reads of any part, also of what is only a part of a block.
static void append_and_read(uint32_t checksums)
{
	static const size_t lengths[] = { 1, 511, 512, 513, 4095, 65536, 700000, 1, 1 << 20, 3 };
	straightway_volume volume = opened(1);
	straightway_file file;
	uint64_t size = 0, durable;
	size_t count;

	OK(straightway_file_create(volume, "log", 1 << 20, checksums, 77, &file));
	for (size_t at = 0; at < sizeof(lengths) / sizeof(*lengths); at++) {
		OK(straightway_file_append(file, data + size, lengths[at]));
		size += lengths[at];
		if (at % 3 == 2)
			continue;
		// What is not synced is not there yet.
		OK(straightway_file_get_size(file, &durable));
		CHECK(durable < size);
		OK(straightway_file_sync(file, &durable));
		CHECK(durable == size && size_of_file(volume, "log") == size);
		check_bytes(file, 0, sizeof(back), (size_t)size);
	}
	OK(straightway_file_append(file, data + size, 0));
	OK(straightway_file_append(file, data + size, (size_t)(LONG - size)));
	OK(straightway_file_close(file));

	struct straightway_entry entry = { .size = sizeof(entry) };

	OK(straightway_volume_find(volume, "log", &entry));
	CHECK(entry.size_bytes == LONG && entry.app_tag == 77 && entry.checksums == checksums && entry.mtime_ns);
	CHECK(entry.allocated_bytes >= LONG);
	OK(straightway_file_open(volume, "log", 0, &file));
	check_bytes(file, 0, LONG, LONG);
	check_bytes(file, 1, 1, 1);
	check_bytes(file, 65535, 2, 2);
	check_bytes(file, 1048575, 1048578, 1048578);
	check_bytes(file, LONG - 5, 100, 5);
	check_bytes(file, LONG, 100, 0);
	OK(straightway_file_read(file, UINT64_MAX, back, 100, &count));
	CHECK(!count);
	CHECK(straightway_file_append(file, data, 1) != STRAIGHTWAY_STATUS_OK);
	WRONG(straightway_file_read(file, 0, NULL, 1, &count), "NULL");
	WRONG(straightway_file_read(file, 0, back, 1, NULL), "NULL");
	WRONG(straightway_file_read(file, 0, back, SIZE_MAX, &count), "bytes");
	WRONG(straightway_file_append(file, NULL, 1), "NULL");
	OK(straightway_file_sync(file, NULL));
	OK(straightway_volume_close(volume));
	// The volume closed its file too.
	WRONG(straightway_file_read(file, 0, back, 1, &count), "closed");
	WRONG(straightway_file_close(file), "closed");
	WRONG(straightway_volume_close(volume), "closed");
}

// A file of a volume that is closed keeps what was appended; a handle that is open is appended to again from its end.
static void append_again(void)
{
	straightway_volume volume = opened(1);
	straightway_file file, other;

	OK(straightway_file_create(volume, "two", 0, 0, 0, &file));
	OK(straightway_file_append(file, data, 1000));
	CHECK(straightway_file_open(volume, "two", 1, &other) == STRAIGHTWAY_STATUS_MISSING);
	OK(straightway_volume_close(volume));
	volume = opened(1);
	OK(straightway_file_open(volume, "two", 1, &file));
	OK(straightway_file_append(file, data + 1000, 2000));
	OK(straightway_file_sync(file, NULL));
	// A second handle reads what is durable when it is opened.
	OK(straightway_file_open(volume, "two", 0, &other));
	check_bytes(other, 0, 4000, 3000);
	OK(straightway_volume_close(volume));
}

// A file whose name has more than 64 bytes, and a program that was built before there were any.
static void long_names(straightway_volume volume, char *name)
{
	struct straightway_entry entry = { .size = sizeof(entry) };
	struct straightway_entry before = { .size = 112 };
	uint32_t cursor = 0;
	unsigned seen = 0, refused = 0;
	enum straightway_status status;
	straightway_file file;

	name[255] = 0;
	OK(straightway_file_create(volume, name, 0, 0, 5, &file));
	OK(straightway_file_close(file));
	OK(straightway_volume_find(volume, name, &entry));
	CHECK(!strcmp(entry.whole_name, name) && !*entry.name && entry.app_tag == 5);
	memset(before.whole_name + 3, 0x77, sizeof(before.whole_name) - 3);
	WRONG(straightway_volume_find(volume, name, &before), "255 bytes");
	OK(straightway_volume_find(volume, "log", &before));
	CHECK(!strcmp(before.name, "log") && before.whole_name[3] == 0x77);
	while ((status = straightway_volume_next(volume, &cursor, &before)) != STRAIGHTWAY_STATUS_NOT_FOUND) {
		CHECK(status == STRAIGHTWAY_STATUS_OK || status == STRAIGHTWAY_STATUS_USAGE);
		refused += status == STRAIGHTWAY_STATUS_USAGE;
		seen += !strncmp(before.name, "set/", 4) && !status;
	}
	CHECK(seen == 8 && refused == 1);
	OK(straightway_volume_remove(volume, name));
}

static void names(void)
{
	straightway_volume volume = opened(1);
	struct straightway_entry entry = { .size = sizeof(entry) };
	struct straightway_volume_status status = { .size = sizeof(status) };
	char name[257];
	uint32_t cursor = 0;
	unsigned seen = 0;
	straightway_file file;

	OK(straightway_volume_get_status(volume, &status));
	CHECK(!strcmp(status.label, "in C") && !status.read_only && status.slots >= 64);
	CHECK(status.unit_bytes == 8 << 10);
	CHECK(status.free_bytes < status.capacity_bytes && status.free_bytes > 16 << 20);
	for (char letter = 'a'; letter < 'k'; letter++) {
		snprintf(name, sizeof(name), "set/%c", letter);
		OK(straightway_file_create(volume, name, 0, 0, (uint64_t)(letter - 'a'), &file));
		OK(straightway_file_close(file));
	}
	IS(straightway_file_create(volume, "set/a", 0, 0, 0, &file), EXISTS);
	CHECK(!file);
	OK(straightway_volume_rename(volume, "set/a", "\xc3\xa9"));
	IS(straightway_volume_rename(volume, "set/a", "x"), NOT_FOUND);
	IS(straightway_volume_rename(volume, "set/b", "set/c"), EXISTS);
	OK(straightway_volume_remove(volume, "set/b"));
	IS(straightway_volume_remove(volume, "set/b"), NOT_FOUND);
	IS(straightway_volume_find(volume, "set/b", &entry), NOT_FOUND);
	IS(straightway_file_open(volume, "set/b", 0, &file), NOT_FOUND);
	CHECK(strstr(straightway_hint(), "straightway ls"));
	memset(name, 'n', 256);
	name[256] = 0;
	WRONG(straightway_file_create(volume, name, 0, 0, 0, &file), "255 bytes");
	WRONG(straightway_file_create(volume, "", 0, 0, 0, &file), "255 bytes");
	WRONG(straightway_file_create(volume, "\xff", 0, 0, 0, &file), "UTF-8");
	WRONG(straightway_file_create(volume, NULL, 0, 0, 0, &file), "NULL");
	WRONG(straightway_file_create(volume, "x", 0, 0, 0, NULL), "NULL");
	IS(straightway_file_create(volume, "x", UINT64_MAX, 0, 0, &file), FULL);
	// Nothing of the space that it could not get is missing, and no name either.
	IS(straightway_volume_find(volume, "x", &entry), NOT_FOUND);
	// An open file is neither renamed nor removed.
	OK(straightway_file_open(volume, "set/d", 0, &file));
	IS(straightway_volume_remove(volume, "set/d"), MISSING);
	IS(straightway_volume_rename(volume, "set/d", "x"), MISSING);
	OK(straightway_file_close(file));
	long_names(volume, name);
	while (straightway_volume_next(volume, &cursor, &entry) == STRAIGHTWAY_STATUS_OK)
		seen += !strncmp(entry.name, "set/", 4);
	IS(straightway_volume_next(volume, &cursor, &entry), NOT_FOUND);
	CHECK(seen == 8);
	entry.size--;
	WRONG(straightway_volume_find(volume, "set/c", &entry), "straightway_entry");
	WRONG(straightway_volume_next(volume, NULL, &entry), "NULL");
	status.size = 0;
	WRONG(straightway_volume_get_status(volume, &status), "straightway_volume_status");
	// A handle of one kind is not one of another.
	WRONG(straightway_kick(volume), "volume's, not a device's");
	WRONG(straightway_file_close(volume), "volume's, not a file's");
	OK(straightway_file_open(volume, "set/d", 0, &file));
	WRONG(straightway_volume_close(file), "file's, not a volume's");
	WRONG(straightway_close(volume), "volume's, not a device's");
	OK(straightway_volume_close(volume));
}

// A volume that is full: what was durable stays, and a file can be removed.
static void full(void)
{
	straightway_volume volume = opened(1);
	enum straightway_status status = STRAIGHTWAY_STATUS_OK;
	straightway_file file;
	uint64_t durable = 0, size;

	OK(straightway_file_create(volume, "full", 0, 0, 0, &file));
	while (!status) {
		status = straightway_file_append(file, data, LONG);
		if (!status)
			status = straightway_file_sync(file, &durable);
	}
	CHECK(status == STRAIGHTWAY_STATUS_FULL && durable >= LONG);
	// What is left of the space is still appended to, from where the file ends.
	OK(straightway_file_sync(file, &size));
	CHECK(size >= durable);
	straightway_file_close(file);
	CHECK(size_of_file(volume, "full") == size);
	OK(straightway_file_open(volume, "full", 0, &file));
	for (uint64_t at = 0; at < size; at += LONG) {
		size_t count, bytes = size - at < LONG ? (size_t)(size - at) : LONG;

		OK(straightway_file_read(file, at, back, bytes, &count));
		CHECK(count == bytes && !memcmp(back, data, bytes));
	}
	OK(straightway_file_close(file));
	OK(straightway_volume_remove(volume, "full"));
	OK(straightway_file_create(volume, "again", LONG, 0, 0, &file));
	OK(straightway_volume_close(volume));
}

static void *other_thread(void *volume)
{
	struct straightway_entry entry = { .size = sizeof(entry) };

	WRONG(straightway_volume_find(*(straightway_volume *)volume, "log", &entry), "this thread");
	return NULL;
}

static void reading_only(void)
{
	straightway_volume volume = opened(0), second = 77;
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
	straightway_file file;
	pthread_t thread;

	CHECK(size_of_file(volume, "log") == LONG);
	CHECK(straightway_file_create(volume, "x", 0, 0, 0, &file) == STRAIGHTWAY_STATUS_MISSING);
	CHECK(straightway_file_open(volume, "log", 1, &file) == STRAIGHTWAY_STATUS_MISSING);
	CHECK(straightway_volume_remove(volume, "log") == STRAIGHTWAY_STATUS_MISSING);
	OK(pthread_create(&thread, NULL, other_thread, &volume));
	OK(pthread_join(thread, NULL));
	// A reader keeps a writer away.
	options.write = 1;
	IS(straightway_volume_open(image, &options, &second), MISSING);
	CHECK(!second);
	OK(straightway_volume_close(volume));
	options.destroy_data = image;
	WRONG(straightway_volume_open(image, &options, &second), "destroys nothing");
	WRONG(straightway_volume_open(NULL, NULL, &second), "NULL");
	WRONG(straightway_volume_open(image, NULL, NULL), "NULL");
	IS(straightway_volume_open("ram:4M", NULL, &second), MISSING);
	CHECK(strstr(straightway_hint(), "format"));
	IS(straightway_volume_open("/nonexistent/x", NULL, &second), MISSING);
}

// A byte that changed on the device is found.
static void rotten(void)
{
	FILE *raw = fopen(image, "r+b");
	long at = 0;
	int found = 0;

	CHECK(raw);
	// The beginning of the file `log`, wherever it is.
	for (; !found && fseek(raw, at, SEEK_SET) == 0 && fread(back, 1, 512, raw) == 512; at += 512)
		found = !memcmp(back, data + 65536, 512);
	CHECK(found);
	CHECK(!fseek(raw, at - 512, SEEK_SET) && fputc(data[65536] ^ 1, raw) != EOF && !fclose(raw));

	straightway_volume volume = opened(0);
	straightway_file file;
	size_t count;

	OK(straightway_file_open(volume, "log", 0, &file));
	check_bytes(file, 0, 65536, 65536);
	IS(straightway_file_read(file, 70000, back, 1, &count), ROT);
	CHECK(!count);
	check_bytes(file, 131072, LONG, LONG - 131072);
	OK(straightway_volume_close(volume));
}

// Small files, more than one operation takes, and a long one in between; the first that cannot be made ends it.
static void many(uint32_t checksums)
{
	enum { FILES = 31 };
	struct straightway_new_file files[FILES];
	char names[FILES][16];
	straightway_volume volume;
	straightway_file file;
	size_t made;

	formatted(checksums);
	volume = opened(1);
	for (size_t at = 0; at < FILES; at++) {
		snprintf(names[at], sizeof(names[at]), "small %zu", at);
		files[at] = (struct straightway_new_file){ sizeof(files[at]), names[at], data, at == 14 ? 200000 : at * 300, at };
	}
	files[0].data = NULL;
	OK(straightway_volume_create_many(volume, files, FILES, checksums, &made));
	CHECK(made == FILES);
	for (size_t at = 0; at < FILES; at++) {
		CHECK(size_of_file(volume, names[at]) == files[at].bytes);
		OK(straightway_file_open(volume, names[at], 0, &file));
		check_bytes(file, 0, files[at].bytes, files[at].bytes);
		OK(straightway_file_close(file));
	}
	OK(straightway_volume_remove(volume, "small 0"));
	OK(straightway_volume_remove(volume, "small 1"));
	IS(straightway_volume_create_many(volume, files, FILES, checksums, &made), EXISTS);
	CHECK(made == 2);
	OK(straightway_volume_create_many(volume, NULL, 0, checksums, NULL));
	WRONG(straightway_volume_create_many(volume, NULL, 1, checksums, &made), "NULL");
	CHECK(!made);
	files[1].data = NULL;
	WRONG(straightway_volume_create_many(volume, files + 1, 1, checksums, &made), "NULL");
	files[1].size--;
	WRONG(straightway_volume_create_many(volume, files + 1, 1, checksums, &made), "straightway_new_file");
	OK(straightway_volume_close(volume));
}

// More files than the volume has slots, with names of more than 64 bytes: a volume of 1.1.
static void of_1_1(uint32_t checksums)
{
	enum { FILES = 1100 };
	static struct straightway_new_file files[FILES];
	static char names[FILES][120];
	struct straightway_entry entry = { .size = sizeof(entry) };
	straightway_volume volume;
	straightway_file file;
	uint32_t cursor = 0;
	size_t made, found = 0;

	formatted(checksums);
	volume = opened(1);
	for (size_t at = 0; at < FILES; at++) {
		snprintf(names[at], sizeof(names[at]), "%0100zu", at);
		files[at] = (struct straightway_new_file){ sizeof(files[at]), names[at], data, at % 5 * 100, at };
	}
	OK(straightway_volume_create_many(volume, files, FILES, checksums, &made));
	CHECK(made == FILES);
	OK(straightway_volume_close(volume));
	volume = opened(1);
	while (straightway_volume_next(volume, &cursor, &entry) == STRAIGHTWAY_STATUS_OK) {
		CHECK(strlen(entry.whole_name) == 100);
		found++;
	}
	CHECK(found == FILES);
	for (size_t at = 0; at < FILES; at += 7) {
		CHECK(size_of_file(volume, names[at]) == files[at].bytes);
		OK(straightway_file_open(volume, names[at], 0, &file));
		check_bytes(file, 0, files[at].bytes, files[at].bytes);
		OK(straightway_file_close(file));
	}
	OK(straightway_volume_rename(volume, names[1], "short"));
	OK(straightway_file_open(volume, "short", 1, &file));
	OK(straightway_file_append(file, data + files[1].bytes, 70000));
	OK(straightway_file_close(file));
	OK(straightway_file_open(volume, "short", 0, &file));
	check_bytes(file, 0, 65536, 65536);
	OK(straightway_file_close(file));
	IS(straightway_volume_rename(volume, "short", names[2]), EXISTS);
	for (size_t at = 2; at < FILES; at += 5)
		OK(straightway_volume_remove(volume, names[at]));
	IS(straightway_volume_find(volume, names[1], &entry), NOT_FOUND);
	OK(straightway_volume_close(volume));
}

static void resized(uint32_t checksums)
{
	uint64_t before, bytes;
	struct straightway_volume_status status = { .size = sizeof(status) };
	straightway_volume volume;
	straightway_file file;

	formatted(checksums);
	volume = opened(1);
	OK(straightway_file_create(volume, "kept", 0, checksums, 0, &file));
	OK(straightway_file_append(file, data, LONG));
	OK(straightway_file_close(file));
	CHECK(straightway_resize(image, NULL, 0, &bytes) == STRAIGHTWAY_STATUS_MISSING);
	OK(straightway_volume_get_status(volume, &status));
	OK(straightway_volume_close(volume));
	OK(straightway_resize(image, NULL, 0, &before));
	OK(straightway_resize(image, NULL, 2 * before, &bytes));
	CHECK(bytes == 2 * before);
	IS(straightway_resize(image, NULL, 65536, NULL), FULL);
	OK(straightway_resize(image, NULL, before, &bytes));
	CHECK(bytes == before);
	WRONG(straightway_resize(NULL, NULL, 0, NULL), "NULL");
	IS(straightway_resize("/nonexistent/x", NULL, 0, NULL), MISSING);
	volume = opened(0);
	OK(straightway_file_open(volume, "kept", 0, &file));
	check_bytes(file, 0, LONG, LONG);
	OK(straightway_volume_close(volume));
}

int main(int argc, char **argv)
{
	uint32_t state = 1;

	CHECK(argc == 2);
	for (size_t at = 0; at < LONG; at++) {
		state = state * 1664525 + 1013904223;
		data[at] = (unsigned char)(state >> 24);
	}
	for (uint32_t checksums = 0; checksums < 2; checksums++) {
		snprintf(image, sizeof(image), "%s/volume-%u", argv[1], checksums);
		formatted(checksums);
		append_and_read(checksums);
		append_again();
		names();
		full();
		reading_only();
	}
	rotten();
	for (uint32_t checksums = 0; checksums < 2; checksums++) {
		snprintf(image, sizeof(image), "%s/many-%u", argv[1], checksums);
		many(checksums);
		snprintf(image, sizeof(image), "%s/of-1-1-%u", argv[1], checksums);
		of_1_1(checksums);
		snprintf(image, sizeof(image), "%s/resized-%u", argv[1], checksums);
		resized(checksums);
	}
	puts("all calls are as they should be");
	return 0;
}
