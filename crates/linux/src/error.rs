// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of opening a path: what failed, why, and a hint.
//!
//! Requests on an open path fail with [`block::Error`]; this is for everything before that.

use remedy::{Part, Remedy, Setting, words};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of opening, binding or looking up.
pub type Result<T> = std::result::Result<T, Error>;

/// What sort of an error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Invalid arguments.
    Usage,
    /// The device is missing, in use, or not permitted.
    Missing,
    /// This machine does not support the path.
    Unsupported,
}

/// Why a path could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The name does not have the form of a device name.
    BadName {
        /// The name as the user wrote it.
        name: String,
        /// Why it is invalid.
        why: &'static str,
    },
    /// There is no such device.
    NoSuchDevice {
        /// The name as the user wrote it.
        name: String,
        /// What was looked for.
        why: String,
    },
    /// The file has no block.
    TooShort {
        /// The file.
        path: PathBuf,
        /// Its length, in bytes.
        len_bytes: u64,
        /// The block, in bytes.
        block_bytes: u64,
    },
    /// The device exists but is not an NVMe controller on the PCI bus.
    NotPciNvme {
        /// The name as the user wrote it.
        name: String,
        /// What it is instead.
        why: String,
    },
    /// The device is in use.
    InUse {
        /// The device.
        device: String,
        /// Each use.
        reasons: Vec<String>,
    },
    /// The device was set read-only, as `blockdev --setro` does.
    ReadOnly {
        /// The device.
        device: String,
    },
    /// No coprocessor serves a drive there.
    NoCoprocessor {
        /// The name as the user wrote it.
        name: String,
        /// What the coprocessor reported, or what is missing.
        why: String,
        /// Whether it serves a drive that has no volume.
        lacks_volume: bool,
    },
    /// Another of our processes has borrowed the device and is still running.
    Owned {
        /// The device's address.
        device: String,
        /// The owner.
        pid: u32,
    },
    /// The device does not have the driver that the path needs.
    NotBound {
        /// The device's address.
        device: String,
        /// Its driver.
        driver: Option<String>,
    },
    /// A kernel module is missing and could not be loaded.
    NoModule {
        /// Its name.
        module: &'static str,
        /// What `modprobe` said.
        why: String,
    },
    /// The kernel did not give the device to the driver.
    BindFailed {
        /// The device's address.
        device: String,
        /// The requested driver.
        driver: String,
        /// The driver that it has.
        found: Option<String>,
    },
    /// No IOMMU translates the device's addresses.
    NoIommu {
        /// The device's address.
        device: String,
    },
    /// An IOMMU translates the device's addresses, so that physical ones mean nothing to it.
    IommuActive {
        /// The device's address.
        device: String,
        /// As in `/sys/kernel/iommu_groups/N/type`.
        group_type: String,
    },
    /// The device does not see the processors' caches, so that user space must not give it memory.
    NotCoherent {
        /// The device's address.
        device: String,
        /// What says so.
        why: String,
    },
    /// A device of the same IOMMU group has a driver that is not VFIO's.
    GroupNotViable {
        /// The group's number.
        group: u32,
        /// The devices in the way, each with its driver.
        others: Vec<String>,
    },
    /// Another process has the group, or a device of it, open.
    GroupBusy {
        /// The group's number.
        group: u32,
        /// The node that it has open.
        node: PathBuf,
    },
    /// Access was denied.
    NotPermitted {
        /// The attempted operation.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// How to obtain the permission.
        hint: Remedy,
    },
    /// The limit of locked memory is too low.
    LockLimit {
        /// The bytes that this path locks.
        needed_bytes: u64,
        /// The process's limit, in bytes.
        limit_bytes: u64,
    },
    /// There is not enough memory.
    NoMemory {
        /// The requested length, in bytes.
        bytes: usize,
    },
    /// The memory for buffers is exhausted.
    MemoryFull {
        /// The requested length, in bytes.
        bytes: usize,
        /// The memory's total length, in bytes.
        total_bytes: usize,
    },
    /// No range of bus addresses is long enough.
    NoBusAddresses {
        /// The requested length, in bytes.
        needed_bytes: u64,
        /// First and last address of each range.
        usable: Vec<(u64, u64)>,
    },
    /// Too few huge pages are reserved.
    NoHugePages {
        /// How many this path needs.
        needed_pages: usize,
        /// How many are free.
        free_pages: usize,
    },
    /// The path is not supported on this machine.
    Unsupported {
        /// The path or its part.
        what: &'static str,
        /// Why not.
        why: String,
        /// What would help.
        hint: Option<Remedy>,
    },
    /// A namespace is of a kind, or has a format, that cannot be used.
    #[cfg(feature = "nvme")]
    Namespace {
        /// Its identifier.
        nsid: u32,
        /// Why it cannot be used.
        why: nvme::Unsupported,
    },
    /// The device does not answer: its registers read as all ones.
    Silent {
        /// The device's address.
        device: String,
    },
    /// The device answered a command with an error.
    Device {
        /// The attempted operation.
        doing: &'static str,
        /// The underlying error.
        source: block::Error,
    },
    /// An error of the operating system that no other variant explains.
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName { name, why } => write!(f, "`{name}` names no device: {why}"),
            Self::NoSuchDevice { name, why } => write!(f, "there is no device `{name}`: {why}"),
            Self::TooShort {
                path,
                len_bytes,
                block_bytes,
            } => write!(
                f,
                "{} has {len_bytes} bytes, less than a block of {block_bytes}",
                path.display()
            ),
            Self::NotPciNvme { name, why } => write!(
                f,
                "`{name}` is not an NVMe controller on the PCI bus: {why}"
            ),
            Self::InUse { device, reasons } => {
                write!(f, "{device} is in use: {}", reasons.join("; "))
            }
            Self::ReadOnly { device } => write!(f, "{device} is set read-only"),
            Self::NoCoprocessor { name, why, .. } => write!(f, "{name}: {why}"),
            Self::Owned { device, pid } => write!(
                f,
                "{device} was taken by process {pid}, which is still running"
            ),
            Self::NotBound { device, driver } => write!(
                f,
                "{device} is bound to {}, not to vfio-pci",
                driver.as_deref().unwrap_or("no driver")
            ),
            Self::NoModule { module, why } => {
                write!(f, "the kernel module {module} is not loaded: {why}")
            }
            Self::BindFailed {
                device,
                driver,
                found,
            } => write!(
                f,
                "{device} did not bind to {driver}: it has {}",
                found.as_deref().unwrap_or("no driver")
            ),
            Self::NoIommu { device } => write!(
                f,
                "{device} is not in an IOMMU group: the machine has no IOMMU, or it is disabled"
            ),
            Self::IommuActive { device, group_type } => write!(
                f,
                "an IOMMU translates the addresses of {device} (its group's type is {group_type})"
            ),
            Self::NotCoherent { device, why } => write!(
                f,
                "{device} is not coherent with the processors' caches: {why}"
            ),
            Self::GroupNotViable { group, others } => write!(
                f,
                "IOMMU group {group} cannot be used: it also holds {}",
                others.join(", ")
            ),
            Self::GroupBusy { group, .. } => {
                write!(f, "IOMMU group {group} is open in another process")
            }
            Self::NotPermitted { doing, path, .. } => {
                write!(f, "no permission: {doing} {}", path.display())
            }
            Self::LockLimit {
                needed_bytes,
                limit_bytes,
            } => write!(
                f,
                "{needed_bytes} bytes must be locked in memory, and RLIMIT_MEMLOCK is {limit_bytes}"
            ),
            Self::NoMemory { bytes } => write!(f, "no memory for {bytes} bytes of buffers"),
            Self::MemoryFull { bytes, total_bytes } => write!(
                f,
                "no run of {bytes} bytes is free in this memory of {total_bytes} bytes"
            ),
            Self::NoBusAddresses {
                needed_bytes,
                usable,
            } => write!(
                f,
                "the IOMMU has no free range of {needed_bytes} bytes; usable: {}",
                ranges(usable)
            ),
            Self::NoHugePages {
                needed_pages,
                free_pages,
            } => write!(
                f,
                "{needed_pages} huge pages of 2 MiB are needed, and {free_pages} are free"
            ),
            Self::Unsupported { what, why, .. } => write!(f, "{what} cannot be used here: {why}"),
            #[cfg(feature = "nvme")]
            Self::Namespace { nsid, why } => write!(f, "namespace {nsid} cannot be used: {why}"),
            Self::Silent { device } => write!(
                f,
                "{device} does not answer: its registers read as all ones"
            ),
            Self::Device { doing, source } => write!(f, "{doing}: {source}"),
            Self::Io {
                doing,
                path,
                source,
            } => write!(f, "{doing} {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device { source, .. } => Some(source),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

fn ranges(usable: &[(u64, u64)]) -> String {
    let texts: Vec<_> = usable
        .iter()
        .map(|(first, last)| format!("{first:#x}-{last:#x}"))
        .collect();
    texts.join(", ")
}

/// The hint for denied access to `path`: root may use devices, but a file's owner decides.
pub fn permission_hint(path: &Path) -> Remedy {
    let is_system = ["/dev", "/sys", "/proc"]
        .iter()
        .any(|root| path.starts_with(root));
    match path.parent() {
        _ if is_system => "run it as root".into(),
        Some(parent) if parent != Path::new("") => format!(
            "permissions: ls -ld {} {}",
            path.display(),
            parent.display()
        )
        .into(),
        _ => format!("permissions: ls -ld {} .", path.display()).into(),
    }
}

impl Error {
    /// What sort of an error it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::BadName { .. } | Error::MemoryFull { .. } => ErrorKind::Usage,
            Error::NoModule { .. }
            | Error::NoIommu { .. }
            | Error::IommuActive { .. }
            | Error::NotCoherent { .. }
            | Error::NoBusAddresses { .. }
            | Error::NoHugePages { .. }
            | Error::NoMemory { .. }
            | Error::Unsupported { .. } => ErrorKind::Unsupported,
            #[cfg(feature = "nvme")]
            Error::Namespace { .. } => ErrorKind::Unsupported,
            _ => ErrorKind::Missing,
        }
    }

    /// What may fix it, if anything.
    pub fn hint(&self) -> Option<Remedy> {
        Some(match self {
            Error::BadName { .. } => {
                "valid names: /dev/nvme0n1, /dev/ng0n1, nvme0, 0000:01:00.0 or /dev/disk/by-id/..."
                    .into()
            }
            Error::NoSuchDevice { .. } => "ls /dev/nvme*; lspci -Dnn -d ::0108".into(),
            Error::TooShort {
                path, len_bytes: 0, ..
            } => words![format!("straightway format {} ", path.display()), Part::Option(Setting::Size), " 1G makes a volume in it"].into(),
            Error::TooShort { .. } => "name another file, or a device".into(),
            Error::NotPciNvme { .. } => "lspci -Dnn -d ::0108".into(),
            Error::NoCoprocessor {
                name,
                lacks_volume: true,
                ..
            } => format!("straightway format {name}; the coprocessor's log says more").into(),
            Error::NoCoprocessor { .. } => {
                "look at the coprocessor's log; lab/coprocessor starts one in emulation".into()
            }
            Error::InUse { .. } => {
                "unmount it, stop what uses it or wait until it ends, or name another drive; see: lsblk. Beside a recording: ls, stat, df, get, cat and export"
                    .into()
            }
            Error::ReadOnly { device } => format!("blockdev --setrw /dev/{device}").into(),
            Error::Owned { pid, .. } => format!("wait for process {pid} to end, or: kill {pid}").into(),
            Error::NotBound { .. } => words!["bind it first: straightway bind ", remedy::Device].into(),
            Error::NoModule {
                module: crate::bind::CHARIO,
                ..
            } => "build it and load it: make -C kernel/chario && insmod kernel/chario/chario.ko"
                .into(),
            Error::NoModule { module, .. } => format!("modprobe {module}").into(),
            Error::BindFailed { device, .. } => format!("dmesg | grep {device}").into(),
            Error::NoIommu { .. } => {
                "switch VT-d, AMD-Vi or SMMU on in the firmware and boot with intel_iommu=on; \
                 without one, use the no-IOMMU path"
                    .into()
            }
            Error::IommuActive { .. } => {
                "use the VFIO path; or boot with iommu=pt, which leaves addresses as they are"
                    .into()
            }
            Error::NotCoherent { .. } => {
                Remedy::from(words!["use CharIO, which synchronises the caches (", Setting::Path.to("chario"), "), or the kernel's driver (", Setting::Path.to("io_uring"), "); if the hardware does snoop, its device tree lacks dma-coherent"])
            }
            Error::GroupNotViable { .. } => {
                "bind those devices to vfio-pci too, or move the drive to another slot".into()
            }
            Error::GroupBusy { node, .. } => format!("fuser -v {}", node.display()).into(),
            Error::NotPermitted { hint, .. } => hint.clone(),
            Error::LockLimit { needed_bytes, .. } => format!(
                "ulimit -l {} (in KiB; as root, or in /etc/security/limits.conf: memlock)",
                needed_bytes.div_ceil(1024)
            ).into(),
            Error::NoMemory { .. } => "ask for less buffer memory".into(),
            Error::MemoryFull { .. } => {
                "use smaller or fewer buffers, or more memory for them".into()
            }
            Error::NoBusAddresses { .. } => "ask for less buffer memory".into(),
            Error::NoHugePages {
                needed_pages,
                free_pages,
            } => format!(
                "echo $(($(cat /proc/sys/vm/nr_hugepages) + {})) > /proc/sys/vm/nr_hugepages",
                needed_pages.saturating_sub(*free_pages)
            ).into(),
            Error::Unsupported { hint, .. } => hint.clone()?,
            #[cfg(feature = "nvme")]
            Error::Namespace { nsid, why } => namespace_hint(*nsid, *why)?,
            Error::Silent { device } => format!(
                "echo 1 > /sys/bus/pci/devices/{device}/remove; echo 1 > /sys/bus/pci/rescan"
            ).into(),
            Error::Device { .. } | Error::Io { .. } => return None,
        })
    }

    /// An operating system's error, as a specific variant where the user can do something about it.
    pub(crate) fn io(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::NotPermitted {
                doing,
                hint: permission_hint(&path),
                path,
            },
            _ => Error::Io {
                doing,
                path,
                source,
            },
        }
    }
}

