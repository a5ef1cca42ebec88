// SPDX-License-Identifier: GPL-2.0-only
/*
 * The controller: enabled, disabled, and the resources that live as long as it is bound.
 *
 * Queues: a lane for each CPU where the controller and its vectors allow, each a loud queue (with
 * its own vector) and a quiet one (without interrupts). A controller that offers one queue has one
 * lane with one loud queue. All memory is allocated here, once; a restart reuses it.
 */
#include <linux/delay.h>
#include <linux/io-64-nonatomic-lo-hi.h>

#include "driver.h"

#define ADMIN_VECTOR 0

bool chario_is_present(struct chario_ctrl *ctrl)
{
	return readl(ctrl->bar + NVME_REG_CSTS) != ~0u;
}

/* CAP.TO is in units of 500 ms; at most 255 of them. */
static int wait_csts(struct chario_ctrl *ctrl, u32 mask, u32 value)
{
	u64 until_ns = ktime_get_ns() + (NVME_CAP_TIMEOUT(ctrl->cap) + 1) * 500ull * NSEC_PER_MSEC;

	for (;;) {
		u32 csts = readl(ctrl->bar + NVME_REG_CSTS);

		if (csts == ~0u)
			return -ENODEV;
		if ((csts & mask) == value)
			return 0;
		if (ktime_get_ns() > until_ns)
			return -ETIMEDOUT;
		usleep_range(100, 1000);
	}
}

/* Afterwards the controller touches no memory (7.6.2, "Controller Level Reset"). */
int chario_disable(struct chario_ctrl *ctrl)
{
	u32 cc = readl(ctrl->bar + NVME_REG_CC);

	if (cc == ~0u)
		return -ENODEV;
	writel(cc & ~NVME_CC_ENABLE & ~NVME_CC_SHN_MASK, ctrl->bar + NVME_REG_CC);
	return wait_csts(ctrl, NVME_CSTS_RDY, 0);
}

/* A normal shutdown, so that the drive saves its cache (7.6.2, "Normal Shutdown"). */
void chario_shutdown(struct chario_ctrl *ctrl)
{
	u32 cc = readl(ctrl->bar + NVME_REG_CC);

	if (cc == ~0u || !(cc & NVME_CC_ENABLE))
		return;
	writel((cc & ~NVME_CC_SHN_MASK) | NVME_CC_SHN_NORMAL, ctrl->bar + NVME_REG_CC);
	if (wait_csts(ctrl, NVME_CSTS_SHST_MASK, NVME_CSTS_SHST_CMPLT))
		dev_warn(ctrl->dev, "did not shut down in time\n");
}

static int enable(struct chario_ctrl *ctrl)
{
	struct chario_queue *admin = ctrl->admin;
	u32 aqa = (admin->entries - 1) | (admin->entries - 1) << 16;
	u32 mps = ilog2(ctrl->page_bytes) - 12;
	int error;

	error = chario_disable(ctrl);
	if (error)
		return error;
	chario_queue_clear(admin);
	writel(aqa, ctrl->bar + NVME_REG_AQA);
	lo_hi_writeq(admin->sq_dma, ctrl->bar + NVME_REG_ASQ);
	lo_hi_writeq(admin->cq_dma, ctrl->bar + NVME_REG_ACQ);
	writel(NVME_CC_ENABLE | NVME_CC_CSS_NVM | mps << NVME_CC_MPS_SHIFT | NVME_CC_IOSQES |
	       NVME_CC_IOCQES, ctrl->bar + NVME_REG_CC);
	error = wait_csts(ctrl, NVME_CSTS_RDY, NVME_CSTS_RDY);
	if (!error)
		chario_queue_live(admin, true);
	return error;
}

/* From a disabled controller to live queues, with the existing memory. */
int chario_restart(struct chario_ctrl *ctrl)
{
	u32 index, count = ctrl->queue_count;
	int error;

	error = enable(ctrl);
	if (error)
		return error;
	error = chario_set_queue_count(ctrl, &count);
	if (!error && count < ctrl->queue_count)
		error = -EIO;
	for (index = 0; !error && index < ctrl->queue_count; index++) {
		chario_queue_clear(&ctrl->queues[index]);
		error = chario_create_pair(&ctrl->queues[index]);
	}
	for (index = 0; !error && index < ctrl->queue_count; index++)
		chario_queue_live(&ctrl->queues[index], true);
	return error;
}

