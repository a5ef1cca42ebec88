// SPDX-License-Identifier: GPL-2.0-only
/*
 * When commands do not complete: abort, then delete the queue, then reset the controller, then give
 * it up. Each command is reported once: by its completion, as timed out, or as cancelled, and then
 * its unit is sent again (transfer.c).
 *
 * The watchdog runs only while commands are outstanding. It also finds completions whose interrupt
 * was lost, a controller that reports a fatal status or is no longer ready, and one that was
 * removed.
 */
#include <linux/delay.h>

#include "driver.h"

#define PERIOD_MAX_MS 1000u
#define ABORTS_AT_ONCE 8
/* How long an aborted command may take to complete. */
#define ABORT_GRACE_MS 500
/* How long an interrupt may be delayed before its completions are reaped without it. */
#define INTERRUPT_GRACE_US 10000
/* The time left to a command when its caller has been killed. */
#define KILLED_MS 2000

static unsigned long period(void)
{
	return msecs_to_jiffies(clamp(chario_timeout_ms / 4, 10u, PERIOD_MAX_MS));
}

static struct workqueue_struct *work_queue(void)
{
	return system_freezable_wq;
}

/*
 * Called after a submission when the watchdog is idle. The watchdog clears the flag before it
 * checks the queues under their locks, so either it sees the new command or the submitter sees the
 * flag.
 */
void chario_watch(struct chario_ctrl *ctrl)
{
	WRITE_ONCE(ctrl->is_watched, true);
	queue_delayed_work(work_queue(), &ctrl->watchdog, period());
}

/* The caller was killed: its commands get a nearer deadline. */
void chario_hurry(struct chario_ctrl *ctrl, struct chario_wait *wait)
{
	u64 deadline_ns = ktime_get_ns() + KILLED_MS * NSEC_PER_MSEC;

	WRITE_ONCE(wait->deadline_ns, min(wait->deadline_ns, deadline_ns));
}

void chario_freeze(struct chario_ctrl *ctrl)
{
	u32 index;

	for (index = 0; ctrl->queues && index < ctrl->queue_count; index++)
		if (ctrl->queues[index].ctrl)
			chario_queue_live(&ctrl->queues[index], false);
}

static void cancel_all(struct chario_ctrl *ctrl, int error)
{
	u32 index;

	for (index = 0; ctrl->queues && index < ctrl->queue_count; index++) {
		if (!ctrl->queues[index].ctrl)
			continue;
		/* Commands that had completed are reported as such. */
		if (ctrl->state != CHARIO_DEAD)
			chario_reap(&ctrl->queues[index]);
		chario_cancel(&ctrl->queues[index], error);
	}
	if (ctrl->admin->ctrl) {
		chario_queue_live(ctrl->admin, false);
		chario_cancel(ctrl->admin, error);
	}
	wake_up_all(&ctrl->changed);
}

/* It no longer answers, or is to be given up. Cut it off from memory first, then end everything. */
void chario_gone(struct chario_ctrl *ctrl)
{
	WRITE_ONCE(ctrl->state, CHARIO_DEAD);
	chario_freeze(ctrl);
	if (chario_disable(ctrl))
		pci_clear_master(ctrl->pdev);
	cancel_all(ctrl, -ENODEV);
}

/* Calls wait, nothing is outstanding, and the controller is disabled; or it was removed. */
void chario_pause(struct chario_ctrl *ctrl)
{
	if (ctrl->state == CHARIO_DEAD)
		return;
	WRITE_ONCE(ctrl->state, CHARIO_PAUSED);
	chario_freeze(ctrl);
	if (chario_disable(ctrl)) {
		dev_err(ctrl->dev, "cannot be disabled; cutting it off\n");
		chario_gone(ctrl);
		return;
	}
	cancel_all(ctrl, 0);
}

int chario_resume(struct chario_ctrl *ctrl)
{
	int error;

	if (ctrl->state == CHARIO_DEAD)
		return -ENODEV;
	error = chario_restart(ctrl);
	if (error) {
		dev_err(ctrl->dev, "cannot be restarted: %d; giving it up\n", error);
		chario_gone(ctrl);
		return error;
	}
	WRITE_ONCE(ctrl->state, CHARIO_LIVE);
	wake_up_all(&ctrl->changed);
	return 0;
}

/* Under recovery_lock. */
int chario_reset(struct chario_ctrl *ctrl)
{
	atomic64_inc(&ctrl->resets);
	chario_pause(ctrl);
	return chario_resume(ctrl);
}

struct finding {
	unsigned int out;
	unsigned int overdue;
	u16 ids[ABORTS_AT_ONCE]; /* of the first that are overdue */
};

/* Marks and counts overdue commands. */
static struct finding inspect(struct chario_queue *queue)
{
	struct finding found = {};
	u64 now_ns = ktime_get_ns();
	unsigned long flags;
	unsigned int slot;

