// SPDX-License-Identifier: GPL-2.0-only
/*
 * Admin commands: one at a time is waited for, by looking at the ring between short sleeps, so they
 * need no interrupt and work while a controller is set up or recovered.
 *
 * One that does not complete in time is abandoned: its slot stays taken until the controller is
 * disabled, which the caller does then.
 */
#include <linux/delay.h>

#include "driver.h"

/* Admin commands of this driver are answered from the controller's memory. */
#define ADMIN_TIMEOUT_NS (10 * NSEC_PER_SEC)

static int put_admin(struct chario_queue *queue, struct nvme_command *command,
		     struct chario_wait *wait, u16 *id)
{
	unsigned long flags;
	int error = 0;

	spin_lock_irqsave(&queue->lock, flags);
	if (!queue->is_live || !queue->free_count) {
		error = -EBUSY;
	} else {
		*id = chario_take_slot(queue, wait, 0);
		command->common.command_id = *id;
		queue->sq[queue->sq_tail] = *command;
		if (++queue->sq_tail == queue->entries)
			queue->sq_tail = 0;
		writel(queue->sq_tail, queue->sq_doorbell);
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	return error;
}

static bool abandon(struct chario_queue *queue, struct chario_wait *wait, u16 id)
{
	struct chario_command *command = &queue->commands[id & (CHARIO_SLOTS_MAX - 1)];
	unsigned long flags;
	bool is_out;

	spin_lock_irqsave(&queue->lock, flags);
	is_out = command->wait == wait;
	if (is_out)
		command->wait = &queue->ctrl->abandoned;
	spin_unlock_irqrestore(&queue->lock, flags);
	return is_out;
}

/* Sends a command and waits; the controller's status becomes an errno. */
int chario_admin(struct chario_ctrl *ctrl, struct nvme_command *command, u32 *result)
{
	struct chario_queue *queue = ctrl->admin;
	struct chario_wait wait;
	u64 until_ns;
	int error;
	u16 id;

	chario_wait_init(&wait);
	atomic_set(&wait.loud, 1);
	until_ns = wait.started_ns + ADMIN_TIMEOUT_NS;
	error = put_admin(queue, command, &wait, &id);
	if (error)
		return error;
	while (atomic_read(&wait.loud)) {
		if (chario_reap(queue))
			continue;
		if (ktime_get_ns() > until_ns || !chario_is_present(ctrl)) {
			if (abandon(queue, &wait, id))
				return -ETIMEDOUT;
			continue;
		}
		usleep_range(20, 100);
	}
	smp_rmb();
	if (wait.cancelled)
		return -EIO;
	if (result)
		*result = wait.result;
	return wait.error;
}

/* Into ctrl->page (5.15, "Identify command"). */
int chario_identify(struct chario_ctrl *ctrl, u8 cns, u32 nsid)
{
	struct nvme_command command = {};

	memset(ctrl->page, 0, NVME_IDENTIFY_DATA_SIZE);
	command.identify.opcode = nvme_admin_identify;
	command.identify.nsid = cpu_to_le32(nsid);
	command.identify.cns = cns;
	command.identify.dptr.prp1 = cpu_to_le64(ctrl->page_dma);
	return chario_admin(ctrl, &command, NULL);
}

/* The health log of the whole controller, into ctrl->page (5.14.1.2, "SMART / Health Information"). */
int chario_health(struct chario_ctrl *ctrl)
{
	struct nvme_command command = {};

	command.get_log_page.opcode = nvme_admin_get_log_page;
	command.get_log_page.nsid = cpu_to_le32(NVME_NSID_ALL);
	command.get_log_page.lid = NVME_LOG_SMART;
	command.get_log_page.numdl = cpu_to_le16(sizeof(struct nvme_smart_log) / 4 - 1);
	command.get_log_page.dptr.prp1 = cpu_to_le64(ctrl->page_dma);
	return chario_admin(ctrl, &command, NULL);
}

/* Asks for *@count pairs; *@count becomes the number granted (5.21.1.7, "Number of Queues"). */
int chario_set_queue_count(struct chario_ctrl *ctrl, u32 *count)
{
	struct nvme_command command = {};
	u32 result;
	int error;

	command.features.opcode = nvme_admin_set_features;
	command.features.fid = cpu_to_le32(NVME_FEAT_NUM_QUEUES);
	command.features.dword11 = cpu_to_le32((*count - 1) | (*count - 1) << 16);
	error = chario_admin(ctrl, &command, &result);
	if (!error)
		*count = min3(*count, (result & 0xffff) + 1, (result >> 16) + 1);
	return error;
}

static int delete_one(struct chario_queue *queue, u8 opcode)
{
	struct nvme_command command = {};

	command.delete_queue.opcode = opcode;
	command.delete_queue.qid = cpu_to_le16(queue->id);
	return chario_admin(queue->ctrl, &command, NULL);
}

int chario_delete_pair(struct chario_queue *queue)
{
	int error = delete_one(queue, nvme_admin_delete_sq);

	return error ? error : delete_one(queue, nvme_admin_delete_cq);
}

int chario_create_pair(struct chario_queue *queue)
{
	struct nvme_command command = {};
	u16 flags = NVME_QUEUE_PHYS_CONTIG;
	int error;

	if (queue->interrupts)
		flags |= NVME_CQ_IRQ_ENABLED;
	command.create_cq.opcode = nvme_admin_create_cq;
	command.create_cq.prp1 = cpu_to_le64(queue->cq_dma);
	command.create_cq.cqid = cpu_to_le16(queue->id);
	command.create_cq.qsize = cpu_to_le16(queue->entries - 1);
	command.create_cq.cq_flags = cpu_to_le16(flags);
	command.create_cq.irq_vector = cpu_to_le16(queue->vector);
	error = chario_admin(queue->ctrl, &command, NULL);
	if (error)
		return error;
	memset(&command, 0, sizeof(command));
	command.create_sq.opcode = nvme_admin_create_sq;
	command.create_sq.prp1 = cpu_to_le64(queue->sq_dma);
	command.create_sq.sqid = cpu_to_le16(queue->id);
	command.create_sq.qsize = cpu_to_le16(queue->entries - 1);
	command.create_sq.sq_flags = cpu_to_le16(NVME_QUEUE_PHYS_CONTIG);
	command.create_sq.cqid = cpu_to_le16(queue->id);
	return chario_admin(queue->ctrl, &command, NULL);
}

/* Success shows only by the command's completion (5.1, "Abort command"). */
int chario_abort(struct chario_queue *queue, u16 id)
{
	struct nvme_command command = {};

	command.abort.opcode = nvme_admin_abort_cmd;
	command.abort.sqid = cpu_to_le16(queue->id);
	command.abort.cid = id;
	atomic64_inc(&queue->ctrl->aborts);
	return chario_admin(queue->ctrl, &command, NULL);
}
