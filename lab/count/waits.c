// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Declares that a function of the kernel, or of a module, only waits: its instructions are counted apart.
 *
 *     waits FUNCTION [MODULE]
 */
#define COUNT_MESSAGES
#include "marker.h"

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: waits FUNCTION [MODULE]\n");
		return 2;
	}
	if (count_waits_in(argv[1], argc == 3 ? argv[2] : "")) {
		fprintf(stderr, "waits: /proc/kallsyms has no function %s\n", argv[1]);
		return 1;
	}
	return 0;
}
