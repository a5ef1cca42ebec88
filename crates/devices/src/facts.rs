// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything that a drive reports about itself, from the straight path or through the kernel's
//! driver.

use crate::Progress;
use crate::drive::RemoteDrive;
use crate::error::{Error, Result};
use crate::path::handle::ControllerHandle;
use crate::path::remote;
use crate::path::straight::{DEPTH, MAX_TRANSFER_BYTES};
use block::Device;
use fabric::{Ana, Identifier};
use linux::HostMemory;
use linux::admin;
use linux::coprocessor::CoprocessorOptions;
use linux::disk::Disk;
use nvme::{
    ControllerInfo, ErrorEntry, FirmwareSlots, NamespaceInfo, PciId, PowerState, PowerStates,
    Quirks, Smart, StatusField, Transitions,
};
#[cfg(feature = "reports")]
use schemars::JsonSchema;
#[cfg(feature = "reports")]
use serde::Serialize;
use std::fs::File;
use std::path::Path;

/// What a drive reports about itself.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct Facts {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// What the user called it, resolved.
    pub device: String,
    /// How it was queried: `vfio`, `noiommu`, `model`, `kernel` (the NVMe driver's passthrough),
    /// `block layer` (a disk that is not NVMe), or `NVMe/TCP`.
    pub asked_by: String,
    /// PCI vendor of the subsystem.
    pub pci_vendor: u16,
    /// Model.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Firmware revision.
    pub firmware: String,
    /// Version of the NVMe specification, as `1.4.0`.
    pub nvme_version: String,
    /// Controller identifier.
    pub controller_id: u16,
    /// Limits.
    pub limits: LimitFacts,
    /// Optional features.
    pub features: FeatureFacts,
    /// Its active namespaces.
    pub namespaces: Vec<NamespaceFacts>,
    /// Health, null if the drive does not report it.
    pub smart: Option<SmartFacts>,
    /// The newest errors, newest first.
    pub error_log: Vec<ErrorFacts>,
    /// Firmware slots, null if the drive does not report them.
    pub firmware_slots: Option<FirmwareFacts>,
    /// The known defects of the drive, and what the driver here does about each.
    pub quirks: Vec<QuirkFacts>,
    /// Power states, null if the drive does not report them.
    pub power: Option<PowerFacts>,
    /// The association, null if the drive is not remote.
    pub association: Option<AssociationFacts>,
}

/// What is known of an association with a remote controller.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct AssociationFacts {
    /// Keep Alive Timeout in effect.
    pub keep_alive_ms: u32,
    /// Any command restarts it (CTRATT.TBKAS).
    pub traffic_based: bool,
    /// Time that the target needs to end its commands (CQT), or what is assumed for it.
    pub quiesce_ms: u32,
    /// After a loss, writes wait for so long from the last byte of the target on.
    pub write_wait_ms: Option<u64>,
    /// State of the path (ANA); null if the target does not report it.
    pub path_state: Option<String>,
    /// The namespace's UUID, null if it has none.
    pub uuid: Option<String>,
}

/// A known defect of the drive.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct QuirkFacts {
    /// Its name.
    pub name: String,
    /// What is wrong with the drive.
    pub defect: String,
    /// What the driver here does about it.
    pub effect: String,
}

/// Power states and the transitions between them.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct PowerFacts {
    /// The states, state 0 first.
    pub states: Vec<PowerStateFacts>,
    /// Whether an idle drive changes its state by itself; null if it cannot, or while the kernel's
    /// driver holds the drive.
    pub autonomous_transitions: Option<bool>,
    /// The longest that such a transition delays a command; null if not known.
    pub worst_latency_us: Option<u32>,
}

/// A power state.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct PowerStateFacts {
    /// Largest power; 0 if not reported.
    pub max_power_mw: u32,
    /// I/O is processed in it.
    pub operational: bool,
    /// Longest time to enter it.
    pub entry_latency_us: u32,
    /// Longest time to leave it.
    pub exit_latency_us: u32,
}

