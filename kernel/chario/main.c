// SPDX-License-Identifier: GPL-2.0-only
/*
 * CharIO: NVMe namespaces as character devices, read and written synchronously, straight between
 * the drive and the caller's memory. See docs/chario.md.
 *
 * The driver matches no device by itself: devices are bound by driver_override, so that loading the
 * module takes no drive from another driver.
 */
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/sizes.h>

#include "driver.h"

unsigned int chario_timeout_ms = 30000;
module_param_named(timeout_ms, chario_timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "time that a command has before recovery begins (default 30000)");

unsigned int chario_queue_depth = CHARIO_SLOTS_MAX;
module_param_named(queue_depth, chario_queue_depth, uint, 0444);
MODULE_PARM_DESC(queue_depth, "most commands in a queue, 1 to 1024 (default: what two calls need)");

unsigned int chario_lane_limit;
module_param_named(lanes, chario_lane_limit, uint, 0444);
MODULE_PARM_DESC(lanes, "most pairs of queues (default: one a CPU)");

char *chario_windows = "";
module_param_named(windows, chario_windows, charp, 0444);
MODULE_PARM_DESC(windows, "physical memory that transfers may name: ADDRESS:LENGTH[,...] (default: none)");

char *chario_irq = "auto";
module_param_named(irq, chario_irq, charp, 0444);
MODULE_PARM_DESC(irq, "auto, msi or intx (default auto: MSI-X, else MSI, else INTx)");

static unsigned int events;
module_param(events, uint, 0444);
MODULE_PARM_DESC(events, "events of each CPU that /dev/chario-events has room for (default 0: none are stamped)");

static unsigned long timer;
module_param(timer, ulong, 0444);
MODULE_PARM_DESC(timer, "physical address of a profiling timer that takes the events (default: none)");

static DEFINE_IDA(instances);

static void free_ctrl(struct kref *kref)
{
	struct chario_ctrl *ctrl = container_of(kref, struct chario_ctrl, kref);

	ida_free(&instances, ctrl->instance);
	percpu_ref_exit(&ctrl->users);
	mutex_destroy(&ctrl->recovery_lock);
	mutex_destroy(&ctrl->registered_lock);
	kfree(ctrl->admin);
	kfree(ctrl->id);
	kfree(ctrl);
}

void chario_ctrl_get(struct chario_ctrl *ctrl)
{
	kref_get(&ctrl->kref);
}

void chario_ctrl_put(struct chario_ctrl *ctrl)
{
	kref_put(&ctrl->kref, free_ctrl);
}

static void on_users_gone(struct percpu_ref *ref)
{
	complete(&container_of(ref, struct chario_ctrl, users)->users_gone);
}

static struct chario_ctrl *make_ctrl(struct pci_dev *pdev)
{
	struct chario_ctrl *ctrl = kzalloc(sizeof(*ctrl), GFP_KERNEL);

	if (!ctrl)
		return NULL;
	ctrl->admin = kzalloc(sizeof(*ctrl->admin), GFP_KERNEL);
	ctrl->id = kzalloc(sizeof(*ctrl->id), GFP_KERNEL);
	ctrl->instance = ida_alloc(&instances, GFP_KERNEL);
	if (!ctrl->admin || !ctrl->id || ctrl->instance < 0)
		goto free;
	if (percpu_ref_init(&ctrl->users, on_users_gone, 0, GFP_KERNEL))
		goto free;
	kref_init(&ctrl->kref);
	ctrl->pdev = pdev;
	ctrl->dev = &pdev->dev;
	ctrl->state = CHARIO_PAUSED;
	init_completion(&ctrl->users_gone);
	init_waitqueue_head(&ctrl->changed);
	spin_lock_init(&ctrl->failure_lock);
	spin_lock_init(&ctrl->memory_lock);
	mutex_init(&ctrl->recovery_lock);
	mutex_init(&ctrl->registered_lock);
	init_rwsem(&ctrl->windows_lock);
	sema_init(&ctrl->memory_free, 0);
	INIT_LIST_HEAD(&ctrl->namespaces);
	INIT_LIST_HEAD(&ctrl->memories);
	INIT_LIST_HEAD(&ctrl->windows);
	INIT_LIST_HEAD(&ctrl->registered);
	INIT_DELAYED_WORK(&ctrl->watchdog, chario_watchdog);
	/* Late completions of abandoned commands are reported to this one, which is not read. */
	atomic_set(&ctrl->abandoned.loud, INT_MAX / 2);
	ctrl->abandoned.deadline_ns = U64_MAX;
	return ctrl;
free:
	if (ctrl->instance >= 0)
		ida_free(&instances, ctrl->instance);
	kfree(ctrl->id);
	kfree(ctrl->admin);
	kfree(ctrl);
	return NULL;
}

