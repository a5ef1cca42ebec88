// SPDX-License-Identifier: GPL-2.0-only
/*
 * From a unit to commands in a ring: slots, PRP entries, one doorbell.
 *
 * A command's PRP list is its slot's own, one page at most, so it never chains (4.3, "Physical
 * Region Page Entry and List"). Lists are built under the queue's lock: of at most one unit, that is
 * 1024 entries. The quiet queues, which carry all but one command of a unit, are never taken by an
 * interrupt handler.
 */
#include "driver.h"

static void next_segment(struct chario_cursor *cursor, u32 page_bytes)
{
	if (cursor->pages) {
		cursor->address = *cursor->pages++;
		cursor->left = page_bytes;
	} else {
		cursor->address = sg_dma_address(cursor->next);
		cursor->left = sg_dma_len(cursor->next);
		cursor->next = sg_next(cursor->next);
	}
}

/* The bus address of the next @bytes, which do not cross the end of a page. */
static inline dma_addr_t take(struct chario_cursor *cursor, u32 bytes, u32 page_bytes)
{
	dma_addr_t address;

	if (!cursor->left)
		next_segment(cursor, page_bytes);
	address = cursor->address;
	cursor->address += bytes;
	cursor->left -= bytes;
	return address;
}

static void set_prps(struct chario_queue *queue, struct chario_command *command,
		     struct nvme_command *entry, struct chario_cursor *cursor, u32 bytes)
{
	u32 page_bytes = queue->ctrl->page_bytes;
	dma_addr_t first, second;
	u32 chunk, index = 0;

	if (!cursor->left)
		next_segment(cursor, page_bytes);
	chunk = page_bytes - (cursor->address & (page_bytes - 1));
	chunk = min(chunk, bytes);
	first = take(cursor, chunk, page_bytes);
	bytes -= chunk;
	entry->rw.dptr.prp1 = cpu_to_le64(first);
	if (!bytes) {
		entry->rw.dptr.prp2 = 0;
		return;
	}
	if (bytes <= page_bytes) {
		second = take(cursor, bytes, page_bytes);
		entry->rw.dptr.prp2 = cpu_to_le64(second);
		return;
	}
	while (bytes) {
		chunk = min(page_bytes, bytes);
		command->list[index++] = cpu_to_le64(take(cursor, chunk, page_bytes));
		bytes -= chunk;
	}
	entry->rw.dptr.prp2 = cpu_to_le64(command->list_dma);
}

/*
 * Submits up to @count commands of the unit from *@offset on, as many as there are slots, with one
 * doorbell. @like has their common fields; a unit without bytes is sent unchanged. Returns how
 * many, or -EAGAIN while the queue accepts none.
 */
int chario_submit(struct chario_queue *queue, struct chario_unit *unit, struct chario_cursor *cursor,
		  const struct nvme_command *like, u32 *offset, unsigned int count)
{
	struct chario_ctrl *ctrl = queue->ctrl;
	unsigned int sent = 0, shift = unit->shift;
	unsigned long flags = 0;
	bool is_live;

	if (queue->interrupts)
		spin_lock_irqsave(&queue->lock, flags);
	else
		spin_lock(&queue->lock);
	is_live = queue->is_live;
	count = likely(is_live) ? min_t(unsigned int, count, queue->free_count) : 0;
	for (; sent < count; sent++) {
		struct nvme_command *entry = &queue->sq[queue->sq_tail];
		u32 bytes = min(ctrl->command_bytes, unit->bytes - *offset);
		u16 id = chario_take_slot(queue, &unit->wait, *offset);

		*entry = *like;
		entry->common.command_id = id;
		if (bytes) {
			struct chario_command *command =
				&queue->commands[id & (CHARIO_SLOTS_MAX - 1)];

			entry->rw.slba = cpu_to_le64(unit->lba + (*offset >> shift));
			entry->rw.length = cpu_to_le16((bytes >> shift) - 1);
			set_prps(queue, command, entry, cursor, bytes);
			*offset += bytes;
		}
		swt_event(SWT_CHARIO_SUBMIT);
		if (++queue->sq_tail == queue->entries)
			queue->sq_tail = 0;
	}
	if (sent)
		/* Orders the entries before the doorbell. */
		writel(queue->sq_tail, queue->sq_doorbell);
	if (queue->interrupts)
		spin_unlock_irqrestore(&queue->lock, flags);
	else
		spin_unlock(&queue->lock);
	return likely(is_live) ? sent : -EAGAIN;
}

/*
 * One command for @unit, whose memory is mapped, at @address, and within one page: the most common
 * call, as a fast path. Returns 1, or what chario_submit() returns when nothing is sent.
 */
int chario_submit_page(struct chario_queue *queue, struct chario_unit *unit,
		       const struct chario_call *call, dma_addr_t address)
{
	struct nvme_rw_command *entry;
	unsigned long flags = 0;
	int sent = -EAGAIN;

	if (queue->interrupts)
		spin_lock_irqsave(&queue->lock, flags);
	else
		spin_lock(&queue->lock);
	if (unlikely(!queue->is_live))
		goto unlock;
	sent = 0;
	if (unlikely(!queue->free_count))
		goto unlock;
	entry = &queue->sq[queue->sq_tail].rw;
	memset(entry, 0, sizeof(*entry));
	entry->opcode = call->writes ? nvme_cmd_write : nvme_cmd_read;
	entry->command_id = chario_take_slot(queue, &unit->wait, 0);
	entry->nsid = cpu_to_le32(call->ns->nsid);
	entry->dptr.prp1 = cpu_to_le64(address);
	entry->slba = cpu_to_le64(unit->lba);
	entry->length = cpu_to_le16((unit->bytes >> unit->shift) - 1);
	if (call->fua)
		entry->control = cpu_to_le16(NVME_RW_FUA);
	if (++queue->sq_tail == queue->entries)
		queue->sq_tail = 0;
	swt_event(SWT_CHARIO_SUBMIT);
	/* Orders the entry before the doorbell. */
	writel(queue->sq_tail, queue->sq_doorbell);
	sent = 1;
unlock:
	if (queue->interrupts)
		spin_unlock_irqrestore(&queue->lock, flags);
	else
		spin_unlock(&queue->lock);
	return sent;
}