impl PowerFacts {
    fn new(states: &[PowerState], transitions: Option<&Transitions>) -> Self {
        let facts = |state: &PowerState| PowerStateFacts {
            max_power_mw: state.max_power_mw,
            operational: !state.non_operational,
            entry_latency_us: state.entry_latency_us,
            exit_latency_us: state.exit_latency_us,
        };
        Self {
            states: states.iter().map(facts).collect(),
            autonomous_transitions: transitions.map(|set| set.enabled),
            worst_latency_us: transitions.map(|set| set.worst_latency_us(states)),
        }
    }
}

fn quirk_facts(quirks: Quirks) -> Vec<QuirkFacts> {
    let facts = |one: &nvme::QuirkFacts| QuirkFacts {
        name: one.name.to_owned(),
        defect: one.defect.to_owned(),
        effect: one.effect.to_owned(),
    };
    quirks.facts().map(facts).collect()
}

/// A controller's limits. Values that only its registers have are null if the kernel's driver holds
/// it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct LimitFacts {
    /// Longest transfer of one command (MDTS); null if unlimited.
    pub max_transfer_bytes: Option<u64>,
    /// Most entries in a queue (MQES + 1).
    pub max_queue_entries: Option<u32>,
    /// Largest namespace identifier.
    pub namespaces: u32,
    /// Longest time to become ready (CAP.TO).
    pub ready_timeout_ms: Option<u32>,
    /// Smallest page (CAP.MPSMIN).
    pub min_page_bytes: Option<u64>,
    /// Largest page (CAP.MPSMAX).
    pub max_page_bytes: Option<u64>,
    /// Distance of doorbells (CAP.DSTRD).
    pub doorbell_stride_bytes: Option<u32>,
    /// Aborts that may be outstanding.
    pub aborts: u16,
    /// Asynchronous event requests that may be outstanding.
    pub async_events: u16,
    /// Entries of the error log.
    pub error_log_entries: u16,
}

/// Optional features.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct FeatureFacts {
    /// A power cut loses written data that has not been flushed.
    pub volatile_write_cache: bool,
    /// Dataset Management.
    pub discard: bool,
    /// Write Zeroes.
    pub write_zeroes: bool,
    /// Doorbell Buffer Config.
    pub shadow_doorbells: bool,
}

/// A namespace and the properties of a queue on it.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct NamespaceFacts {
    /// The namespace's identifier (NSID).
    pub namespace: u32,
    /// Size.
    pub size_bytes: u64,
    /// Logical blocks.
    pub block_count: u64,
    /// Logical block.
    pub block_size_bytes: u64,
    /// Blocks that may be allocated.
    pub capacity_blocks: u64,
    /// Longest request of the straight path.
    pub max_request_bytes: u64,
    /// Requests in flight on the straight path.
    pub queue_depth: u16,
    /// Whether it is write-protected.
    pub write_protected: bool,
    /// The reason if it cannot be used; the figures are 0 then.
    pub unusable: Option<String>,
}

/// Health.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
#[allow(missing_docs)]
pub struct SmartFacts {
    pub critical_warning: u8,
    pub temperature_kelvin: u16,
    pub available_spare_percent: u8,
    pub percentage_used: u8,
    /// In units of 512,000 bytes.
    pub data_units_read: u64,
    /// In units of 512,000 bytes.
    pub data_units_written: u64,
    pub host_read_commands: u64,
    pub host_write_commands: u64,
    pub power_cycles: u64,
    pub power_on_hours: u64,
    pub unsafe_shutdowns: u64,
    pub media_errors: u64,
    pub error_log_entries: u64,
}

/// One entry of the error log.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct ErrorFacts {
    /// Number of the error.
    pub count: u64,
    /// The command's queue.
    pub submission_queue: u16,
    /// The command's identifier.
    pub command_id: u16,
    /// Its status field.
    pub status: u16,
    /// The meaning of the status.
    pub meaning: String,
    /// The first block that failed.
    pub lba: u64,
    /// The command's namespace.
    pub namespace: u32,
}

/// Firmware slots.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct FirmwareFacts {
    /// The running slot.
    pub active_slot: u8,
    /// The slot that the next reset activates.
    pub next_slot: Option<u8>,
    /// The revision in each slot that has one.
    pub revisions: Vec<String>,
}

