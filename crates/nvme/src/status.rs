// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Status codes (NVMe base specification, "Status Field"; NVM command set, "Status Codes").

use core::fmt;

/// A completion's status field without the phase tag: SC in bits 7:0, SCT in 10:8, CRD in 12:11,
/// More in 13, Do Not Retry in 14.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StatusField(pub u16);

impl StatusField {
    pub(crate) const ABORT_REQUESTED: u16 = 0x07;
    pub(crate) const ABORTED_QUEUE_DELETED: u16 = 0x08;
    pub(crate) const INVALID_NAMESPACE_OR_FORMAT: u16 = 0x0b;
    /// Command specific: the queue to be deleted or used does not exist.
    pub(crate) const INVALID_QUEUE: u16 = 0x101;

    /// Success: nothing in the field but, perhaps, More.
    pub const fn is_success(self) -> bool {
        self.0 & 0x7ff == 0
    }

    /// Status code type (SCT) and status code (SC), as one number: `SCT << 8 | SC`.
    pub const fn code(self) -> u16 {
        self.0 & 0x7ff
    }

    /// Repeating the command cannot help (DNR).
    pub const fn do_not_retry(self) -> bool {
        self.0 & 0x4000 != 0
    }

    /// The specification's name for the code, if the driver knows it.
    pub const fn name(self) -> &'static str {
        match self.code() {
            0x000 => "Successful Completion",
            0x001 => "Invalid Command Opcode",
            0x002 => "Invalid Field in Command",
            0x003 => "Command ID Conflict",
            0x004 => "Data Transfer Error",
            0x005 => "Commands Aborted due to Power Loss Notification",
            0x006 => "Internal Error",
            0x007 => "Command Abort Requested",
            0x008 => "Command Aborted due to SQ Deletion",
            0x00b => "Invalid Namespace or Format",
            0x00c => "Command Sequence Error",
            0x013 => "PRP Offset Invalid",
            0x020 => "Namespace is Write Protected",
            0x021 => "Command Interrupted",
            0x022 => "Transient Transport Error",
            0x080 => "LBA Out of Range",
            0x081 => "Capacity Exceeded",
            0x082 => "Namespace Not Ready",
            0x083 => "Reservation Conflict",
            0x084 => "Format In Progress",
            0x085 => "Invalid Value Size",
            0x086 => "Invalid Key Size",
            0x087 => "KV Key Does Not Exist",
            0x088 => "Unrecovered Error",
            0x089 => "Key Exists",
            0x100 => "Completion Queue Invalid",
            0x101 => "Invalid Queue Identifier",
            0x102 => "Invalid Queue Size",
            0x103 => "Abort Command Limit Exceeded",
            0x105 => "Asynchronous DriveEvent Request Limit Exceeded",
            0x108 => "Invalid Interrupt Vector",
            0x109 => "Invalid Log Page",
            0x10c => "Invalid Queue Deletion",
            0x12b => "I/O Command Set Not Supported",
            0x12c => "I/O Command Set Not Enabled",
            0x12d => "I/O Command Set Combination Rejected",
            0x12e => "Invalid I/O Command Set",
            0x180 => "Conflicting Attributes",
            0x182 => "Attempted Write to Read Only Range",
            0x1b8 => "Zoned Boundary Error",
            0x1b9 => "Zone Is Full",
            0x1ba => "Zone Is Read Only",
            0x1bb => "Zone Is Offline",
            0x1bc => "Zone Invalid Write",
            0x1bd => "Too Many Active Zones",
            0x1be => "Too Many Open Zones",
            0x1bf => "Invalid Zone State Transition",
            0x280 => "Write Fault",
            0x281 => "Unrecovered Read Error",
            0x282 => "End-to-end Guard Check Error",
            0x285 => "Compare Failure",
            0x286 => "Access Denied",
            0x287 => "Deallocated or Unwritten Logical Block",
            // Path Related Status (base specification 2.1, figure 103).
            0x300 => "Internal Path Error",
            0x301 => "Asymmetric Access Persistent Loss",
            0x302 => "Asymmetric Access Inaccessible",
            0x303 => "Asymmetric Access Transition",
            0x360 => "Controller Pathing Error",
            0x370 => "Host Pathing Error",
            0x371 => "Command Aborted By Host",
            _ => "unnamed status",
        }
    }
}

/// Dword 3 of a completion queue entry (base specification, "Completion Queue Entry: DW 3"),
/// without the phase tag: the command identifier (CID) in bits 15:0, the status field in 31:17.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cqe3(u32);

impl Cqe3 {
    const PHASE: u32 = 1 << 16;

    /// The word as the controller wrote it; `None` if its phase tag is not `phase` (0, or bit 16
    /// set), which means that the entry is an old one.
    #[inline(always)]
    pub(crate) const fn new(word: u32, phase: u32) -> Option<Self> {
        let word = word ^ phase;
        match word & Self::PHASE {
            0 => Some(Self(word)),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) const fn cid(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    pub(crate) const fn status(self) -> StatusField {
        StatusField((self.0 >> 17) as u16)
    }
}

impl fmt::Debug for StatusField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for StatusField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code();
        write!(f, "{} ({:x}/{:02x})", self.name(), code >> 8, code & 0xff)?;
        if self.do_not_retry() {
            f.write_str(", do not retry")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_completion_are_where_the_specification_has_them() {
        let word = 0x1234 | 0x4281 << 17;
        for (word, phase) in [(word, 0), (word | 1 << 16, 1 << 16)] {
            let cqe3 = Cqe3::new(word, phase).unwrap();
            assert_eq!((cqe3.cid(), cqe3.status()), (0x1234, StatusField(0x4281)));
            assert!(!cqe3.status().is_success() && cqe3.status().do_not_retry());
            assert_eq!(Cqe3::new(word, phase ^ 1 << 16), None);
        }
    }
}
