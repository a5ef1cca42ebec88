// SPDX-License-Identifier: GPL-2.0-only
/*
 * A call: units of 4 MiB, each split into commands of the drive's largest transfer, all queued
 * immediately. A call with more than one unit has two in flight, so the drive does not wait while
 * the next pages are pinned.
 *
 * The number of commands is computable beforehand: the sum over the units of ceil(bytes / largest).
 * Only the last command of a unit interrupts, and it is sent when that of the previous unit has
 * completed; a file that polls has none. Commands that the drive completed are not retried; a unit
 * that another command's recovery cancelled is sent again.
 */
#include <linux/sched/signal.h>

#include "driver.h"

struct small_memory {
	struct chario_memory memory;
	struct page *pages[CHARIO_SMALL_PAGES];
	struct scatterlist sg[CHARIO_SMALL_PAGES];
};

struct course {
	struct chario_call *call;
	struct chario_ctrl *ctrl;
	struct chario_lane *lane;
	struct small_memory *small;
	struct nvme_command like;
	struct chario_unit units[2];
	unsigned int oldest;
	unsigned int out; /* units */
	u64 begun; /* bytes */
	u64 done; /* bytes, up to the first error */
	int error;
};

static int put(struct chario_queue *queue, struct chario_unit *unit,
	       const struct nvme_command *like, unsigned int count, unsigned int *unsent)
{
	for (*unsent = count; *unsent;) {
		int error, sent;

		sent = chario_submit(queue, unit, &unit->rest, like, &unit->sent_bytes, *unsent);
		if (likely(sent > 0)) {
			*unsent -= sent;
			continue;
		}
		error = sent ? chario_wait_live(queue) : chario_wait_room(queue);
		if (error)
			return error;
	}
	return 0;
}

/* Sends the unit's loud commands. If one cannot be sent, the unit fails. */
static void send_loud(struct chario_lane *lane, struct chario_unit *unit,
		      const struct nvme_command *like)
{
	unsigned int unsent, count = unit->loud_unsent;
	int error;

	unit->loud_unsent = 0;
	if (!count)
		return;
	error = put(lane->loud, unit, like, count, &unsent);
	if (unlikely(error)) {
		chario_fail(lane->loud->ctrl, &unit->wait, unit->sent_bytes, error);
		atomic_sub(unsent, &unit->wait.loud);
	}
}

/*
 * Sends the unit's commands; the loud one later if @holds_loud. A call has one loud command
 * outstanding at a time, so that its interrupts are never merged: their number is the number of
 * units.
 */
static void send_unit(struct chario_ctrl *ctrl, struct chario_lane *lane, struct chario_unit *unit,
		      const struct nvme_command *like, bool polls, bool holds_loud)
{
	unsigned int loud = polls ? 0 : 1, quiet, unsent;
	int error = 0;

	if (lane->loud == lane->quiet) {
		loud = unit->commands;
		holds_loud = false;
	}
	quiet = unit->commands - loud;
	unit->rest = unit->start;
	unit->sent_bytes = 0;
	unit->loud_unsent = loud;
	chario_wait_init(&unit->wait);
	unit->wait.task = polls ? NULL : current;
	atomic_set(&unit->wait.loud, loud);
	atomic_set(&unit->wait.quiet, quiet);
	if (quiet) {
		error = put(lane->quiet, unit, like, quiet, &unsent);
		if (unlikely(error)) {
			chario_fail(ctrl, &unit->wait, unit->sent_bytes, error);
			atomic_sub(unsent, &unit->wait.quiet);
			atomic_sub(loud, &unit->wait.loud);
			unit->loud_unsent = 0;
		}
	}
	if (!holds_loud)
		send_loud(lane, unit, like);
	if (unlikely(!READ_ONCE(ctrl->is_watched)))
		chario_watch(ctrl);
}

/* Until each command of the unit has completed; sends it again if recovery cancelled it. */
static void finish_unit(struct chario_ctrl *ctrl, struct chario_lane *lane, struct chario_unit *unit,
			const struct nvme_command *like, bool polls)
{
	chario_wait(lane, &unit->wait, polls);
	while (unlikely(unit->wait.cancelled && !unit->wait.error)) {
		if (unit->tries++ == CHARIO_RETRIES) {
			unit->wait.error = -EIO;
			return;
		}
		send_unit(ctrl, lane, unit, like, polls, false);
		chario_wait(lane, &unit->wait, polls);
	}
}