/* Enables it with only the admin queue, and reads its capabilities. */
int chario_start(struct chario_ctrl *ctrl)
{
	u32 mqes, mdts;
	int error;

	ctrl->cap = lo_hi_readq(ctrl->bar + NVME_REG_CAP);
	if (ctrl->cap == ~0ull)
		return -ENODEV;
	if (!(NVME_CAP_CSS(ctrl->cap) & NVME_CAP_CSS_NVM)) {
		dev_err(ctrl->dev, "does not support the NVM command set\n");
		return -ENODEV;
	}
	/* 4 KiB, or the controller's smallest page where that is larger; never more than the CPU's. */
	ctrl->page_bytes = 1u << (12 + NVME_CAP_MPSMIN(ctrl->cap));
	if (ctrl->page_bytes > PAGE_SIZE) {
		dev_err(ctrl->dev, "its smallest page, %u bytes, is larger than this kernel's\n",
			ctrl->page_bytes);
		return -ENODEV;
	}
	error = chario_queue_init(ctrl, ctrl->admin, 0, CHARIO_ADMIN_SLOTS - 1);
	if (error)
		return error;
	ctrl->admin->interrupts = true;
	error = enable(ctrl);
	if (error) {
		dev_err(ctrl->dev, "does not become ready: %d\n", error);
		return error;
	}
	error = chario_identify(ctrl, NVME_ID_CNS_CTRL, 0);
	if (error) {
		dev_err(ctrl->dev, "cannot be identified: %d\n", error);
		return error;
	}
	memcpy(ctrl->id, ctrl->page, sizeof(*ctrl->id));

	mdts = ctrl->id->mdts;
	ctrl->command_bytes = CHARIO_COMMAND_BYTES;
	/* One page of PRP entries. */
	ctrl->command_bytes = min(ctrl->command_bytes, ctrl->page_bytes / 8 * ctrl->page_bytes);
	if (mdts && mdts < 20)
		ctrl->command_bytes = min(ctrl->command_bytes, ctrl->page_bytes << mdts);
	ctrl->unit_bytes = min_t(size_t, CHARIO_UNIT_BYTES, dma_max_mapping_size(ctrl->dev));
	ctrl->unit_bytes = rounddown(ctrl->unit_bytes, PAGE_SIZE);
	ctrl->command_bytes = min(ctrl->command_bytes, ctrl->unit_bytes);

	/* Room for several units, within the limits of the controller and of command identifiers. */
	mqes = NVME_CAP_MQES(ctrl->cap);
	ctrl->slots = clamp(4 * DIV_ROUND_UP(ctrl->unit_bytes, ctrl->command_bytes), 128u,
			    CHARIO_SLOTS_MAX);
	ctrl->slots = min3(ctrl->slots, mqes, chario_queue_depth);
	if (ctrl->slots < 1) {
		dev_err(ctrl->dev, "its queues have no entries\n");
		return -ENODEV;
	}
	return 0;
}

static unsigned int vector_types(void)
{
	if (!strcmp(chario_irq, "intx"))
		return PCI_IRQ_INTX;
	if (!strcmp(chario_irq, "msi"))
		return PCI_IRQ_MSI;
	return PCI_IRQ_MSIX | PCI_IRQ_MSI | PCI_IRQ_INTX;
}

/* Vector 0 is the admin queue's, which needs no handler: admin commands poll their ring. */
static int get_vectors(struct chario_ctrl *ctrl, unsigned int lanes)
{
	struct irq_affinity spread = { .pre_vectors = 1 };
	unsigned int types = vector_types();
	int count;

	count = pci_alloc_irq_vectors_affinity(ctrl->pdev, 2, lanes + 1, types | PCI_IRQ_AFFINITY,
					       &spread);
	if (count < 0)
		count = pci_alloc_irq_vectors(ctrl->pdev, 1, 1, types);
	if (count < 0)
		return count;
	ctrl->vector_count = count;
	ctrl->one_vector = count == 1;
	return 0;
}

static void free_interrupts(struct chario_ctrl *ctrl)
{
	u32 lane;

	if (!ctrl->vector_count)
		return;
	for (lane = 0; lane < ctrl->lane_count; lane++) {
		struct chario_queue *queue = ctrl->lanes[lane].loud;

		if (ctrl->one_vector)
			pci_free_irq(ctrl->pdev, 0, ctrl);
		else
			pci_free_irq(ctrl->pdev, queue->vector, queue);
	}
	ctrl->lane_count = 0;
	pci_free_irq_vectors(ctrl->pdev);
	ctrl->vector_count = 0;
}

static int request_interrupts(struct chario_ctrl *ctrl, u32 lane_count)
{
	int error;

	/* lane_count counts the lanes that have their interrupt. */
	for (ctrl->lane_count = 0; ctrl->lane_count < lane_count; ctrl->lane_count++) {
		struct chario_queue *queue = ctrl->lanes[ctrl->lane_count].loud;

		if (ctrl->one_vector)
			error = pci_request_irq(ctrl->pdev, 0, chario_on_shared_interrupt, NULL,
						ctrl, "chario%dq1", ctrl->instance);
		else
			error = pci_request_irq(ctrl->pdev, queue->vector, chario_on_interrupt, NULL,
						queue, "chario%dq%u", ctrl->instance, queue->id);
		if (error)
			return error;
	}
	return 0;
}

