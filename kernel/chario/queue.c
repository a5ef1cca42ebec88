// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rings: slots, completions, interrupts.
 *
 * A queue owns its two rings, its commands' slots and their PRP lists, all allocated when the
 * controller is set up; nothing is allocated afterwards. A slot belongs to a unit from
 * chario_take_slot() until its completion is reaped or recovery cancels it, exactly one of the two,
 * under the queue's lock. Rings have one entry more than there are slots, so the submission ring is
 * never full (4.1).
 */
#include "driver.h"

static void mark_free(struct chario_queue *queue)
{
	unsigned int slot;

	for (slot = 0; slot < queue->entries - 1; slot++)
		queue->free[slot] = queue->entries - 2 - slot;
	queue->free_count = queue->entries - 1;
}

/* As after creation: empty rings. No command is outstanding. */
void chario_queue_clear(struct chario_queue *queue)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	queue->sq_tail = 0;
	queue->cq_head = 0;
	queue->phase = 1;
	memset(queue->cq, 0, queue->entries * sizeof(*queue->cq));
	spin_unlock_irqrestore(&queue->lock, flags);
}

int chario_queue_init(struct chario_ctrl *ctrl, struct chario_queue *queue, u16 id, u32 slots)
{
	size_t stride = 4ul << NVME_CAP_STRIDE(ctrl->cap);
	u32 __iomem *doorbell = ctrl->bar + NVME_REG_DBS + 2 * id * stride;
	unsigned int slot;

	if (NVME_REG_DBS + (2 * id + 2) * stride > ctrl->bar_bytes)
		return -ENXIO;
	spin_lock_init(&queue->lock);
	queue->ctrl = ctrl;
	queue->id = id;
	queue->entries = slots + 1;
	queue->sq_doorbell = doorbell;
	queue->cq_doorbell = (void __iomem *)doorbell + stride;
	queue->free = kcalloc(slots, sizeof(*queue->free), GFP_KERNEL);
	queue->commands = kvcalloc(slots, sizeof(*queue->commands), GFP_KERNEL);
	if (!queue->free || !queue->commands)
		return -ENOMEM;
	queue->sq = dma_alloc_coherent(ctrl->dev, queue->entries * sizeof(*queue->sq),
				       &queue->sq_dma, GFP_KERNEL);
	queue->cq = dma_alloc_coherent(ctrl->dev, queue->entries * sizeof(*queue->cq),
				       &queue->cq_dma, GFP_KERNEL);
	if (!queue->sq || !queue->cq)
		return -ENOMEM;
	for (slot = 0; id && slot < slots; slot++) {
		struct chario_command *command = &queue->commands[slot];

		command->list = dma_pool_alloc(ctrl->lists, GFP_KERNEL, &command->list_dma);
		if (!command->list)
			return -ENOMEM;
	}
	mark_free(queue);
	chario_queue_clear(queue);
	return 0;
}

/* Also for a queue that chario_queue_init() left half initialised, or never saw. */
void chario_queue_free(struct chario_queue *queue)
{
	struct chario_ctrl *ctrl = queue->ctrl;
	unsigned int slot;

	if (!ctrl)
		return;
	for (slot = 0; queue->commands && slot < queue->entries - 1; slot++)
		if (queue->commands[slot].list)
			dma_pool_free(ctrl->lists, queue->commands[slot].list,
				      queue->commands[slot].list_dma);
	if (queue->cq)
		dma_free_coherent(ctrl->dev, queue->entries * sizeof(*queue->cq), queue->cq,
				  queue->cq_dma);
	if (queue->sq)
		dma_free_coherent(ctrl->dev, queue->entries * sizeof(*queue->sq), queue->sq,
				  queue->sq_dma);
	kvfree(queue->commands);
	kfree(queue->free);
	memset(queue, 0, sizeof(*queue));
}

void chario_queue_live(struct chario_queue *queue, bool is_live)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	queue->is_live = is_live;
	spin_unlock_irqrestore(&queue->lock, flags);
}

/* Under the lock, with a slot free. Returns the command's identifier. */
u16 chario_take_slot(struct chario_queue *queue, struct chario_wait *wait, u32 offset)
{
	u16 slot = queue->free[--queue->free_count];
	struct chario_command *command = &queue->commands[slot];

	command->wait = wait;
	command->offset = offset;
	command->is_overdue = false;
	return slot | (u16)(command->generation << CHARIO_SLOT_BITS);
}

/*
 * Gives the slot back and notifies the unit. After the count has gone down the unit may no longer
 * exist: its task is read before. The task itself cannot be freed under a spinlock, which is an RCU
 * reader.
 */
static void end_command(struct chario_queue *queue, u16 slot)
{
	struct chario_command *command = &queue->commands[slot];
	struct chario_wait *wait = command->wait;
	struct task_struct *task = wait->task;

	/* Not of the admin queue: what it does belongs to no call. */
	if (static_branch_unlikely(&swt_is_on) && queue->id)
		swt_stamp(SWT_CHARIO_COMPLETE);
	command->wait = NULL;
	command->generation++;
	queue->free[queue->free_count++] = slot;
	if (!queue->interrupts) {
		atomic_dec_return(&wait->quiet);
		return;
	}
	if (atomic_dec_and_test(&wait->loud) && task) {
		swt_event(SWT_CHARIO_WAKE);
		wake_up_process(task);
	}
}

