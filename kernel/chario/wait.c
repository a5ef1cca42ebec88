// SPDX-License-Identifier: GPL-2.0-only
/*
 * The end of a unit: sleeping for the loud command, polling for the quiet ones.
 *
 * A wait ends only when every command of the unit has completed or was cancelled by recovery, so
 * the caller's memory and the unit on its stack outlive all DMA. A fatal signal does not end it; it
 * moves the deadline nearer, and with it recovery.
 */
#include <linux/delay.h>
#include <linux/sched/signal.h>

#include "driver.h"

/* Polls of a ring before anything else is checked; fewer if another task wants to run. */
#define LOOKS 4096
/* A quiet command usually completes before the loud one; this long it is polled without sleeping. */
#define SPIN_NS (100 * NSEC_PER_USEC)

void chario_wait_init(struct chario_wait *wait)
{
	memset(wait, 0, sizeof(*wait));
	wait->started_ns = ktime_get_ns();
	wait->deadline_ns = wait->started_ns + (u64)chario_timeout_ms * NSEC_PER_MSEC;
}

/* Records that a command failed, or without @error that it was cancelled. The unit's first one wins. */
void chario_fail(struct chario_ctrl *ctrl, struct chario_wait *wait, u32 offset, int error)
{
	unsigned long flags;

	spin_lock_irqsave(&ctrl->failure_lock, flags);
	if (!error) {
		wait->cancelled = true;
	} else if (!wait->error || offset < wait->error_offset) {
		wait->error = error;
		wait->error_offset = offset;
	}
	spin_unlock_irqrestore(&ctrl->failure_lock, flags);
}

/* Out of line, so that an instruction count can distinguish waiting from working. */
static noinline void look(struct chario_queue *queue, const struct chario_wait *wait)
{
	unsigned int looks;

	for (looks = 0; looks < LOOKS; looks++) {
		if (chario_has_completion(queue) || chario_is_done(wait) || need_resched())
			return;
		cpu_relax();
	}
}

static void sleep_for_loud(struct chario_ctrl *ctrl, struct chario_wait *wait)
{
	unsigned int state = TASK_KILLABLE;

	for (;;) {
		set_current_state(state);
		if (!atomic_read(&wait->loud))
			break;
		if (state == TASK_KILLABLE && unlikely(fatal_signal_pending(current))) {
			__set_current_state(TASK_RUNNING);
			state = TASK_UNINTERRUPTIBLE;
			chario_hurry(ctrl, wait);
			continue;
		}
		swt_event(SWT_CHARIO_SLEEP);
		io_schedule();
		swt_event(SWT_CHARIO_RESUME);
	}
	__set_current_state(TASK_RUNNING);
}

static void look_for_all(struct chario_lane *lane, struct chario_wait *wait, bool polls)
{
	struct chario_ctrl *ctrl = lane->quiet->ctrl;
	bool hurried = false;
	u64 spin_until_ns = 0;

	while (!chario_is_done(wait)) {
		look(lane->quiet, wait);
		if (chario_reap(lane->quiet))
			continue;
		if (chario_is_done(wait))
			break;
		if (!hurried && unlikely(fatal_signal_pending(current))) {
			hurried = true;
			chario_hurry(ctrl, wait);
		}
		if (polls) {
			cond_resched();
			continue;
		}
		if (!spin_until_ns)
			spin_until_ns = ktime_get_ns() + SPIN_NS;
		if (ktime_get_ns() < spin_until_ns)
			cond_resched();
		else
			usleep_range(20, 50);
	}
}

/* Returns when none of the wait's commands is outstanding. */
void chario_wait(struct chario_lane *lane, struct chario_wait *wait, bool polls)
{
	if (!polls)
		sleep_for_loud(lane->loud->ctrl, wait);
	if (!chario_is_done(wait))
		look_for_all(lane, wait, polls);
	/* What the drive and the other processor wrote is read after the counts. */
	smp_rmb();
}

/* Every slot is taken: sleeps briefly. The drive, the watchdog or other callers free some. */
int chario_wait_room(struct chario_queue *queue)
{
	if (fatal_signal_pending(current))
		return -EINTR;
	if (!chario_reap(queue))
		usleep_range(10, 30);
	return 0;
}

/* Until recovery has ended. */
int chario_wait_live(struct chario_queue *queue)
{
	struct chario_ctrl *ctrl = queue->ctrl;
	int error;

	error = wait_event_killable(ctrl->changed, READ_ONCE(queue->is_live) ||
				    READ_ONCE(ctrl->state) == CHARIO_DEAD);
	if (error)
		return -EINTR;
	return READ_ONCE(ctrl->state) == CHARIO_DEAD ? -ENODEV : 0;
}