static void account(struct chario_ns *ns, bool writes, u32 bytes, unsigned int commands, bool failed)
{
	this_cpu_add(ns->counters->commands[writes], commands);
	this_cpu_add(ns->counters->bytes[writes], bytes);
	if (unlikely(failed))
		this_cpu_inc(ns->counters->errors);
}

static void finish_oldest(struct course *course)
{
	struct chario_unit *unit = &course->units[course->oldest];
	struct chario_call *call = course->call;
	u32 moved;

	finish_unit(course->ctrl, course->lane, unit, &course->like, call->polls);
	if (course->out > 1) {
		struct chario_unit *next = &course->units[course->oldest ^ 1];

		next->wait.deadline_ns = chario_deadline_ns();
		send_loud(course->lane, next, &course->like);
	}
	if (unit->memory) {
		chario_memory_unmap(course->ctrl, unit->memory);
		chario_memory_give(course->ctrl, unit->memory);
	}
	moved = unit->wait.error ? unit->wait.error_offset : unit->bytes;
	account(call->ns, call->writes, moved, unit->commands, unit->wait.error);
	if (!course->error) {
		course->done += moved;
		course->error = unit->wait.error;
	}
	course->oldest ^= 1;
	course->out--;
}

/* The caller's next range of memory: one entry of its iovec, or the rest of it. */
static unsigned long next_stretch(const struct iov_iter *iter, size_t *bytes)
{
	const struct iovec *entry = iter_is_ubuf(iter) ? NULL : iter_iov(iter);

	if (!entry) {
		*bytes = iov_iter_count(iter);
		return (unsigned long)iter->ubuf + iter->iov_offset;
	}
	*bytes = min(iov_iter_count(iter), entry->iov_len - iter->iov_offset);
	return (unsigned long)entry->iov_base + iter->iov_offset;
}

static int map_stretch(struct course *course, struct chario_unit *unit, u32 *bytes)
{
	struct chario_call *call = course->call;
	struct chario_memory *memory;
	unsigned long address;
	size_t stretch;
	int error;

	address = next_stretch(call->iter, &stretch);
	while (unlikely(!stretch)) {
		/* Steps over entries without bytes. */
		iov_iter_advance(call->iter, 0);
		address = next_stretch(call->iter, &stretch);
		if (!stretch && WARN_ON_ONCE(iter_is_ubuf(call->iter)))
			return -EINVAL;
	}
	*bytes = min_t(size_t, *bytes, stretch);
	if (!course->out && call->length - course->begun == *bytes &&
	    *bytes <= (CHARIO_SMALL_PAGES - 1) * PAGE_SIZE) {
		memory = &course->small->memory;
		memory->pages = course->small->pages;
		memory->sg = course->small->sg;
		memory->is_pooled = false;
	} else {
		memory = chario_memory_take(course->ctrl, !course->out);
		if (IS_ERR(memory))
			return PTR_ERR(memory);
	}
	error = chario_memory_map(course->ctrl, memory, address, *bytes, call->writes);
	if (unlikely(error)) {
		chario_memory_give(course->ctrl, memory);
		return error;
	}
	iov_iter_advance(call->iter, *bytes);
	unit->memory = memory;
	unit->start.next = memory->sg;
	return 0;
}

/* Memory that is mapped already. */
static void start_of(struct chario_ctrl *ctrl, struct chario_unit *unit,
		     const struct chario_call *call, u64 begun, u32 bytes)
{
	unit->start.next = NULL;
	unit->start.pages = NULL;
	if (call->pages) {
		u64 at = call->address + begun;
		u32 skipped = at & (ctrl->page_bytes - 1);

		unit->start.pages = call->pages + at / ctrl->page_bytes;
		unit->start.left = 0;
		if (skipped) {
			unit->start.address = *unit->start.pages++ + skipped;
			unit->start.left = ctrl->page_bytes - skipped;
		}
	} else {
		unit->start.address = call->address + begun;
		unit->start.left = bytes;
	}
}

