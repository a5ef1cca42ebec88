// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Stamps events into FILE by the C header, as tests/header.rs expects. */
#include "straightway_events.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	struct swt_timer timer;
	struct swt_ring ring;
	uint32_t tag;

	if (argc < 3)
		return 2;
	/* No room at all, and a file that exists. */
	if (!swt_ring_create(&ring, argv[1], "none", 0) || errno != EINVAL)
		return 3;
	if (swt_ring_create(&ring, argv[1], "a name that is longer than thirty-two bytes", 8))
		return 4;
	swt_stamp(&ring, 99);
	swt_ring_record(&ring);
	for (tag = 0; tag < 5; tag++)
		swt_stamp(&ring, tag);
	swt_ring_pause(&ring);
	swt_stamp(&ring, 98);
	swt_ring_record(&ring);
	for (tag = 5; tag < 11; tag++)
		swt_stamp(&ring, tag);
	swt_ring_close(&ring);
	if (!swt_ring_create(&ring, argv[1], "again", 8) || errno != EEXIST)
		return 5;

	/* A file of registers stands for the device. */
	if (!swt_timer_open(&timer, argv[1]) || errno != ENODEV)
		return 6;
	if (swt_timer_open(&timer, argv[2]))
		return 7;
	swt_timer_record(&timer, true);
	swt_timer_stamp(&timer, 0x1234);
	printf("%u\n", swt_timer_lost(&timer));
	swt_timer_close(&timer);
	return 0;
}
