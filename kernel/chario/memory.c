// SPDX-License-Identifier: GPL-2.0-only
/*
 * A caller's pages while the drive may reach them: pinned, mapped, and both undone.
 *
 * The arrays for units of up to 4 MiB are allocated when the controller is set up and lent to one
 * unit at a time; those of small units are on the caller's stack (transfer.c). Nothing is allocated
 * here.
 */
#include "driver.h"

/* Units of 4 MiB in flight at the same time; others wait. */
#define MEMORIES_PER_CPU 2
#define MEMORIES_LEAST 4

static unsigned int pages_max(const struct chario_ctrl *ctrl)
{
	/* One more than fit: a buffer need not start at a page. */
	return ctrl->unit_bytes / PAGE_SIZE + 1;
}

int chario_memory_init(struct chario_ctrl *ctrl)
{
	unsigned int count = max_t(unsigned int, MEMORIES_LEAST, MEMORIES_PER_CPU * num_online_cpus());

	for (; count; count--) {
		struct chario_memory *memory = kzalloc(sizeof(*memory), GFP_KERNEL);

		if (!memory)
			return -ENOMEM;
		memory->is_pooled = true;
		memory->pages = kvcalloc(pages_max(ctrl), sizeof(*memory->pages), GFP_KERNEL);
		memory->sg = kvcalloc(pages_max(ctrl), sizeof(*memory->sg), GFP_KERNEL);
		list_add(&memory->list, &ctrl->memories);
		if (!memory->pages || !memory->sg)
			return -ENOMEM;
		up(&ctrl->memory_free);
	}
	return 0;
}

void chario_memory_free(struct chario_ctrl *ctrl)
{
	struct chario_memory *memory, *next;

	list_for_each_entry_safe(memory, next, &ctrl->memories, list) {
		list_del(&memory->list);
		kvfree(memory->sg);
		kvfree(memory->pages);
		kfree(memory);
	}
}

struct chario_memory *chario_memory_take(struct chario_ctrl *ctrl, bool may_wait)
{
	struct chario_memory *memory;

	if (down_trylock(&ctrl->memory_free)) {
		if (!may_wait)
			return ERR_PTR(-EBUSY);
		if (down_killable(&ctrl->memory_free))
			return ERR_PTR(-EINTR);
	}
	spin_lock(&ctrl->memory_lock);
	memory = list_first_entry(&ctrl->memories, struct chario_memory, list);
	list_del(&memory->list);
	spin_unlock(&ctrl->memory_lock);
	return memory;
}

void chario_memory_give(struct chario_ctrl *ctrl, struct chario_memory *memory)
{
	if (!memory->is_pooled)
		return;
	spin_lock(&ctrl->memory_lock);
	list_add(&memory->list, &ctrl->memories);
	spin_unlock(&ctrl->memory_lock);
	up(&ctrl->memory_free);
}

/* One entry for each run of contiguous pages. Returns the number of entries. */
unsigned int chario_sg_fill(struct scatterlist *sg, struct page **pages, unsigned int page_count,
			    unsigned int first_offset, size_t bytes)
{
	unsigned int index, count = 0, offset = first_offset;
	unsigned long next_pfn = 0;

	sg_init_table(sg, page_count);
	for (index = 0; index < page_count; index++) {
		unsigned int length = min_t(size_t, bytes, PAGE_SIZE - offset);
		unsigned long pfn = page_to_pfn(pages[index]);

		if (count && pfn == next_pfn && sg[count - 1].length + length <= CHARIO_UNIT_BYTES)
			sg[count - 1].length += length;
		else
			sg_set_page(&sg[count++], pages[index], length, offset);
		next_pfn = pfn + 1;
		bytes -= length;
		offset = 0;
	}
	sg_mark_end(&sg[count - 1]);
	return count;
}

/*
 * Pins and maps @bytes from the caller's @address on; they fit into the memory's arrays. On an error
 * nothing stays pinned.
 */
int chario_memory_map(struct chario_ctrl *ctrl, struct chario_memory *memory, unsigned long address,
		      size_t bytes, bool writes)
{
	unsigned int first_offset = offset_in_page(address);
	unsigned int count = DIV_ROUND_UP(first_offset + bytes, PAGE_SIZE);
	int pinned, mapped;

	pinned = pin_user_pages_fast(address & PAGE_MASK, count, writes ? 0 : FOLL_WRITE,
				     memory->pages);
	if (unlikely(pinned < (int)count)) {
		if (pinned > 0)
			unpin_user_pages(memory->pages, pinned);
		return pinned < 0 ? pinned : -EFAULT;
	}
	memory->page_count = count;
	memory->direction = writes ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
	memory->sg_count = chario_sg_fill(memory->sg, memory->pages, count, first_offset, bytes);
	mapped = dma_map_sg(ctrl->dev, memory->sg, memory->sg_count, memory->direction);
	if (unlikely(mapped <= 0)) {
		unpin_user_pages(memory->pages, count);
		return -ENOMEM;
	}
	return 0;
}

/* The drive has finished with it. What it wrote is dirty. */
void chario_memory_unmap(struct chario_ctrl *ctrl, struct chario_memory *memory)
{
	dma_unmap_sg(ctrl->dev, memory->sg, memory->sg_count, memory->direction);
	if (memory->direction == DMA_FROM_DEVICE)
		unpin_user_pages_dirty_lock(memory->pages, memory->page_count, true);
	else
		unpin_user_pages(memory->pages, memory->page_count);
}