/* -EBUSY: a unit has to be finished first. */
static int begin_unit(struct course *course)
{
	struct chario_unit *unit = &course->units[course->oldest ^ (course->out & 1)];
	struct chario_call *call = course->call;
	struct chario_ctrl *ctrl = course->ctrl;
	u32 bytes = min_t(u64, call->length - course->begun, ctrl->unit_bytes);
	int error;

	unit->memory = NULL;
	unit->tries = 0;
	memset(&unit->start, 0, sizeof(unit->start));
	if (call->iter) {
		error = map_stretch(course, unit, &bytes);
		if (unlikely(error))
			return error;
	} else {
		start_of(ctrl, unit, call, course->begun, bytes);
	}
	unit->shift = call->ns->shift;
	unit->lba = (call->position + course->begun) >> unit->shift;
	unit->bytes = bytes;
	unit->commands = bytes <= ctrl->command_bytes ? 1 : DIV_ROUND_UP(bytes, ctrl->command_bytes);
	course->begun += bytes;
	course->out++;
	send_unit(ctrl, course->lane, unit, &course->like, call->polls, course->out > 1);
	return 0;
}

static struct chario_lane *lane_here(struct chario_ctrl *ctrl)
{
	return &ctrl->lanes[ctrl->lane_of_cpu[raw_smp_processor_id()]];
}

static void make_like(struct nvme_command *like, const struct chario_call *call)
{
	memset(like, 0, sizeof(*like));
	like->rw.opcode = call->writes ? nvme_cmd_write : nvme_cmd_read;
	like->rw.nsid = cpu_to_le32(call->ns->nsid);
	if (call->fua)
		like->rw.control = cpu_to_le16(NVME_RW_FUA);
}

/* Sets up @unit except its memory: one command, for @queue. */
static void set_one(struct chario_unit *unit, const struct chario_call *call,
		    const struct chario_queue *queue)
{
	unit->sent_bytes = 0;
	unit->loud_unsent = 0;
	unit->shift = call->ns->shift;
	unit->lba = call->position >> unit->shift;
	unit->bytes = call->length;
	unit->commands = 1;
	unit->tries = 0;
	chario_wait_init(&unit->wait);
	unit->wait.task = call->polls ? NULL : current;
	atomic_set(&unit->wait.loud, queue->interrupts);
	atomic_set(&unit->wait.quiet, !queue->interrupts);
}

/* A unit of one command that found no slot, or completed without having been executed. */
static noinline void again(struct chario_call *call, struct chario_lane *lane,
			   struct chario_unit *unit, bool is_sent)
{
	struct chario_ctrl *ctrl = call->ns->ctrl;
	struct nvme_command like;

	make_like(&like, call);
	if (!is_sent)
		send_unit(ctrl, lane, unit, &like, call->polls, false);
	finish_unit(ctrl, lane, unit, &like, call->polls);
}

/* The end of a call of one command, of which @sent are in flight. */
static ssize_t end_one(struct chario_call *call, struct chario_lane *lane, struct chario_unit *unit,
		       int sent)
{
	struct chario_ctrl *ctrl = call->ns->ctrl;

	if (likely(sent == 1)) {
		if (unlikely(!READ_ONCE(ctrl->is_watched)))
			chario_watch(ctrl);
		chario_wait(lane, &unit->wait, call->polls);
	}
	if (unlikely(sent != 1 || unit->wait.cancelled))
		again(call, lane, unit, sent == 1);
	account(call->ns, call->writes, unit->wait.error ? 0 : unit->bytes, 1, unit->wait.error);
	return unlikely(unit->wait.error) ? unit->wait.error : unit->bytes;
}

/* Within one page of memory that is mapped, at @address on the bus. */
static ssize_t transfer_page(struct chario_call *call, dma_addr_t address)
{
	struct chario_lane *lane = lane_here(call->ns->ctrl);
	struct chario_queue *queue = call->polls ? lane->quiet : lane->loud;
	struct chario_unit unit;

	unit.start.address = address;
	unit.start.left = call->length;
	unit.start.next = NULL;
	unit.start.pages = NULL;
	set_one(&unit, call, queue);
	return end_one(call, lane, &unit, chario_submit_page(queue, &unit, call, address));
}