/// 128-bit counters, which no drive fills.
fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

impl From<Smart> for SmartFacts {
    fn from(smart: Smart) -> Self {
        Self {
            critical_warning: smart.critical_warning,
            temperature_kelvin: smart.temperature_kelvin,
            available_spare_percent: smart.available_spare_percent,
            percentage_used: smart.percentage_used,
            data_units_read: narrow(smart.data_units_read),
            data_units_written: narrow(smart.data_units_written),
            host_read_commands: narrow(smart.host_read_commands),
            host_write_commands: narrow(smart.host_write_commands),
            power_cycles: narrow(smart.power_cycles),
            power_on_hours: narrow(smart.power_on_hours),
            unsafe_shutdowns: narrow(smart.unsafe_shutdowns),
            media_errors: narrow(smart.media_errors),
            error_log_entries: narrow(smart.error_log_entries),
        }
    }
}

impl From<ErrorEntry> for ErrorFacts {
    fn from(entry: ErrorEntry) -> Self {
        Self {
            count: entry.count,
            submission_queue: entry.submission_queue,
            command_id: entry.command_id,
            status: entry.status,
            meaning: StatusField(entry.status).to_string(),
            lba: entry.lba,
            namespace: entry.nsid,
        }
    }
}

impl From<FirmwareSlots> for FirmwareFacts {
    fn from(slots: FirmwareSlots) -> Self {
        let text = |bytes: &[u8; 8]| {
            String::from_utf8_lossy(bytes)
                .trim_matches([' ', '\0'])
                .to_owned()
        };
        let revisions = slots.revisions.iter().map(text);
        Self {
            active_slot: slots.active_slot,
            next_slot: (slots.next_slot != 0).then_some(slots.next_slot),
            revisions: revisions.filter(|text| !text.is_empty()).collect(),
        }
    }
}

fn namespace_facts(
    namespace: u32,
    found: Result<NamespaceInfo>,
    max_transfer_bytes: u64,
    depth: u16,
) -> NamespaceFacts {
    let unusable = found.as_ref().err().map(Error::to_string);
    let info = found.ok();
    let bytes = |get: fn(&NamespaceInfo) -> u64| info.as_ref().map_or(0, get);
    NamespaceFacts {
        namespace,
        size_bytes: bytes(NamespaceInfo::size_bytes),
        block_count: bytes(|info| info.block_count),
        block_size_bytes: bytes(|info| 1 << info.block_size_log2),
        capacity_blocks: bytes(|info| info.capacity_blocks),
        max_request_bytes: max_transfer_bytes.min(MAX_TRANSFER_BYTES as u64),
        queue_depth: depth,
        write_protected: info.as_ref().is_some_and(|info| info.write_protected),
        unusable,
    }
}

fn version(value: u32) -> String {
    format!("{}.{}.{}", value >> 16, value >> 8 & 0xff, value & 0xff)
}

/// The facts from the controller's identify page; the caller adds the rest.
fn identity(device: String, asked_by: &str, info: &ControllerInfo) -> Facts {
    Facts {
        schema_version: crate::SCHEMA_VERSION,
        device,
        asked_by: asked_by.to_owned(),
        pci_vendor: info.vendor,
        model: info.model.as_str().to_owned(),
        serial: info.serial.as_str().to_owned(),
        firmware: info.firmware.as_str().to_owned(),
        controller_id: info.controller_id,
        limits: LimitFacts {
            namespaces: info.namespace_count,
            aborts: info.abort_limit,
            async_events: info.event_limit,
            error_log_entries: info.error_log_entries,
            ..LimitFacts::default()
        },
        features: FeatureFacts {
            volatile_write_cache: info.volatile_write_cache,
            discard: info.dataset_management(),
            write_zeroes: info.write_zeroes(),
            shadow_doorbells: info.shadow_doorbells(),
        },
        ..Facts::default()
    }
}