static int map_registers(struct chario_ctrl *ctrl)
{
	struct pci_dev *pdev = ctrl->pdev;
	int error;

	error = pci_enable_device_mem(pdev);
	if (error)
		return error;
	error = pci_request_mem_regions(pdev, "chario");
	if (error)
		goto disable;
	error = -ENODEV;
	ctrl->bar_bytes = pci_resource_len(pdev, 0);
	if (ctrl->bar_bytes < NVME_REG_DBS + 16)
		goto release;
	error = -ENOMEM;
	ctrl->bar = ioremap(pci_resource_start(pdev, 0), ctrl->bar_bytes);
	if (!ctrl->bar)
		goto release;
	error = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (error)
		goto unmap;
	/* PRP entries keep the offset in the page, whatever memory is bounced through. */
	dma_set_min_align_mask(&pdev->dev, SZ_4K - 1);
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	ctrl->page = dma_alloc_coherent(&pdev->dev, NVME_IDENTIFY_DATA_SIZE, &ctrl->page_dma,
					GFP_KERNEL);
	error = -ENOMEM;
	if (!ctrl->page)
		goto unmap;
	pci_set_master(pdev);
	pci_save_state(pdev);
	return 0;
unmap:
	iounmap(ctrl->bar);
release:
	pci_release_mem_regions(pdev);
disable:
	pci_disable_device(pdev);
	return error;
}

static void unmap_registers(struct chario_ctrl *ctrl)
{
	dma_free_coherent(ctrl->dev, NVME_IDENTIFY_DATA_SIZE, ctrl->page, ctrl->page_dma);
	iounmap(ctrl->bar);
	pci_release_mem_regions(ctrl->pdev);
	pci_disable_device(ctrl->pdev);
}

/* Ends every call, whatever state the controller is in. */
static void close_down(struct chario_ctrl *ctrl)
{
	mutex_lock(&ctrl->recovery_lock);
	if (ctrl->state != CHARIO_DEAD) {
		chario_freeze(ctrl);
		chario_shutdown(ctrl);
		chario_gone(ctrl);
	}
	mutex_unlock(&ctrl->recovery_lock);
	percpu_ref_kill(&ctrl->users);
	wait_for_completion(&ctrl->users_gone);
	cancel_delayed_work_sync(&ctrl->watchdog);
	chario_registered_unmap_all(ctrl);
	chario_windows_free(ctrl);
	chario_tear_down(ctrl);
}

static int chario_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct chario_ctrl *ctrl;
	int error;

	if (pdev->class != PCI_CLASS_STORAGE_EXPRESS) {
		dev_err(&pdev->dev, "is not an NVMe controller (its class is %06x)\n", pdev->class);
		return -ENODEV;
	}
	ctrl = make_ctrl(pdev);
	if (!ctrl)
		return -ENOMEM;
	pci_set_drvdata(pdev, ctrl);
	error = map_registers(ctrl);
	if (error)
		goto put;
	error = chario_start(ctrl);
	if (error)
		goto close;
	error = chario_set_up(ctrl);
	if (error) {
		dev_err(&pdev->dev, "cannot be set up: %d\n", error);
		goto close;
	}
	chario_windows_init(ctrl);
	WRITE_ONCE(ctrl->state, CHARIO_LIVE);
	error = chario_add_namespaces(ctrl);
	if (error)
		goto close;
	return 0;
close:
	close_down(ctrl);
	unmap_registers(ctrl);
put:
	chario_ctrl_put(ctrl);
	return error;
}

static void chario_remove(struct pci_dev *pdev)
{
	struct chario_ctrl *ctrl = pci_get_drvdata(pdev);

	chario_remove_namespaces(ctrl);
	close_down(ctrl);
	unmap_registers(ctrl);
	chario_ctrl_put(ctrl);
}

