// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Making an association: connections, identities, limits.

use super::{Established, Remote};
use crate::command::{CAP, CC, CONNECT_BYTES, CSTS, Connecting, QueueEntry, opcode};
use crate::fence::Timing;
use crate::queue::{Done, Payload, Queue};
use crate::{Ana, Connect, FabricError, RemoteOptions};
use block::fields::{u16_at, u32_at};
use block::{Buffer, Clock, Features, Geometry};
use nvme::{ControllerInfo, IDENTIFY_BYTES, NamespaceInfo, StatusField, cns};

/// The longest transfer, if the controller allows more.
const MOST_TRANSFER_BYTES: usize = 1 << 20;
/// Identify Controller (base specification 2.1, figure 313): what only fabrics use, and ANA.
const CMIC: usize = 76;
const CTRATT: usize = 96;
const KAS: usize = 320;
const CQT: usize = 386;
const MAXCMD: usize = 514;
const IOCCSZ: usize = 1792;
/// CTRATT: Traffic Based Keep Alive Support.
const TBKAS: u32 = 1 << 6;
const ANA_LOG: u32 = 0x0c;
/// Feature identifiers.
const NUMBER_OF_QUEUES: u32 = 0x07;
const KEEP_ALIVE_TIMER: u32 = 0x0f;
/// The version from which on a controller has identification descriptors.
const VERSION_1_3: u32 = 0x0001_0300;
/// Type of the descriptor of a UUID, and where it begins in its page.
const NIDT_UUID: u8 = 3;

/// Runs one command on a queue to its end. Returns the buffer too.
pub(crate) fn run<S: crate::ByteStream, K: Clock, const N: usize>(
    queue: &mut Queue<S, N>,
    clock: &K,
    timeout_us: u64,
    what: &'static str,
    command: QueueEntry,
    data: Payload,
) -> (Option<Buffer>, Result<u64, FabricError>) {
    let deadline = clock
        .ticks()
        .saturating_add(clock.ticks_from_us(timeout_us));
    if let Err(buffer) = queue.submit(0, command, data, clock.ticks()) {
        return (buffer, Err(FabricError::TimedOut(what)));
    }
    let error = loop {
        queue.kick();
        if let Some(Done {
            buffer,
            status,
            value,
            ..
        }) = queue.poll()
        {
            let result = if StatusField(status).is_success() {
                Ok(value)
            } else {
                Err(FabricError::Status { what, status })
            };
            return (buffer, result);
        }
        if let Some(error) = queue.error() {
            break error;
        }
        if clock.ticks() >= deadline {
            break FabricError::TimedOut(what);
        }
        queue.wait(10_000);
    };
    let mut buffer = None;
    queue.drain(|_, _, data, _| buffer = data.into_buffer());
    (buffer, Err(error))
}

/// Runs a command with the page, which is put back whatever happens.
fn run_paged<S: crate::ByteStream, K: Clock, const N: usize>(
    queue: &mut Queue<S, N>,
    clock: &K,
    timeout_us: u64,
    what: &'static str,
    command: QueueEntry,
    page: &mut Option<Buffer>,
    data: impl FnOnce(Buffer) -> Payload,
) -> Result<u64, FabricError> {
    let Some(buffer) = page.take() else {
        return Err(FabricError::Memory);
    };
    let (buffer, result) = run(queue, clock, timeout_us, what, command, data(buffer));
    *page = buffer;
    result
}

/// Opens a connection and makes it queue `connecting.queue`. Returns it and the controller's
/// identity.
pub(crate) fn open_queue<C: Connect, K: Clock, const N: usize>(
    connect: &mut C,
    clock: &K,
    options: &RemoteOptions,
    connecting: &Connecting<'_>,
    page: &mut Option<Buffer>,
) -> Result<(Queue<C::Stream, N>, u16), FabricError> {
    let timeout_us = options.command_timeout_us;
    let stream = connect.connect(timeout_us)?;
    let mut queue = Queue::new(stream, options.header_digest, options.data_digest);
    let whole = page.as_mut().ok_or(FabricError::Memory)?;
    let command = connecting.write(whole)?;
    let value = run_paged(
        &mut queue,
        clock,
        timeout_us,
        "connect",
        command,
        page,
        |buffer| Payload::Out(buffer, CONNECT_BYTES as u32),
    )?;
    Ok((queue, value as u16))
}

