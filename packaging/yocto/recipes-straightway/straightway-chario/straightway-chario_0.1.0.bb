SUMMARY = "Character devices for NVMe namespaces"
DESCRIPTION = "A kernel module with a character device for each namespace: the straight path on boards whose PCIe does not see the caches."
LICENSE = "GPL-2.0-only"
LIC_FILES_CHKSUM = "file://${COMMON_LICENSE_DIR}/GPL-2.0-only;md5=801f80980d171dd6425610833a22dbe6"

SRC_URI = ""

inherit externalsrc module

EXTERNALSRC = "${STRAIGHTWAY_SOURCES}/kernel/chario"
# A module is built where its sources are.
EXTERNALSRC_BUILD = "${EXTERNALSRC}"
EXTRA_OEMAKE += "KDIR=${STAGING_KERNEL_DIR}"
