// SPDX-License-Identifier: Apache-2.0 OR MIT
// Recordings: what was kept is in the file, and what was not is counted. `record FOLDER` works in images there.

#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include "check.h"

enum { BLOCK = 64 << 10, MESSAGE = 60000, MOST = 40 << 20 };

static char device[4096];
static unsigned char kept[MOST], back[MOST];
static size_t kept_bytes;
// Where messages were dropped: as many lines, if no two are at one place, and the last place.
static uint64_t gaps_count, gap_offset;

static void formatted(void)
{
	struct straightway_format_options options = STRAIGHTWAY_FORMAT_OPTIONS_INIT;

	OK(straightway_format(device, &options));
}

static straightway_recorder begun(const char *name, uint32_t on_full)
{
	struct straightway_record_options options = STRAIGHTWAY_RECORD_OPTIONS_INIT;
	straightway_recorder recorder;

	options.block_bytes = BLOCK;
	options.buffers = 3;
	options.on_full = on_full;
	options.commit_ms = 20;
	kept_bytes = gaps_count = 0;
	gap_offset = UINT64_MAX;
	OK(straightway_recorder_open(device, name, NULL, &options, &recorder));
	CHECK(recorder);
	return recorder;
}

// A message of one byte, another for each. A dropped one is followed by a pause, as a source has between messages: without it this
// thread would take the processor from the recorder's.
static enum straightway_status message(straightway_recorder recorder, unsigned number, size_t bytes, uint32_t *is_kept)
{
	enum straightway_status status;

