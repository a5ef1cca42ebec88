/* SPDX-License-Identifier: GPL-2.0-only */
/* The tracepoint that swt_event() is compared with: an event with one number. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM swt_cost

#if !defined(COST_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define COST_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(swt_cost,
	TP_PROTO(u32 tag),
	TP_ARGS(tag),
	TP_STRUCT__entry(__field(u32, tag)),
	TP_fast_assign(__entry->tag = tag;),
	TP_printk("tag=%u", __entry->tag)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE cost_trace
#include <trace/define_trace.h>
