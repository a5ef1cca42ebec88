/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swt_event(tag): stamps an event in some fifteen instructions, without ftrace, in any context.
 *
 * Each processor has a ring of its own. An event that finds it full is counted, and replaces
 * nothing. While nothing records, swt_event() is one no-operation. A module that uses this has
 * event.c among its files, calls swt_events_init() and swt_events_exit(), and names its node; or,
 * with a profiling timer (rtl/timer), the physical address of the timer's registers, which then take
 * the events.
 *
 * User space maps the node, or reads it: a dump, one lane a processor (crates/events). It writes
 * "record", "pause", "clear" or "arm" and "trigger" to it. A lane's count of lost events is valid
 * while it is paused.
 */
#ifndef SWT_EVENT_H
#define SWT_EVENT_H

#include <linux/io.h>
#include <linux/jump_label.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/timekeeping.h>
#include <linux/types.h>
#ifdef CONFIG_X86
#include <asm/msr.h>
#endif

/* Tags of CharIO's own points, as in crates/events. */
#define SWT_CHARIO_ENTER 0x43480001u
#define SWT_CHARIO_EXIT 0x43480002u
#define SWT_CHARIO_SUBMIT 0x43480003u
#define SWT_CHARIO_INTERRUPT 0x43480004u
#define SWT_CHARIO_COMPLETE 0x43480005u
#define SWT_CHARIO_WAKE 0x43480006u
#define SWT_CHARIO_SLEEP 0x43480007u
#define SWT_CHARIO_RESUME 0x43480008u

#define SWT_HEADER_BYTES 0x1000u
#define SWT_MAGIC 0x56455753u /* "SWEV" */
#define SWT_VERSION 1u
#define SWT_VALID (2ull << 32)
#define SWT_EVENT_REGISTER 0x10

struct swt_record {
	__le64 at;
	__le64 tag; /* the tag, and SWT_VALID */
};

/* A lane's first page. */
struct swt_header {
	__le32 magic;
	__le32 version;
	__le32 capacity; /* records after this page */
	__le32 number; /* the processor */
	__le64 lost;
	__le64 begin_counter;
	__le64 begin_ns; /* CLOCK_MONOTONIC */
	__le64 end_counter;
	__le64 end_ns;
	char name[32];
};

/* Of a processor. @next goes on behind @end: by that much events were lost. */
struct swt_cursor {
	unsigned long next;
	unsigned long end;
};

DECLARE_PER_CPU(struct swt_cursor, swt_cursors);
DECLARE_STATIC_KEY_FALSE(swt_is_on);
extern void __iomem *swt_timer;

/* What user space reads too: TSC, CNTVCT or rdtime; otherwise CLOCK_MONOTONIC in ns. */
static __always_inline u64 swt_counter(void)
{
#if defined(CONFIG_X86)
	return rdtsc();
#elif defined(CONFIG_ARM64)
	return read_sysreg(cntvct_el0);
#elif defined(CONFIG_RISCV)
	return get_cycles64();
#else
	return ktime_get_mono_fast_ns();
#endif
}

/*
 * this_cpu_add_return() takes a record in one instruction, so an interrupt that stamps in between
 * takes the one after it. The time is read after that: records of such an interrupt are earlier
 * than the one before them, and the reader sorts.
 */
static __always_inline void swt_stamp(u32 tag)
{
	struct swt_record *record;
	unsigned long next;

	if (unlikely(swt_timer)) {
		writel_relaxed(tag, swt_timer + SWT_EVENT_REGISTER);
		return;
	}
	preempt_disable_notrace();
	next = this_cpu_add_return(swt_cursors.next, sizeof(*record));
	if (likely(next <= __this_cpu_read(swt_cursors.end))) {
		record = (struct swt_record *)next - 1;
		WRITE_ONCE(record->at, cpu_to_le64(swt_counter()));
		smp_store_release(&record->tag, cpu_to_le64(tag | SWT_VALID));
	}
	preempt_enable_notrace();
}

static __always_inline void swt_event(u32 tag)
{
	if (static_branch_unlikely(&swt_is_on))
		swt_stamp(tag);
}

/*
 * @capacity events a processor, or with @timer none; 0 without @timer: no memory, no node, and
 * swt_event() never does anything. @name names the node in /dev.
 */
int swt_events_init(const char *name, unsigned int capacity, phys_addr_t timer);
void swt_events_exit(void);

#endif