	CHECK(kept_bytes + bytes <= MOST);
	memset(kept + kept_bytes, (int)(number % 251), bytes);
	status = straightway_recorder_append(recorder, kept + kept_bytes, bytes, 0, is_kept);
	if (!status && *is_kept)
		kept_bytes += bytes;
	else if (!status) {
		gaps_count += gap_offset != kept_bytes;
		gap_offset = kept_bytes;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return status;
}

// The file is exactly what was kept; how many gaps it has, the last of which is where messages were dropped last.
static uint64_t checked(const char *name, size_t bytes)
{
	struct straightway_entry entry = { .size = sizeof(entry) };
	char gaps[64];
	straightway_volume volume;
	straightway_file file;
	size_t count;

	OK(straightway_volume_open(device, NULL, &volume));
	OK(straightway_file_open(volume, name, 0, &file));
	OK(straightway_file_read(file, 0, back, MOST, &count));
	CHECK(count == bytes && !memcmp(kept, back, bytes));
	snprintf(gaps, sizeof(gaps), "%s.gaps", name);
	if (straightway_volume_find(volume, gaps, &entry) == STRAIGHTWAY_STATUS_NOT_FOUND)
		entry.size_bytes = 0;
	if (entry.size_bytes) {
		char line[65] = "";

		OK(straightway_file_open(volume, gaps, 0, &file));
		OK(straightway_file_read(file, entry.size_bytes - 64, line, 64, &count));
		CHECK(strtoull(line, NULL, 10) == gap_offset);
	}
	OK(straightway_volume_close(volume));
	return entry.size_bytes / 64;
}

static void waiting(void)
{
	static const size_t lengths[] = { 1, 100, BLOCK, BLOCK + 1, 2 * BLOCK, 0, 511 };
	struct straightway_record_report report = { .size = sizeof(report) };
	straightway_recorder recorder = begun("all", STRAIGHTWAY_ON_FULL_WAIT);
	uint32_t is_kept;

	for (unsigned number = 0; number < 70; number++) {
		OK(message(recorder, number, lengths[number % 7], &is_kept));
		CHECK(is_kept);
	}
	WRONG(straightway_recorder_append(recorder, kept, 2 * BLOCK + BLOCK + 1, 0, NULL), "longer than the memory");
	WRONG(straightway_recorder_append(recorder, NULL, 1, 0, NULL), "NULL");
	OK(straightway_recorder_get_report(recorder, &report));
	CHECK(report.bytes <= kept_bytes);
	OK(straightway_recorder_close(recorder, &report));
	CHECK(report.bytes == kept_bytes && report.durable_bytes == kept_bytes && !report.lost_messages && !report.lost_bytes);
	CHECK(report.waiting_max_blocks >= 1 && report.waiting_max_blocks <= 3 && report.latency_max_us);
	WRONG(straightway_recorder_append(recorder, kept, 1, 0, NULL), "closed");
	WRONG(straightway_recorder_close(recorder, NULL), "closed");
	CHECK(!checked("all", kept_bytes));
}

static void dropping(void)
{
	struct straightway_record_report report = { .size = sizeof(report) };
	straightway_recorder recorder = begun("some", STRAIGHTWAY_ON_FULL_DROP);
	uint64_t lost = 0;
	uint32_t is_kept;
	unsigned number = 0;

	// Until the drive did not keep up, and did again.
	for (unsigned again = 0; again < 2; again++) {
		do {
			OK(message(recorder, number++, MESSAGE, &is_kept));
			lost += !is_kept;
		} while (is_kept != again);
	}
	OK(straightway_recorder_close(recorder, &report));
	CHECK(lost && report.lost_messages == lost && report.lost_bytes == lost * MESSAGE && report.gaps);
	CHECK(report.durable_bytes == kept_bytes && report.waiting_max_blocks >= 2);
	CHECK(checked("some", kept_bytes) == report.gaps && report.gaps == gaps_count);
}

static void ending(void)
{
	struct straightway_record_report report = { .size = sizeof(report) };
	straightway_recorder recorder = begun("first", STRAIGHTWAY_ON_FULL_END);
	enum straightway_status status;
	unsigned number = 0;
	uint32_t is_kept;

	do
		status = message(recorder, number++, MESSAGE, &is_kept);
	while (!status);
	CHECK(status == STRAIGHTWAY_STATUS_LATE);
	WRONG(message(recorder, 0, 1, &is_kept), "has ended");
	CHECK(straightway_recorder_close(recorder, &report) != STRAIGHTWAY_STATUS_OK);
	CHECK(report.lost_messages && report.durable_bytes == kept_bytes);
	checked("first", report.durable_bytes);
}

// Whole units of a block become durable before it is full.
static void slow(void)
{
	struct straightway_record_report report = { .size = sizeof(report) };
	straightway_recorder recorder = begun("slow", STRAIGHTWAY_ON_FULL_WAIT);
	uint32_t is_kept;

	for (unsigned number = 1; number < 4; number++) {
		OK(message(recorder, number, 5000, &is_kept));
		do {
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
			OK(straightway_recorder_get_report(recorder, &report));
		} while (report.durable_bytes + 4096 <= kept_bytes);
	}
	OK(straightway_recorder_close(recorder, &report));
	CHECK(report.durable_bytes == kept_bytes && report.bytes == kept_bytes);
	CHECK(!checked("slow", kept_bytes));
}

static void opening(void)
{
	struct straightway_record_options options = STRAIGHTWAY_RECORD_OPTIONS_INIT;
	straightway_recorder recorder = 77;

	CHECK(straightway_recorder_open(device, "all", NULL, NULL, &recorder) == STRAIGHTWAY_STATUS_EXISTS);
	CHECK(!recorder);
	CHECK(straightway_recorder_open("ram:4M", "x", NULL, NULL, &recorder) == STRAIGHTWAY_STATUS_MISSING);
	CHECK(straightway_recorder_open("/nonexistent/x", "x", NULL, NULL, &recorder) == STRAIGHTWAY_STATUS_MISSING);
	WRONG(straightway_recorder_open(device, "", NULL, NULL, &recorder), "1 to 255 bytes");
	WRONG(straightway_recorder_open(NULL, "x", NULL, NULL, &recorder), "NULL");
	WRONG(straightway_recorder_open(device, NULL, NULL, NULL, &recorder), "NULL");
	WRONG(straightway_recorder_open(device, "x", NULL, NULL, NULL), "NULL");
	options.on_full = 3;
	WRONG(straightway_recorder_open(device, "x", NULL, &options, &recorder), "on_full");
	options.on_full = 0;
	options.buffers = 1;
	WRONG(straightway_recorder_open(device, "x", NULL, &options, &recorder), "buffers");
	options.buffers = 0;
	options.block_bytes = 1000;
	CHECK(straightway_recorder_open(device, "x", NULL, &options, &recorder) == STRAIGHTWAY_STATUS_USAGE);
	options.size = 0;
	WRONG(straightway_recorder_open(device, "x", NULL, &options, &recorder), "straightway_record_options");
}

static uint64_t size_of(straightway_volume volume, const char *name)
{
	struct straightway_entry entry = { .size = sizeof(entry) };

	OK(straightway_volume_find(volume, name, &entry));
	return entry.size_bytes;
}

static int is_there(straightway_volume volume, const char *name)
{
	struct straightway_entry entry = { .size = sizeof(entry) };

	return straightway_volume_find(volume, name, &entry) == STRAIGHTWAY_STATUS_OK;
}

// `count` blocks, as `options` say.
static void blocks(const char *name, const struct straightway_record_options *options, unsigned count)
{
	struct straightway_record_report report = { .size = sizeof(report) };
	straightway_recorder recorder;

	OK(straightway_recorder_open(device, name, NULL, options, &recorder));
	for (unsigned number = 0; number < count; number++) {
		memset(kept, (int)number, BLOCK);
		OK(straightway_recorder_append(recorder, kept, BLOCK, 0, NULL));
		// The library makes the next segment between the blocks of this one.
		do {
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
			OK(straightway_recorder_get_report(recorder, &report));
		} while (report.durable_bytes <= (uint64_t)number * BLOCK);
	}
	OK(straightway_recorder_close(recorder, &report));
}

// What the options say is done, and said of the samples.
static void described(void)
{
	struct straightway_record_options options = STRAIGHTWAY_RECORD_OPTIONS_INIT;
	struct straightway_record_report report = { .size = sizeof(report) };
	straightway_recorder recorder;
	straightway_volume volume;
	straightway_file file;
	char meta[4096] = "";
	size_t count;

	options.block_bytes = BLOCK;
	options.on_full = STRAIGHTWAY_ON_FULL_WAIT;
	options.format = "sigmf";
	options.sigmf_datatype = "ci16_le";
	options.sample_rate_hz = 48e3;
	options.channels = 2;
	options.hardware = "a receiver";
	options.total_bytes = (uint64_t)1 << 30;
	CHECK(straightway_recorder_open(device, "stereo", NULL, &options, &recorder) == STRAIGHTWAY_STATUS_FULL);
	options.total_bytes = BLOCK;
	// Less than this drive takes for a block.
	options.deadline_us = 1;
	OK(straightway_recorder_open(device, "stereo", NULL, &options, &recorder));
	OK(straightway_recorder_append(recorder, kept, BLOCK, 0, NULL));
	OK(straightway_recorder_close(recorder, &report));
	CHECK(report.misses == 1 && report.latency_max_us > 1 && report.waiting_max_bytes == BLOCK);
	OK(straightway_volume_open(device, NULL, &volume));
	OK(straightway_file_open(volume, "stereo.sigmf-meta", 0, &file));
	OK(straightway_file_read(file, 0, meta, sizeof(meta) - 1, &count));
	CHECK(strstr(meta, "num_channels") && strstr(meta, "a receiver"));
	OK(straightway_volume_close(volume));
}

static void segments_and_formats(void)
{
	struct straightway_record_options options = STRAIGHTWAY_RECORD_OPTIONS_INIT;
	straightway_recorder recorder;
	straightway_volume volume;

	options.block_bytes = BLOCK;
	options.commit_ms = 10;
	options.on_full = STRAIGHTWAY_ON_FULL_WAIT;
	options.format = "sigmf";
	options.sigmf_datatype = "ci16_le";
	options.sample_rate_hz = 1e6;
	options.frequency_hz = 433.92e6;
	blocks("radio", &options, 3);
	// It goes on, with what the file says of its samples.
	options.append = 1;
	options.sigmf_datatype = NULL;
	options.sample_rate_hz = 0;
	blocks("radio", &options, 2);
	options.sigmf_datatype = "cu8";
	CHECK(straightway_recorder_open(device, "radio", NULL, &options, &recorder) == STRAIGHTWAY_STATUS_USAGE);
	CHECK(strstr(straightway_error(), "another type"));
	options.append = 0;
	WRONG(straightway_recorder_open(device, "r", NULL, &options, &recorder), "sample_rate_hz");
	options.sample_rate_hz = -1;
	WRONG(straightway_recorder_open(device, "r", NULL, &options, &recorder), "frequency");
	options.sample_rate_hz = 1e6;
	options.sigmf_datatype = "ci12";
	WRONG(straightway_recorder_open(device, "r", NULL, &options, &recorder), "ci12");
	options.sigmf_datatype = "ci16_le";
	options.keep_bytes = 4 * BLOCK;
	WRONG(straightway_recorder_open(device, "ring", NULL, &options, &recorder), "segments");
	options.segment_bytes = BLOCK;
	options.append = 1;
	WRONG(straightway_recorder_open(device, "ring", NULL, &options, &recorder), "another file");
	options.append = 0;
	blocks("ring", &options, 20);
	options.segment_us = 1000;
	WRONG(straightway_recorder_open(device, "r", NULL, &options, &recorder), "at a time");
	options.segment_bytes = 0;
	options.keep_bytes = 0;
	// A block comes milliseconds after the one before, when that is durable.
	blocks("timed", &options, 20);
	options = (struct straightway_record_options)STRAIGHTWAY_RECORD_OPTIONS_INIT;
	options.format = "wav";
	WRONG(straightway_recorder_open(device, "r", NULL, &options, &recorder), "wav");
	options.format = "mcap";
	OK(straightway_recorder_open(device, "bag", NULL, &options, &recorder));
	OK(straightway_recorder_append(recorder, "\x89MCA", 4, 0, NULL));
	WRONG(straightway_recorder_append(recorder, "RIFF", 4, 0, NULL), "MCAP");
	OK(straightway_recorder_append(recorder, "P0\r\n", 4, 0, NULL));
	OK(straightway_recorder_close(recorder, NULL));
	options.on_full = STRAIGHTWAY_ON_FULL_DROP;
	OK(straightway_recorder_open(device, "loose", NULL, &options, &recorder));
	OK(straightway_recorder_append(recorder, "\x89MCAP0\r\n", 8, 0, NULL));
	OK(straightway_recorder_close(recorder, NULL));
	OK(straightway_volume_open(device, NULL, &volume));
	CHECK(size_of(volume, "radio") == 5 * BLOCK && is_there(volume, "radio.sigmf-meta"));
	// The ring has removed the first segment, and described the oldest of those that are left.
	CHECK(!is_there(volume, "ring.000001") && !is_there(volume, "ring.sigmf-meta") && !is_there(volume, "r"));
	CHECK(size_of(volume, "bag") == 8);
	CHECK(is_there(volume, "timed.000002") && !is_there(volume, "timed"));
	OK(straightway_volume_close(volume));
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	// A drive on which each command takes a while.
	snprintf(device, sizeof(device), "model:64M,file=%s/record,latency=3ms", argv[1]);
	formatted();
	waiting();
	dropping();
	ending();
	slow();
	opening();
	described();
	segments_and_formats();
	puts("all calls are as they should be");
	return 0;
}
