// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the tests in C check with.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <straightway.h>

#define CHECK(what)                                                                                   \
	do {                                                                                          \
		if (!(what)) {                                                                        \
			fprintf(stderr, "line %d: not so: %s; last: %s (%s)\n", __LINE__, #what,      \
				straightway_error(), straightway_hint());                             \
			exit(1);                                                                      \
		}                                                                                     \
	} while (0)

#define OK(call) CHECK((call) == STRAIGHTWAY_STATUS_OK)
#define WRONG(call, words)                                                                            \
	do {                                                                                          \
		CHECK((call) == STRAIGHTWAY_STATUS_USAGE);                                            \
		CHECK(strstr(straightway_error(), words));                                            \
	} while (0)