/// Queries a controller that this process drives.
///
/// # Errors
/// The controller does not answer.
pub fn of_handle(device: String, handle: &dyn ControllerHandle) -> Result<Facts> {
    let limits = handle.limits()?;
    let capabilities = limits.capabilities;
    let mut facts = identity(device, handle.name(), handle.info());
    facts.nvme_version = version(limits.version);
    let entries = capabilities.max_queue_entries;
    facts.limits = LimitFacts {
        max_transfer_bytes: (handle.info().mdts != 0).then_some(limits.max_transfer_bytes as u64),
        max_queue_entries: Some(entries),
        ready_timeout_ms: Some(capabilities.ready_timeout_ms),
        min_page_bytes: Some(1 << capabilities.min_page_shift),
        max_page_bytes: Some(1 << capabilities.max_page_shift),
        doorbell_stride_bytes: Some(4 << capabilities.doorbell_stride_log2),
        ..facts.limits
    };
    // Rings have twice as many entries as there are requests.
    let depth = (DEPTH as u32).min(entries / 2) as u16;
    for namespace in handle.namespaces()? {
        let found = handle.namespace(namespace);
        let max_bytes = limits.max_transfer_bytes as u64;
        facts
            .namespaces
            .push(namespace_facts(namespace, found, max_bytes, depth));
    }
    facts.smart = handle.smart().ok().map(SmartFacts::from);
    let errors = handle.error_log().unwrap_or_default();
    facts.error_log = errors.into_iter().map(ErrorFacts::from).collect();
    facts.firmware_slots = handle.firmware_slots().ok().map(FirmwareFacts::from);
    facts.quirks = quirk_facts(limits.quirks);
    let power = handle.power().ok();
    facts.power = power.map(|(states, set)| PowerFacts::new(&states, set.as_ref()));
    Ok(facts)
}

/// What a coprocessor reports about its drive, which excludes the health log and the registers.
///
/// # Errors
/// The coprocessor has no drive, or does not answer.
pub fn of_coprocessor(device: String, path: &Path) -> Result<Facts> {
    let drive = linux::Coprocessor::open(path, CoprocessorOptions::default())?;
    let geometry = *drive.geometry();
    let max_bytes = geometry.max_transfer_bytes() as u64;
    Ok(Facts {
        schema_version: crate::SCHEMA_VERSION,
        device,
        asked_by: "coprocessor".to_owned(),
        model: drive.model().to_owned(),
        serial: drive.serial().to_owned(),
        nvme_version: "not reported".to_owned(),
        limits: LimitFacts {
            max_transfer_bytes: Some(max_bytes),
            namespaces: 1,
            ..LimitFacts::default()
        },
        features: FeatureFacts {
            volatile_write_cache: geometry.features.volatile_write_cache,
            discard: geometry.features.discard,
            write_zeroes: geometry.features.write_zeroes,
            ..FeatureFacts::default()
        },
        namespaces: vec![NamespaceFacts {
            namespace: 1,
            size_bytes: geometry.size_bytes(),
            block_count: geometry.block_count,
            block_size_bytes: geometry.block_size_bytes() as u64,
            capacity_blocks: geometry.block_count,
            max_request_bytes: max_bytes,
            queue_depth: geometry.queue_depth,
            write_protected: drive.is_write_protected(),
            unusable: None,
        }],
        ..Facts::default()
    })
}

/// What the kernel's block layer reports about a disk that is not an NVMe drive.
pub fn of_disk(device: String, disk: &Disk) -> Facts {
    let limits = disk.limits();
    let block_count = disk.size_bytes.checked_div(limits.block_bytes).unwrap_or(0);
    Facts {
        schema_version: crate::SCHEMA_VERSION,
        device,
        asked_by: "block layer".to_owned(),
        model: disk.model.clone().unwrap_or_default(),
        serial: disk.serial.clone().unwrap_or_default(),
        nvme_version: "not NVMe".to_owned(),
        limits: LimitFacts {
            max_transfer_bytes: Some(limits.max_transfer_bytes),
            namespaces: 1,
            ..LimitFacts::default()
        },
        features: FeatureFacts {
            volatile_write_cache: limits.volatile_write_cache,
            discard: limits.discard,
            write_zeroes: limits.write_zeroes,
            ..FeatureFacts::default()
        },
        namespaces: vec![NamespaceFacts {
            namespace: 1,
            size_bytes: disk.size_bytes,
            block_count,
            block_size_bytes: limits.block_bytes,
            capacity_blocks: block_count,
            max_request_bytes: limits.max_transfer_bytes,
            queue_depth: limits.queue_depth,
            write_protected: limits.read_only,
            unusable: None,
        }],
        ..Facts::default()
    }
}