/// The hint for a namespace that cannot be used.
#[cfg(feature = "nvme")]
pub fn namespace_hint(nsid: u32, why: nvme::Unsupported) -> Option<Remedy> {
    match why {
        nvme::Unsupported::Metadata | nvme::Unsupported::BlockSize => Some(
            format!(
                "format it in another way, which destroys its data: nvme id-ns -n {nsid} -H \
             lists the formats, nvme format -n {nsid} --lbaf=N selects one"
            )
            .into(),
        ),
        nvme::Unsupported::CommandSet(_) => Some(
            "name a namespace of the NVM command set: straightway info lists the namespaces".into(),
        ),
        _ => None,
    }
}

#[cfg(feature = "nvme")]
impl From<nvme::Error> for Error {
    /// The error for a namespace, from its identify data.
    fn from(error: nvme::Error) -> Self {
        match error {
            nvme::Error::Namespace { nsid, why } => Error::Namespace { nsid, why },
            nvme::Error::NoNamespace { nsid } => Error::NoSuchDevice {
                name: format!("namespace {nsid}"),
                why: "the controller does not have it active".into(),
            },
            other => Error::Unsupported {
                what: "the namespace",
                why: other.to_string(),
                hint: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_says_what_failed_and_has_a_hint() {
        let error = Error::LockLimit {
            needed_bytes: 64 << 20,
            limit_bytes: 8 << 20,
        };
        assert!(error.to_string().contains("67108864"));
        assert!(
            error
                .hint()
                .unwrap()
                .to_string()
                .starts_with("ulimit -l 65536 ")
        );
        assert_eq!(error.kind(), ErrorKind::Missing);
        let error = Error::Owned {
            device: "0000:01:00.0".into(),
            pid: 7,
        };
        assert_eq!(error.kind(), ErrorKind::Missing);
        assert!(error.hint().unwrap().to_string().contains("kill 7"));
    }
}