/* One command, with memory that fits the stack or is mapped. */
static noinline ssize_t transfer_one(struct chario_call *call, struct chario_ctrl *ctrl)
{
	struct chario_lane *lane = lane_here(ctrl);
	struct chario_queue *queue = call->polls ? lane->quiet : lane->loud;
	struct small_memory small;
	struct nvme_command like;
	struct chario_unit unit;
	ssize_t result;
	int error;

	if (call->iter) {
		small.memory.pages = small.pages;
		small.memory.sg = small.sg;
		error = chario_memory_map(ctrl, &small.memory,
					  (unsigned long)call->iter->ubuf + call->iter->iov_offset,
					  call->length, call->writes);
		if (unlikely(error))
			return error;
		unit.start.left = 0;
		unit.start.pages = NULL;
		unit.start.next = small.sg;
	} else {
		start_of(ctrl, &unit, call, 0, call->length);
	}
	unit.rest = unit.start;
	set_one(&unit, call, queue);
	make_like(&like, call);
	result = end_one(call, lane, &unit,
			 chario_submit(queue, &unit, &unit.rest, &like, &unit.sent_bytes, 1));
	if (call->iter) {
		chario_memory_unmap(ctrl, &small.memory);
		iov_iter_advance(call->iter, call->length);
	}
	return result;
}

static noinline ssize_t transfer_many(struct chario_call *call, struct chario_ctrl *ctrl)
{
	struct small_memory small;
	struct course course;

	course.call = call;
	course.ctrl = ctrl;
	course.lane = lane_here(course.ctrl);
	course.small = &small;
	course.oldest = 0;
	course.out = 0;
	course.begun = 0;
	course.done = 0;
	course.error = 0;
	make_like(&course.like, call);

	while (course.begun < call->length && !course.error) {
		int error;

		if (course.out == ARRAY_SIZE(course.units)) {
			finish_oldest(&course);
			continue;
		}
		if (course.begun && fatal_signal_pending(current))
			error = -EINTR;
		else
			error = begin_unit(&course);
		if (error == -EBUSY && course.out) {
			finish_oldest(&course);
			continue;
		}
		if (unlikely(error)) {
			/* Outstanding units precede it, and so do their errors. */
			while (course.out)
				finish_oldest(&course);
			if (!course.error)
				course.error = error;
		}
	}
	while (course.out)
		finish_oldest(&course);
	return course.done ? (ssize_t)course.done : course.error;
}

/*
 * Moves call->length bytes, which is not 0, in range and aligned. Returns how many were moved up to
 * the first error, or that error if none were. The caller is inside chario_enter().
 */
ssize_t chario_transfer(struct chario_call *call)
{
	struct chario_ctrl *ctrl = call->ns->ctrl;
	u32 in_page = call->address & (ctrl->page_bytes - 1);

	if (!call->iter && call->length <= ctrl->page_bytes - in_page)
		return transfer_page(call, call->pages ?
				     call->pages[call->address >> __ffs(ctrl->page_bytes)] + in_page :
				     call->address);
	if (call->length <= ctrl->command_bytes &&
	    (!call->iter || (iter_is_ubuf(call->iter) &&
			     call->length <= (CHARIO_SMALL_PAGES - 1) * PAGE_SIZE)))
		return transfer_one(call, ctrl);
	return transfer_many(call, ctrl);
}

/* Makes what was written before durable. The caller is inside chario_enter(). */
int chario_flush(struct chario_ns *ns, bool polls)
{
	struct chario_lane *lane = lane_here(ns->ctrl);
	struct chario_unit unit = { .commands = 1 };
	struct nvme_command like = {};

	like.common.opcode = nvme_cmd_flush;
	like.common.nsid = cpu_to_le32(ns->nsid);
	send_unit(ns->ctrl, lane, &unit, &like, polls, false);
	finish_unit(ns->ctrl, lane, &unit, &like, polls);
	this_cpu_inc(ns->counters->flushes);
	if (unit.wait.error)
		this_cpu_inc(ns->counters->errors);
	return unit.wait.error;
}
