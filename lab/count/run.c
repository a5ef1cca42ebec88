// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Counts a whole command: all that the guest executes until its end, in one pair of markers.
 *
 *     run COMMAND...
 *
 * The difference of two runs with another number of operations has no part of the command's start. The exit status is the command's.
 */
#define COUNT_MESSAGES
#include "marker.h"

#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status = 0;
	pid_t child;

	if (argc < 2 || count_waits_in("cpu_idle_poll", ""))
		return 125;
	COUNT_BEGIN(1);
	child = fork();
	if (child == 0) {
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0)
		;
	COUNT_END(1);
	return child < 0 ? 126 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