static void failed(struct chario_queue *queue, struct chario_command *command, u16 status)
{
	struct chario_ctrl *ctrl = queue->ctrl;
	struct chario_wait *wait = command->wait;
	int error = chario_errno(status);
	unsigned long flags;

	/* It completed because recovery aborted it, or in spite of that. */
	if (command->is_overdue && (status & 0x7ff) == NVME_SC_ABORT_REQ)
		error = -ETIMEDOUT;
	/* The lock of a queue without interrupts leaves them on. */
	spin_lock_irqsave(&ctrl->failure_lock, flags);
	wait->status = status;
	spin_unlock_irqrestore(&ctrl->failure_lock, flags);
	chario_fail(ctrl, wait, command->offset, error);
}

static unsigned int bucket(u64 latency_ns)
{
	u64 latency_us = latency_ns >> 10;

	return min_t(unsigned int, fls64(latency_us), CHARIO_BUCKETS - 1);
}

/* Takes what the drive has finished (4.1, "Completion Queue Entry"). Bounded by the ring's length. */
static unsigned int reap_locked(struct chario_queue *queue)
{
	unsigned int count = 0;
	u64 now_ns = 0;

	while (count < queue->entries && chario_has_completion(queue)) {
		const struct nvme_completion *entry = &queue->cq[queue->cq_head];
		u16 id, slot, status;

		/* Nothing of the entry is read before its phase tag. */
		dma_rmb();
		id = READ_ONCE(entry->command_id);
		slot = id & (CHARIO_SLOTS_MAX - 1);
		status = le16_to_cpu(READ_ONCE(entry->status)) >> 1;
		if (!count)
			now_ns = ktime_get_ns();
		count++;
		if (likely(slot < queue->entries - 1 && queue->commands[slot].wait &&
			   (u16)(queue->commands[slot].generation << CHARIO_SLOT_BITS) ==
			   (id & ~(CHARIO_SLOTS_MAX - 1)))) {
			struct chario_command *command = &queue->commands[slot];

			queue->latency[bucket(now_ns - command->wait->started_ns)]++;
			if (unlikely(!queue->id))
				command->wait->result = le32_to_cpu(entry->result.u32);
			if (unlikely(status & 0x7ff))
				failed(queue, command, status);
			end_command(queue, slot);
		} else {
			queue->stray_count++;
		}
		if (++queue->cq_head == queue->entries) {
			queue->cq_head = 0;
			queue->phase ^= 1;
		}
	}
	if (count)
		writel(queue->cq_head, queue->cq_doorbell);
	return count;
}

unsigned int chario_reap(struct chario_queue *queue)
{
	unsigned long flags;
	unsigned int count;

	if (!chario_has_completion(queue))
		return 0;
	if (!queue->interrupts) {
		spin_lock(&queue->lock);
		count = reap_locked(queue);
		spin_unlock(&queue->lock);
		return count;
	}
	spin_lock_irqsave(&queue->lock, flags);
	count = reap_locked(queue);
	spin_unlock_irqrestore(&queue->lock, flags);
	return count;
}

/*
 * Ends every outstanding command. The controller has been disabled, or the queue deleted, or bus
 * mastering disabled: none of them touches memory any more. Overdue ones have timed out; the others
 * are cancelled if @error is 0, and fail with it otherwise.
 */
void chario_cancel(struct chario_queue *queue, int error)
{
	struct chario_ctrl *ctrl = queue->ctrl;
	unsigned long flags;
	unsigned int slot;

	spin_lock_irqsave(&queue->lock, flags);
	for (slot = 0; slot < queue->entries - 1; slot++) {
		struct chario_command *command = &queue->commands[slot];

		if (!command->wait)
			continue;
		if (command->is_overdue)
			chario_fail(ctrl, command->wait, command->offset, -ETIMEDOUT);
		else
			chario_fail(ctrl, command->wait, command->offset, error);
		atomic64_inc(&ctrl->cancelled);
		end_command(queue, slot);
	}
	spin_unlock_irqrestore(&queue->lock, flags);
}

irqreturn_t chario_on_interrupt(int irq, void *data)
{
	struct chario_queue *queue = data;
	unsigned long flags;
	unsigned int count;

	if (static_branch_unlikely(&swt_is_on) && queue->id)
		swt_stamp(SWT_CHARIO_INTERRUPT);
	spin_lock_irqsave(&queue->lock, flags);
	/* Counted first: a woken task finds it in the counters. */
	queue->interrupt_count++;
	count = reap_locked(queue);
	queue->spurious_count += !count;
	spin_unlock_irqrestore(&queue->lock, flags);
	return count ? IRQ_HANDLED : IRQ_NONE;
}

/* One vector, or a line, for the admin queue and the only I/O queue that interrupts. */
irqreturn_t chario_on_shared_interrupt(int irq, void *data)
{
	struct chario_ctrl *ctrl = data;
	irqreturn_t admin = chario_reap(ctrl->admin) ? IRQ_HANDLED : IRQ_NONE;

	/* On a line that others share, only what was found is counted. */
	if (ctrl->queues && ctrl->queues[0].sq && chario_has_completion(&ctrl->queues[0]))
		return chario_on_interrupt(irq, &ctrl->queues[0]);
	return admin;
}
