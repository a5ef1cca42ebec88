// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maps an NVMe status to the error of the kernel's block layer, so that a program sees the same
 * errno from /dev/chardiskXnY as from /dev/nvmeXnY.
 */
#include "driver.h"

/* @status: the completion's status field without the phase tag. */
int chario_errno(u16 status)
{
	switch (status & 0x7ff) {
	case NVME_SC_SUCCESS:
		return 0;
	case NVME_SC_CAP_EXCEEDED:
		return -ENOSPC;
	case NVME_SC_LBA_RANGE:
	case NVME_SC_CMD_INTERRUPTED:
	case NVME_SC_NS_NOT_READY:
		return -EREMOTEIO;
	case NVME_SC_BAD_ATTRIBUTES:
	case CHARIO_SC_ONCS_NOT_SUPPORTED:
	case NVME_SC_INVALID_OPCODE:
	case NVME_SC_INVALID_FIELD:
	case NVME_SC_INVALID_NS:
		return -EOPNOTSUPP;
	case NVME_SC_WRITE_FAULT:
	case NVME_SC_READ_ERROR:
	case NVME_SC_UNWRITTEN_BLOCK:
	case NVME_SC_ACCESS_DENIED:
	case NVME_SC_READ_ONLY:
	case NVME_SC_COMPARE_FAILED:
		return -ENODATA;
	case NVME_SC_GUARD_CHECK:
	case NVME_SC_APPTAG_CHECK:
	case NVME_SC_REFTAG_CHECK:
	case NVME_SC_INVALID_PI:
		return -EILSEQ;
	case NVME_SC_RESERVATION_CONFLICT:
		return -EBADE;
	case NVME_SC_HOST_PATH_ERROR:
		return -ENOLINK;
	case NVME_SC_ZONE_TOO_MANY_ACTIVE:
		return -EOVERFLOW;
	case NVME_SC_ZONE_TOO_MANY_OPEN:
		return -ETOOMANYREFS;
	default:
		return -EIO;
	}
}