/// Connects the administration queue and enables the controller. Returns the queue, the
/// controller's identity and its CAP.
pub(crate) fn open_controller<C: Connect, K: Clock, const N: usize>(
    connect: &mut C,
    clock: &K,
    options: &RemoteOptions,
    page: &mut Option<Buffer>,
) -> Result<(Queue<C::Stream, N>, u16, u64), FabricError> {
    let timeout_us = options.command_timeout_us;
    let connecting = Connecting {
        queue: 0,
        entries: 32,
        keep_alive_ms: options.keep_alive_ms,
        controller: 0xffff,
        host_id: options.host_id,
        host_nqn: options.host_nqn.as_str(),
        subsystem_nqn: options.subsystem_nqn.as_str(),
    };
    let (mut admin, id) = open_queue(connect, clock, options, &connecting, page)?;
    let mut property =
        |what, command| run(&mut admin, clock, timeout_us, what, command, Payload::None).1;
    let capabilities = property("reading CAP", QueueEntry::get_property(CAP, true))?;
    // Entries of 64 and 16 bytes, the NVM command set, enabled.
    property(
        "enabling the controller",
        QueueEntry::set_property(CC, 0x0046_0001),
    )?;
    // CAP.TO, in units of 500 ms.
    let ready_us = ((capabilities >> 24) & 0xff).max(1) * 500_000;
    let deadline = clock.ticks().saturating_add(clock.ticks_from_us(ready_us));
    loop {
        let status = property("reading CSTS", QueueEntry::get_property(CSTS, false))?;
        if status & 2 != 0 {
            return Err(FabricError::Fatal);
        }
        if status & 1 != 0 {
            return Ok((admin, id, capabilities));
        }
        if clock.ticks() >= deadline {
            return Err(FabricError::TimedOut("enabling the controller"));
        }
    }
}

/// Reads a page of data: Identify, or a log.
fn read_page<S: crate::ByteStream, K: Clock, const N: usize>(
    queue: &mut Queue<S, N>,
    clock: &K,
    options: &RemoteOptions,
    what: &'static str,
    command: QueueEntry,
    page: &mut Option<Buffer>,
) -> Result<(), FabricError> {
    let timeout_us = options.command_timeout_us;
    run_paged(queue, clock, timeout_us, what, command, page, |buffer| {
        Payload::In(buffer, IDENTIFY_BYTES as u32)
    })
    .map(drop)
}

