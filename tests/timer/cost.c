// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events in the kernel between the markers of lab/count: `echo LABEL >parameters/run` stamps 100.
 *
 * 10: nothing; 11: swt_event(), in whatever state /dev/swt-cost is; 12: a tracepoint. A run is told
 * apart from another with the same label by its place in the output.
 */
#include <linux/module.h>

#include "marker.h"
#include "swt_event.h"

#define CREATE_TRACE_POINTS
#include "cost_trace.h"

#define TIMES 100

static int run_set(const char *text, const struct kernel_param *param)
{
	unsigned int label, index;
	int error = kstrtouint(text, 0, &label);

	if (error)
		return error;
	for (index = 0; index < TIMES; index++) {
		switch (label) {
		case 10:
			COUNT_BEGIN(10);
			COUNT_END(10);
			break;
		case 11:
			COUNT_BEGIN(11);
			swt_event(11);
			COUNT_END(11);
			break;
		case 12:
			COUNT_BEGIN(12);
			trace_swt_cost(12);
			COUNT_END(12);
			break;
		default:
			return -EINVAL;
		}
	}
	return 0;
}

static const struct kernel_param_ops run_ops = { .set = run_set };
module_param_cb(run, &run_ops, NULL, 0200);

static int __init cost_init(void)
{
	return swt_events_init("swt-cost", 256, 0);
}

static void __exit cost_exit(void)
{
	swt_events_exit();
}

module_init(cost_init);
module_exit(cost_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("counts the instructions of an event");