/// What a remote controller reports; of its namespaces the one that was connected to.
///
/// # Errors
/// It does not answer, or does not have the namespace.
pub fn of_remote(device: String, drive: &RemoteDrive) -> Result<Facts> {
    let memory = HostMemory::new(1 << 16)?;
    let remote = remote::connected(&Progress::default(), drive, drive.nsid, &memory)?;
    let geometry = *remote.geometry();
    let mut facts = identity(device, "NVMe/TCP", remote.controller());
    facts.nvme_version = version(remote.version());
    let max_bytes = geometry.max_transfer_bytes() as u64;
    let namespace = *remote.namespace();
    facts.namespaces = vec![namespace_facts(
        namespace.nsid,
        Ok(namespace),
        max_bytes,
        geometry.queue_depth,
    )];
    let timing = remote.timing();
    facts.association = Some(AssociationFacts {
        keep_alive_ms: timing.keep_alive_ms,
        traffic_based: timing.traffic_based,
        quiesce_ms: timing.quiesce_ms,
        write_wait_ms: timing.wait_ms(),
        path_state: match remote.ana() {
            Ana::Unreported => None,
            Ana::Optimized => Some("optimized".to_owned()),
            Ana::NonOptimized => Some("not optimized".to_owned()),
            Ana::Inaccessible => Some("inaccessible".to_owned()),
            Ana::PersistentLoss => Some("persistent loss".to_owned()),
            Ana::Change => Some("change".to_owned()),
        },
        uuid: (*remote.uuid() != [0; 16])
            .then(|| Identifier::Uuid(*remote.uuid()).to_string())
            .map(|text| text.trim_start_matches("UUID ").to_owned()),
    });
    Ok(facts)
}

/// Queries a controller that the kernel's driver holds, at `path` (`/dev/nvme0`). The quirks are
/// those that the driver here would apply to a function with these PCI identifiers.
///
/// # Errors
/// It cannot be opened or does not answer.
pub fn of_kernel(device: String, path: &Path, id: PciId) -> Result<Facts> {
    let file = File::open(path).map_err(|error| Error::io("opening", path, &error))?;
    let failed = |error| Error::request("identifying the controller", error);
    let page = admin::identify_controller(&file).map_err(failed)?;
    let info = ControllerInfo::parse(&page[..])?;
    let mut facts = identity(device, "kernel", &info);
    facts.nvme_version = version(ControllerInfo::version(&page[..]));
    // The unit is the smallest page, which is 4 KiB wherever Linux runs the drive with such pages.
    let max_bytes = info.max_transfer_bytes(12) as u64;
    facts.limits.max_transfer_bytes = (info.mdts != 0).then_some(max_bytes);
    for namespace in admin::active_namespaces(&file).map_err(failed)? {
        let found = admin::identify_namespace(&file, namespace)
            .map_err(failed)
            .and_then(|page| {
                let list = admin::descriptors(&file, namespace).map_err(failed)?;
                nvme::check_command_set(namespace, &list[..])?;
                Ok(NamespaceInfo::parse(namespace, &page[..])?)
            });
        facts
            .namespaces
            .push(namespace_facts(namespace, found, max_bytes, DEPTH as u16));
    }
    facts.smart = admin::smart(&file).ok().map(SmartFacts::from);
    let errors = admin::error_log(&file, info.error_log_entries.min(64)).unwrap_or_default();
    facts.error_log = errors.into_iter().map(ErrorFacts::from).collect();
    facts.firmware_slots = admin::firmware_slots(&file).ok().map(FirmwareFacts::from);
    facts.quirks = quirk_facts(Quirks::of_pci(id) | Quirks::of_identify(&info));
    // Without the permission to ask what is set, the states are known.
    let set = admin::power(&file).ok().and_then(|(_, set)| set);
    let states = PowerStates::parse(&page[..]);
    facts.power = Some(PowerFacts::new(&states, set.as_ref()));
    Ok(facts)
}