impl<C: Connect, K: Clock, const DEPTH: usize, const QUEUES: usize> Remote<C, K, DEPTH, QUEUES> {
    pub(super) fn establish(
        connect: &mut C,
        clock: &K,
        options: &RemoteOptions,
        page: &mut Option<Buffer>,
    ) -> Result<Established<C::Stream, DEPTH, QUEUES>, FabricError> {
        let (mut admin, id, capabilities) = open_controller(connect, clock, options, page)?;
        let identify = |nsid, cns| QueueEntry::new(opcode::IDENTIFY, nsid, &[cns]);
        let command = identify(0, cns::CONTROLLER);
        read_page(
            &mut admin,
            clock,
            options,
            "Identify Controller",
            command,
            page,
        )?;
        let bytes: &[u8] = page.as_deref().ok_or(FabricError::Memory)?;
        let controller = ControllerInfo::parse(bytes).map_err(FabricError::Unusable)?;
        let capsule_bytes = u32_at(bytes, IOCCSZ).saturating_mul(16);
        let most_commands = u16_at(bytes, MAXCMD);
        let has_ana = bytes.get(CMIC).is_some_and(|cmic| cmic & 8 != 0);
        let version = ControllerInfo::version(bytes);
        let mut timing = Timing {
            keep_alive_ms: rounded_up(options.keep_alive_ms, u16_at(bytes, KAS)),
            traffic_based: u32_at(bytes, CTRATT) & TBKAS != 0,
            quiesce_ms: match u16_at(bytes, CQT) {
                0 => options.quiesce_ms,
                ms => u32::from(ms),
            },
        };
        timing.keep_alive_ms = timing
            .keep_alive_ms
            .max(keep_alive_ms(&mut admin, clock, options)?);
        let nsid = match options.nsid {
            0 => {
                let command = identify(0, cns::ACTIVE_NAMESPACES);
                read_page(
                    &mut admin,
                    clock,
                    options,
                    "listing namespaces",
                    command,
                    page,
                )?;
                let bytes: &[u8] = page.as_deref().ok_or(FabricError::Memory)?;
                let first = nvme::active_namespaces(bytes, 0).next();
                first.ok_or(FabricError::Unusable(nvme::Error::NoNamespace { nsid: 1 }))?
            }
            nsid => nsid,
        };
        let command = identify(nsid, cns::NAMESPACE);
        read_page(
            &mut admin,
            clock,
            options,
            "Identify Namespace",
            command,
            page,
        )?;
        let bytes: &[u8] = page.as_deref().ok_or(FabricError::Memory)?;
        let namespace = NamespaceInfo::parse(nsid, bytes).map_err(FabricError::Unusable)?;
        let uuid = if version >= VERSION_1_3 {
            let command = identify(nsid, cns::DESCRIPTORS);
            let what = "Identify (descriptors)";
            match read_page(&mut admin, clock, options, what, command, page) {
                Ok(()) => uuid_of(page.as_deref().unwrap_or_default()),
                // A controller that does not have them.
                Err(FabricError::Status { .. }) => [0; 16],
                Err(error) => return Err(error),
            }
        } else {
            [0; 16]
        };
        let ana = if has_ana {
            let dwords = [ANA_LOG | 1023 << 16];
            let command = QueueEntry::new(opcode::GET_LOG, 0xffff_ffff, &dwords);
            read_page(
                &mut admin,
                clock,
                options,
                "reading the ANA log",
                command,
                page,
            )?;
            ana_of(page.as_deref().unwrap_or_default(), nsid)
        } else {
            Ana::Unreported
        };
        let count = options.queues.clamp(1, QUEUES as u16);
        let wanted = u32::from(count - 1);
        let command = QueueEntry::new(
            opcode::SET_FEATURES,
            0,
            &[NUMBER_OF_QUEUES, wanted << 16 | wanted],
        );
        let timeout_us = options.command_timeout_us;
        let (_, granted) = run(
            &mut admin,
            clock,
            timeout_us,
            "setting the number of queues",
            command,
            Payload::None,
        );
        let granted = granted?;
        let granted = (granted & 0xffff).min((granted >> 16) & 0xffff) as u16;
        let count = count.min(granted.saturating_add(1));
        // CAP.MQES and MAXCMD limit a queue; one entry stays free.
        let most = (capabilities & 0xffff) as usize;
        let most = match most_commands {
            0 => most,
            commands => most.min(usize::from(commands)),
        };
        let depth = DEPTH.min(most).max(1);
        let mut queues = [const { None }; QUEUES];
        for (index, place) in queues.iter_mut().enumerate().take(usize::from(count)) {
            let connecting = Connecting {
                queue: index as u16 + 1,
                entries: depth as u16 + 1,
                keep_alive_ms: 0,
                controller: id,
                host_id: options.host_id,
                host_nqn: options.host_nqn.as_str(),
                subsystem_nqn: options.subsystem_nqn.as_str(),
            };
            let (mut queue, _) = open_queue(connect, clock, options, &connecting, page)?;
            queue.set_in_capsule_bytes(capsule_bytes.saturating_sub(64));
            queue.keep_path_failures();
            *place = Some(queue);
        }
        let page_shift = 12 + ((capabilities >> 48) & 0xf) as u8;
        let transfer = controller
            .max_transfer_bytes(page_shift)
            .min(MOST_TRANSFER_BYTES);
        let geometry = Geometry {
            block_size_log2: namespace.block_size_log2,
            block_count: namespace.block_count,
            max_transfer_blocks: ((transfer >> namespace.block_size_log2) as u32).clamp(1, 1 << 16),
            queue_depth: (depth * usize::from(count)).min(usize::from(u16::MAX)) as u16,
            buffer_align_bytes: 1,
            features: Features {
                volatile_write_cache: controller.volatile_write_cache,
                fua: true,
                discard: controller.dataset_management(),
                write_zeroes: controller.write_zeroes(),
                read_only: namespace.write_protected,
            },
        };
        Ok(Established {
            admin,
            queues,
            geometry,
            controller,
            namespace,
            uuid,
            version,
            timing,
            ana,
        })
    }
}

