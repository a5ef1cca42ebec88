// SPDX-License-Identifier: Apache-2.0 OR MIT
// A volume with checksums, written by calls of libstraightway: `writer IMAGE`. For tests/golden/make.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <straightway.h>

#define OK(call)                                                                                \
	do {                                                                                    \
		if ((call) != STRAIGHTWAY_STATUS_OK) {                                          \
			fprintf(stderr, "%s: %s (%s)\n", #call, straightway_error(), straightway_hint()); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

enum { PIECE = 7001, PIECES = 20, MESSAGE = 500, MESSAGES = 300 };

static unsigned char bytes[PIECE];

static void filled(unsigned number, size_t count)
{
	memset(bytes, 'a' + (int)(number % 26), count);
	memcpy(bytes, &(uint32_t){ number }, 4);
}

static void files(const char *image)
{
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;
	straightway_volume volume;
	straightway_file file;

	options.write = 1;
	OK(straightway_volume_open(image, &options, &volume));
	for (unsigned number = 0; number < 3; number++) {
		char name[32];

		snprintf(name, sizeof(name), "appended %u", number);
		OK(straightway_file_create(volume, name, number * 100000, 1, number, &file));
		for (unsigned piece = 0; piece < PIECES; piece++) {
			filled(piece, PIECE);
			OK(straightway_file_append(file, bytes, PIECE));
			if (piece % 5 == 4)
				OK(straightway_file_sync(file, NULL));
		}
		OK(straightway_file_close(file));
	}
	OK(straightway_volume_rename(volume, "appended 1", "renamed"));
	OK(straightway_volume_remove(volume, "appended 2"));
	OK(straightway_volume_close(volume));
}

static void recording(const char *image)
{
	struct straightway_record_options options = STRAIGHTWAY_RECORD_OPTIONS_INIT;
	straightway_recorder recorder;

	options.block_bytes = 64 << 10;
	options.on_full = STRAIGHTWAY_ON_FULL_WAIT;
	OK(straightway_recorder_open(image, "messages", NULL, &options, &recorder));
	for (unsigned number = 0; number < MESSAGES; number++) {
		filled(number, MESSAGE);
		OK(straightway_recorder_append(recorder, bytes, MESSAGE, 0, NULL));
	}
	OK(straightway_recorder_close(recorder, NULL));
}

int main(int count, char **words)
{
	struct straightway_format_options options = STRAIGHTWAY_FORMAT_OPTIONS_INIT;

	if (count != 2)
		return 2;
	options.volume_bytes = 4 << 20;
	options.label = "in C";
	options.checksums = 1;
	OK(straightway_format(words[1], &options));
	files(words[1]);
	recording(words[1]);
	return 0;
}