	spin_lock_irqsave(&queue->lock, flags);
	for (slot = 0; slot < queue->entries - 1; slot++) {
		struct chario_command *command = &queue->commands[slot];

		if (!command->wait)
			continue;
		found.out++;
		if (now_ns < READ_ONCE(command->wait->deadline_ns))
			continue;
		if (!command->is_overdue)
			atomic64_inc(&queue->ctrl->timeouts);
		command->is_overdue = true;
		if (found.overdue < ABORTS_AT_ONCE)
			found.ids[found.overdue] =
				slot | (u16)(command->generation << CHARIO_SLOT_BITS);
		found.overdue++;
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	return found;
}

/* True if nothing is overdue afterwards. */
static bool abort_overdue(struct chario_queue *queue, struct finding *found)
{
	u64 until_ns;
	unsigned int index;

	for (index = 0; index < min_t(unsigned int, found->overdue, ABORTS_AT_ONCE); index++)
		if (chario_abort(queue, found->ids[index]) == -ETIMEDOUT)
			return false;
	until_ns = ktime_get_ns() + ABORT_GRACE_MS * NSEC_PER_MSEC;
	do {
		chario_reap(queue);
		*found = inspect(queue);
		if (!found->overdue)
			return true;
		usleep_range(1000, 2000);
	} while (ktime_get_ns() < until_ns);
	return false;
}

/* True if the queue works again. */
static bool delete_and_create(struct chario_queue *queue)
{
	atomic64_inc(&queue->ctrl->queue_resets);
	chario_queue_live(queue, false);
	if (chario_delete_pair(queue))
		return false;
	/* The drive has released each command (5.6); those in the ring had completed. */
	chario_reap(queue);
	chario_cancel(queue, 0);
	chario_queue_clear(queue);
	if (chario_create_pair(queue))
		return false;
	chario_queue_live(queue, true);
	wake_up_all(&queue->ctrl->changed);
	return true;
}

static bool recover(struct chario_queue *queue, struct finding *found)
{
	struct chario_ctrl *ctrl = queue->ctrl;

	dev_warn(ctrl->dev, "queue %u: %u of %u commands are overdue\n", queue->id, found->overdue,
		 found->out);
	if (abort_overdue(queue, found)) {
		dev_warn(ctrl->dev, "queue %u: aborting helped\n", queue->id);
		return true;
	}
	if (delete_and_create(queue)) {
		dev_warn(ctrl->dev, "queue %u: created again\n", queue->id);
		return true;
	}
	dev_warn(ctrl->dev, "queue %u: cannot be deleted; resetting\n", queue->id);
	return false;
}

/* A completion that stays in a ring: its interrupt was lost. */
static void find_late(struct chario_queue *queue)
{
	unsigned long flags;

	if (!queue->interrupts || !chario_has_completion(queue))
		return;
	usleep_range(INTERRUPT_GRACE_US, 2 * INTERRUPT_GRACE_US);
	if (!chario_reap(queue))
		return;
	spin_lock_irqsave(&queue->lock, flags);
	queue->late_count++;
	spin_unlock_irqrestore(&queue->lock, flags);
}

/* True while commands are outstanding. */
static bool inspect_all(struct chario_ctrl *ctrl)
{
	bool is_busy = false;
	u32 index;

	for (index = 0; index < ctrl->queue_count; index++) {
		struct chario_queue *queue = &ctrl->queues[index];
		struct finding found;

		find_late(queue);
		found = inspect(queue);
		is_busy |= found.out;
		if (!found.overdue)
			continue;
		chario_reap(queue);
		found = inspect(queue);
		if (found.overdue && !recover(queue, &found) && chario_reset(ctrl))
			return false;
	}
	return is_busy;
}

void chario_watchdog(struct work_struct *work)
{
	struct chario_ctrl *ctrl = container_of(to_delayed_work(work), struct chario_ctrl, watchdog);
	bool is_busy = false;
	u32 csts;

	mutex_lock(&ctrl->recovery_lock);
	WRITE_ONCE(ctrl->is_watched, false);
	/* Pairs with the submitter's queue lock, see chario_watch(). */
	smp_mb();
	csts = readl(ctrl->bar + NVME_REG_CSTS);
	if (ctrl->state == CHARIO_LIVE && csts == ~0u) {
		dev_err(ctrl->dev, "was removed\n");
		chario_gone(ctrl);
	} else if (ctrl->state == CHARIO_LIVE &&
		   (csts & (NVME_CSTS_CFS | NVME_CSTS_RDY)) != NVME_CSTS_RDY) {
		/* Not ready: something else reset it, or its registers are out of reach and read as zero. */
		dev_err(ctrl->dev, csts & NVME_CSTS_CFS ? "reports a fatal status; resetting\n" :
							  "is no longer ready; resetting\n");
		is_busy = !chario_reset(ctrl);
	} else if (ctrl->state == CHARIO_LIVE) {
		is_busy = inspect_all(ctrl);
	}
	if (is_busy && ctrl->state == CHARIO_LIVE)
		chario_watch(ctrl);
	mutex_unlock(&ctrl->recovery_lock);
}