/// A timeout as a controller rounds it up: KAS is its granularity in units of 100 ms (base
/// specification 2.1, 3.9).
fn rounded_up(timeout_ms: u32, kas: u16) -> u32 {
    timeout_ms.next_multiple_of(u32::from(kas).max(1) * 100)
}

/// The Keep Alive Timeout in effect, which may be longer than the one of the Connect command; 0 if
/// the controller does not tell.
fn keep_alive_ms<S: crate::ByteStream, K: Clock, const N: usize>(
    admin: &mut Queue<S, N>,
    clock: &K,
    options: &RemoteOptions,
) -> Result<u32, FabricError> {
    let command = QueueEntry::new(opcode::GET_FEATURES, 0, &[KEEP_ALIVE_TIMER]);
    let what = "reading the Keep Alive Timeout";
    let timeout_us = options.command_timeout_us;
    match run(admin, clock, timeout_us, what, command, Payload::None).1 {
        Ok(value) => Ok(value as u32),
        Err(FabricError::Status { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

/// The UUID in a page of identification descriptors, zero if there is none (base specification 2.1,
/// "Namespace Identification Descriptor").
fn uuid_of(page: &[u8]) -> [u8; 16] {
    let mut at = 0;
    while let Some([kind, len]) = page.get(at..at + 2) {
        let (kind, len) = (*kind, usize::from(*len));
        if len == 0 {
            break;
        }
        let value = page.get(at + 4..at + 4 + len).unwrap_or_default();
        if let (NIDT_UUID, Ok(uuid)) = (kind, value.try_into()) {
            return uuid;
        }
        at += 4 + len;
    }
    [0; 16]
}

/// The state of the group that has the namespace, in an ANA log page.
fn ana_of(log: &[u8], nsid: u32) -> Ana {
    let mut at = 16;
    for _ in 0..u16_at(log, 8) {
        let count = u32_at(log, at + 4) as usize;
        let state = log.get(at + 16).map_or(0, |state| state & 0xf);
        let ids = at + 32;
        if (0..count.min(1024)).any(|index| u32_at(log, ids + 4 * index) == nsid) {
            return match state {
                1 => Ana::Optimized,
                2 => Ana::NonOptimized,
                3 => Ana::Inaccessible,
                4 => Ana::PersistentLoss,
                _ => Ana::Change,
            };
        }
        at = ids.saturating_add(count.saturating_mul(4));
        if at >= log.len() {
            break;
        }
    }
    Ana::Unreported
}

/// For `discovery`: a page of a log.
pub(crate) fn read_log<S: crate::ByteStream, K: Clock, const N: usize>(
    queue: &mut Queue<S, N>,
    clock: &K,
    options: &RemoteOptions,
    log: u32,
    offset: u64,
    page: &mut Option<Buffer>,
) -> Result<(), FabricError> {
    let dwords = [log | 1023 << 16, 0, offset as u32, (offset >> 32) as u32];
    let command = QueueEntry::new(opcode::GET_LOG, 0, &dwords);
    read_page(
        queue,
        clock,
        options,
        "reading the discovery log",
        command,
        page,
    )
}