static void stop(struct chario_ctrl *ctrl, bool orderly)
{
	mutex_lock(&ctrl->recovery_lock);
	if (orderly && ctrl->state == CHARIO_LIVE) {
		WRITE_ONCE(ctrl->state, CHARIO_PAUSED);
		chario_freeze(ctrl);
		chario_shutdown(ctrl);
	}
	chario_pause(ctrl);
	mutex_unlock(&ctrl->recovery_lock);
}

static int go_on(struct chario_ctrl *ctrl)
{
	int error;

	mutex_lock(&ctrl->recovery_lock);
	error = ctrl->state == CHARIO_PAUSED ? chario_resume(ctrl) : 0;
	mutex_unlock(&ctrl->recovery_lock);
	return error;
}

static void chario_stop_for_good(struct pci_dev *pdev)
{
	stop(pci_get_drvdata(pdev), true);
}

static void chario_reset_prepare(struct pci_dev *pdev)
{
	struct chario_ctrl *ctrl = pci_get_drvdata(pdev);

	atomic64_inc(&ctrl->resets);
	stop(ctrl, false);
}

static void chario_reset_done(struct pci_dev *pdev)
{
	go_on(pci_get_drvdata(pdev));
}

static pci_ers_result_t chario_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct chario_ctrl *ctrl = pci_get_drvdata(pdev);

	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;
	if (state == pci_channel_io_perm_failure) {
		mutex_lock(&ctrl->recovery_lock);
		chario_gone(ctrl);
		mutex_unlock(&ctrl->recovery_lock);
		return PCI_ERS_RESULT_DISCONNECT;
	}
	stop(ctrl, false);
	return PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t chario_slot_reset(struct pci_dev *pdev)
{
	pci_restore_state(pdev);
	return go_on(pci_get_drvdata(pdev)) ? PCI_ERS_RESULT_DISCONNECT : PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers chario_error_handlers = {
	.error_detected = chario_error_detected,
	.slot_reset = chario_slot_reset,
	.reset_prepare = chario_reset_prepare,
	.reset_done = chario_reset_done,
};

static int __maybe_unused chario_suspend(struct device *dev)
{
	stop(dev_get_drvdata(dev), true);
	return 0;
}

static int __maybe_unused chario_resume_device(struct device *dev)
{
	return go_on(dev_get_drvdata(dev));
}

static SIMPLE_DEV_PM_OPS(chario_pm_ops, chario_suspend, chario_resume_device);

/* Empty: only driver_override or new_id gives a device to this driver. */
static const struct pci_device_id chario_ids[] = {
	{ }
};

static struct pci_driver chario_driver = {
	.name = "chario",
	.id_table = chario_ids,
	.probe = chario_probe,
	.remove = chario_remove,
	.shutdown = chario_stop_for_good,
	.driver.pm = &chario_pm_ops,
	.err_handler = &chario_error_handlers,
};

static int __init chario_init(void)
{
	int error;

	BUILD_BUG_ON(sizeof(struct nvme_command) != 64);
	BUILD_BUG_ON(sizeof(struct nvme_completion) != 16);
	chario_timeout_ms = clamp(chario_timeout_ms, 100u, 3600000u);
	chario_queue_depth = clamp(chario_queue_depth, 1u, CHARIO_SLOTS_MAX);
	if (strcmp(chario_irq, "auto") && strcmp(chario_irq, "msi") && strcmp(chario_irq, "intx")) {
		pr_err("chario: irq=%s: it is auto, msi or intx\n", chario_irq);
		return -EINVAL;
	}
	error = swt_events_init("chario-events", events, timer);
	if (error)
		return error;
	error = chario_namespaces_init();
	if (error)
		goto end_events;
	error = pci_register_driver(&chario_driver);
	if (error)
		goto end_namespaces;
	return 0;
end_namespaces:
	chario_namespaces_exit();
end_events:
	swt_events_exit();
	return error;
}

static void __exit chario_exit(void)
{
	pci_unregister_driver(&chario_driver);
	chario_namespaces_exit();
	ida_destroy(&instances);
	swt_events_exit();
}

module_init(chario_init);
module_exit(chario_exit);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("The Straightway authors");
MODULE_DESCRIPTION("NVMe namespaces as character devices");
MODULE_VERSION("1");