/* A CPU uses the lane whose vector is spread to it, so completions come back to the caller's CPU. */
static void map_cpus(struct chario_ctrl *ctrl, u32 lane_count)
{
	unsigned int cpu, lane;

	for_each_possible_cpu(cpu)
		ctrl->lane_of_cpu[cpu] = cpu % lane_count;
	if (ctrl->one_vector)
		return;
	for (lane = 0; lane < lane_count; lane++) {
		const struct cpumask *mask =
			pci_irq_get_affinity(ctrl->pdev, ctrl->lanes[lane].loud->vector);

		for_each_cpu(cpu, mask ? mask : cpu_none_mask)
			ctrl->lane_of_cpu[cpu] = lane;
	}
}

static int choose_lanes(struct chario_ctrl *ctrl, u32 *lane_count)
{
	u32 lanes = min_t(u32, num_online_cpus(), CHARIO_LANES_MAX), count;
	int error;

	if (chario_lane_limit)
		lanes = min(lanes, chario_lane_limit);
	error = get_vectors(ctrl, lanes);
	if (error)
		return error;
	lanes = ctrl->one_vector ? 1 : min(lanes, ctrl->vector_count - 1);
	count = 2 * lanes;
	error = chario_set_queue_count(ctrl, &count);
	if (error)
		return error;
	/* Doorbells beyond the existing registers cannot be rung. */
	while (count > 1 && NVME_REG_DBS + (2 * count + 2) * (4ul << NVME_CAP_STRIDE(ctrl->cap)) >
	       ctrl->bar_bytes)
		count--;
	*lane_count = max(1u, min(lanes, count / 2));
	ctrl->queue_count = count > 1 ? 2 * *lane_count : 1;
	return 0;
}

/* What a started controller needs for I/O. On an error chario_tear_down() undoes what was done. */
int chario_set_up(struct chario_ctrl *ctrl)
{
	u32 index, lane_count, entries = ctrl->command_bytes / ctrl->page_bytes;
	size_t list_bytes = roundup_pow_of_two(max(entries * 8, 64u));
	int error;

	error = choose_lanes(ctrl, &lane_count);
	if (error)
		return error;
	ctrl->lists = dma_pool_create("chario lists", ctrl->dev, list_bytes, list_bytes, 0);
	ctrl->queues = kcalloc(ctrl->queue_count, sizeof(*ctrl->queues), GFP_KERNEL);
	ctrl->lanes = kcalloc(lane_count, sizeof(*ctrl->lanes), GFP_KERNEL);
	ctrl->lane_of_cpu = kcalloc(nr_cpu_ids, sizeof(*ctrl->lane_of_cpu), GFP_KERNEL);
	if (!ctrl->lists || !ctrl->queues || !ctrl->lanes || !ctrl->lane_of_cpu)
		return -ENOMEM;
	/* The loud queues first. */
	for (index = 0; index < ctrl->queue_count; index++) {
		struct chario_queue *queue = &ctrl->queues[index];

		error = chario_queue_init(ctrl, queue, index + 1, ctrl->slots);
		if (error)
			return error;
		queue->interrupts = index < lane_count;
		queue->vector = ctrl->one_vector || !queue->interrupts ? ADMIN_VECTOR : index + 1;
	}
	for (index = 0; index < lane_count; index++) {
		struct chario_queue *loud = &ctrl->queues[index];

		ctrl->lanes[index].loud = loud;
		ctrl->lanes[index].quiet = ctrl->queue_count > 1 ? loud + lane_count : loud;
	}
	map_cpus(ctrl, lane_count);
	error = chario_memory_init(ctrl);
	if (error)
		return error;
	error = request_interrupts(ctrl, lane_count);
	for (index = 0; !error && index < ctrl->queue_count; index++)
		error = chario_create_pair(&ctrl->queues[index]);
	for (index = 0; !error && index < ctrl->queue_count; index++)
		chario_queue_live(&ctrl->queues[index], true);
	return error;
}

/* The controller has been disabled or removed, and no call is inside. */
void chario_tear_down(struct chario_ctrl *ctrl)
{
	u32 index;

	free_interrupts(ctrl);
	chario_memory_free(ctrl);
	for (index = 0; ctrl->queues && index < ctrl->queue_count; index++)
		chario_queue_free(&ctrl->queues[index]);
	chario_queue_free(ctrl->admin);
	kfree(ctrl->queues);
	kfree(ctrl->lanes);
	kfree(ctrl->lane_of_cpu);
	ctrl->queues = NULL;
	ctrl->lanes = NULL;
	ctrl->lane_of_cpu = NULL;
	dma_pool_destroy(ctrl->lists);
	ctrl->lists = NULL;
}
