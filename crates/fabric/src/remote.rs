//! An association with a remote controller, and one of its namespaces as a device.

use crate::command::{CAP, CC, CONNECT_BYTES, CSTS, Command, Connecting};
use crate::pdu::{u16_at, u32_at};
use crate::queue::{Done, Payload, Queue};
use crate::{Connect, FabricError};
use block::{
    Buffer, Clock, Completion, Device, Error, Features, Geometry, Operation, Refused, Request,
};
use nvme::{ControllerInfo, IDENTIFY_BYTES, NamespaceInfo, Status, cns};

mod device;

/// Commands outstanding on the administration queue.
const ADMIN_DEPTH: usize = 4;
/// The longest transfer, if the controller allows more.
const MOST_TRANSFER_BYTES: usize = 1 << 20;
/// Between two attempts to connect again.
const PAUSE_US: u64 = 250_000;
/// Identify Controller: bytes that only fabrics use, and ANA.
const CMIC: usize = 76;
const IOCCSZ: usize = 1792;
const MAXCMD: usize = 514;
const ANA_LOG: u32 = 0x0c;

mod opcode {
    pub const GET_LOG: u8 = 0x02;
    pub const IDENTIFY: u8 = 0x06;
    pub const SET_FEATURES: u8 = 0x09;
    pub const KEEP_ALIVE: u8 = 0x18;
}

/// The state of the path to a namespace (Asymmetric Namespace Access).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ana {
    /// The controller does not report it.
    Unreported,
    /// Usable.
    Optimized,
    /// Usable, slower than by another path.
    NonOptimized,
    /// Not usable by this path now.
    Inaccessible,
    /// Not usable by this path any more.
    PersistentLoss,
    /// About to change.
    Change,
}

/// How to connect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The subsystem's qualified name.
    pub subsystem_nqn: Name,
    /// The host's.
    pub host_nqn: Name,
    /// The host's identity.
    pub host_id: [u8; 16],
    /// The namespace; 0 for the first.
    pub nsid: u32,
    /// I/O queues, each with a connection; at most what the type has room for.
    pub queues: u16,
    /// Protect headers by digests.
    pub header_digest: bool,
    /// Protect data by digests.
    pub data_digest: bool,
    /// The target ends the association after this time without a command; one is sent after half of it, while the device is
    /// polled. 0 for none.
    pub keep_alive_ms: u32,
    /// A command that takes longer ends the connection.
    pub command_timeout_us: u64,
    /// For how long a lost connection is made again before the device is gone; 0 for not at all.
    pub reconnect_us: u64,
}

impl Default for Options {
    /// One queue, no digests, 5 s between signs of life, 10 s for a command and to reconnect.
    fn default() -> Self {
        Self {
            subsystem_nqn: Name::default(),
            host_nqn: Name::default(),
            host_id: [0; 16],
            nsid: 0,
            queues: 1,
            header_digest: false,
            data_digest: false,
            keep_alive_ms: 10_000,
            command_timeout_us: 10_000_000,
            reconnect_us: 10_000_000,
        }
    }
}

/// A qualified name, up to 223 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; 223],
    len: u8,
}

impl Default for Name {
    fn default() -> Self {
        Self {
            bytes: [0; 223],
            len: 0,
        }
    }
}

impl Name {
    /// A name.
    ///
    /// # Errors
    /// [`FabricError::Name`]: empty, or too long.
    pub fn new(text: &str) -> Result<Self, FabricError> {
        let mut name = Self::default();
        match name.bytes.get_mut(..text.len()) {
            Some(place) if !text.is_empty() => place.copy_from_slice(text.as_bytes()),
            _ => return Err(FabricError::Name),
        }
        name.len = text.len() as u8;
        Ok(name)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}

/// A command that a lost connection had not answered.
#[derive(Debug)]
struct Lost {
    tag: u32,
    entry: Command,
    data: Payload,
}

/// A namespace of a remote controller, with up to `DEPTH` requests on each of up to `QUEUES` connections.
///
/// When a connection fails, or a command misses its deadline, the whole association is made again, in `submit` or `poll`, for at most
/// [`Options::reconnect_us`] and the deadline of one command. Then the requests that were outstanding are submitted again. If that fails, or the
/// namespace is another one than before, every request ends with [`Error::Gone`].
#[derive(Debug)]
pub struct Remote<C: Connect, K, const DEPTH: usize, const QUEUES: usize> {
    connect: C,
    clock: K,
    options: Options,
    admin: Option<Queue<C::Stream, ADMIN_DEPTH>>,
    queues: [Option<Queue<C::Stream, DEPTH>>; QUEUES],
    lost: [[Option<Lost>; DEPTH]; QUEUES],
    lost_count: usize,
    page: Option<Buffer>,
    geometry: Geometry,
    controller: ControllerInfo,
    namespace: NamespaceInfo,
    ana: Ana,
    turn: usize,
    empty_polls: u32,
    next_keep_alive: u64,
    reconnects: u32,
    error: Option<FabricError>,
    is_gone: bool,
}

/// What an association consists of, besides its queues.
struct Established<S, const DEPTH: usize, const QUEUES: usize> {
    admin: Queue<S, ADMIN_DEPTH>,
    queues: [Option<Queue<S, DEPTH>>; QUEUES],
    geometry: Geometry,
    controller: ControllerInfo,
    namespace: NamespaceInfo,
    ana: Ana,
}

/// Runs one command on a queue to its end. Returns the buffer too.
pub(crate) fn run<S: crate::ByteStream, K: Clock, const N: usize>(
    queue: &mut Queue<S, N>,
    clock: &K,
    timeout_us: u64,
    what: &'static str,
    command: Command,
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
            let result = match Status(status).is_success() {
                true => Ok(value),
                false => Err(FabricError::Status { what, status }),
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
    queue.drain(|_, _, data| buffer = data.into_buffer());
    (buffer, Err(error))
}

/// Runs a command with the page, which is put back whatever happens.
fn run_paged<S: crate::ByteStream, K: Clock, const N: usize>(
    queue: &mut Queue<S, N>,
    clock: &K,
    timeout_us: u64,
    what: &'static str,
    command: Command,
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

/// Opens a connection and makes it queue `connecting.queue`. Returns it and the controller's identity.
pub(crate) fn open_queue<C: Connect, K: Clock, const N: usize>(
    connect: &mut C,
    clock: &K,
    options: &Options,
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

/// Connects the administration queue and enables the controller. Returns the queue, the controller's identity and its CAP.
pub(crate) fn open_controller<C: Connect, K: Clock, const N: usize>(
    connect: &mut C,
    clock: &K,
    options: &Options,
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
    let capabilities = property("reading CAP", Command::get_property(CAP, true))?;
    // Entries of 64 and 16 bytes, the NVM command set, enabled.
    property(
        "enabling the controller",
        Command::set_property(CC, 0x0046_0001),
    )?;
    // CAP.TO, in units of 500 ms.
    let ready_us = ((capabilities >> 24) & 0xff).max(1) * 500_000;
    let deadline = clock.ticks().saturating_add(clock.ticks_from_us(ready_us));
    loop {
        let status = property("reading CSTS", Command::get_property(CSTS, false))?;
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
    options: &Options,
    what: &'static str,
    command: Command,
    page: &mut Option<Buffer>,
) -> Result<(), FabricError> {
    let timeout_us = options.command_timeout_us;
    run_paged(queue, clock, timeout_us, what, command, page, |buffer| {
        Payload::In(buffer, IDENTIFY_BYTES as u32)
    })
    .map(drop)
}

impl<C: Connect, K: Clock, const DEPTH: usize, const QUEUES: usize> Remote<C, K, DEPTH, QUEUES> {
    /// Connects. `page` has at least 4096 bytes.
    ///
    /// # Errors
    /// What failed; nothing remains connected.
    pub fn connect(
        mut connect: C,
        clock: K,
        options: Options,
        page: Buffer,
    ) -> Result<Self, FabricError> {
        if page.len() < IDENTIFY_BYTES {
            return Err(FabricError::Memory);
        }
        let mut page = Some(page);
        let made = Self::establish(&mut connect, &clock, &options, &mut page)?;
        let next_keep_alive = keep_alive_at(&clock, &options);
        Ok(Self {
            connect,
            clock,
            options,
            admin: Some(made.admin),
            queues: made.queues,
            lost: [const { [const { None }; DEPTH] }; QUEUES],
            lost_count: 0,
            page,
            geometry: made.geometry,
            controller: made.controller,
            namespace: made.namespace,
            ana: made.ana,
            turn: 0,
            empty_polls: 0,
            next_keep_alive,
            reconnects: 0,
            error: None,
            is_gone: false,
        })
    }

    /// The controller's identity.
    pub const fn controller(&self) -> &ControllerInfo {
        &self.controller
    }

    /// The namespace's.
    pub const fn namespace(&self) -> &NamespaceInfo {
        &self.namespace
    }

    /// The state of the path when it was connected.
    pub const fn ana(&self) -> Ana {
        self.ana
    }

    /// How often the association was made again.
    pub const fn reconnects(&self) -> u32 {
        self.reconnects
    }

    /// Why the association was lost last.
    pub const fn last_error(&self) -> Option<FabricError> {
        self.error
    }

    fn establish(
        connect: &mut C,
        clock: &K,
        options: &Options,
        page: &mut Option<Buffer>,
    ) -> Result<Established<C::Stream, DEPTH, QUEUES>, FabricError> {
        let (mut admin, id, capabilities) = open_controller(connect, clock, options, page)?;
        let identify = |nsid, cns| Command::new(opcode::IDENTIFY, nsid, &[cns]);
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
        let ana = match has_ana {
            true => {
                let dwords = [ANA_LOG | 1023 << 16];
                let command = Command::new(opcode::GET_LOG, 0xffff_ffff, &dwords);
                read_page(
                    &mut admin,
                    clock,
                    options,
                    "reading the ANA log",
                    command,
                    page,
                )?;
                ana_of(page.as_deref().unwrap_or_default(), nsid)
            }
            false => Ana::Unreported,
        };
        let count = options.queues.clamp(1, QUEUES as u16);
        let wanted = u32::from(count - 1);
        let command = Command::new(opcode::SET_FEATURES, 0, &[7, wanted << 16 | wanted]);
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
            ana,
        })
    }

    /// Makes the association again after `error`, or gives up.
    fn recover(&mut self, error: FabricError) {
        self.error = Some(error);
        self.admin = None;
        for (queue, lost) in self.queues.iter_mut().zip(&mut self.lost) {
            let Some(mut queue) = queue.take() else {
                continue;
            };
            let mut places = lost.iter_mut().filter(|place| place.is_none());
            queue.drain(|tag, entry, data| {
                if let Some(place) = places.next() {
                    *place = Some(Lost { tag, entry, data });
                    self.lost_count += 1;
                }
            });
        }
        let wait = self.clock.ticks_from_us(self.options.reconnect_us);
        let deadline = self.clock.ticks().saturating_add(wait);
        while self.clock.ticks() < deadline {
            let made = Self::establish(
                &mut self.connect,
                &self.clock,
                &self.options,
                &mut self.page,
            );
            match made {
                Ok(made) if is_same(&made.namespace, &self.namespace) => {
                    self.admin = Some(made.admin);
                    self.queues = made.queues;
                    self.ana = made.ana;
                    self.reconnects = self.reconnects.saturating_add(1);
                    self.next_keep_alive = keep_alive_at(&self.clock, &self.options);
                    self.replay();
                    return;
                }
                // Another namespace must not be written to.
                Ok(_) => break,
                Err(error) => self.error = Some(error),
            }
            self.connect.pause(PAUSE_US);
        }
        self.is_gone = true;
    }

    fn replay(&mut self) {
        let now = self.clock.ticks();
        for (index, lost) in self.lost.iter_mut().enumerate() {
            for place in lost {
                let Some(Lost { tag, entry, data }) = place.take() else {
                    continue;
                };
                let queues = self.queues.iter_mut().flatten();
                let count = queues.count().max(1);
                let queue = self.queues.get_mut(index % count).and_then(Option::as_mut);
                let Some(queue) = queue.filter(|queue| queue.outstanding() < DEPTH) else {
                    *place = Some(Lost { tag, entry, data });
                    continue;
                };
                self.lost_count -= 1;
                let _ = queue.submit(tag, entry, data, now);
            }
        }
        for queue in self.queues.iter_mut().flatten() {
            queue.kick();
        }
    }
}

fn keep_alive_at<K: Clock>(clock: &K, options: &Options) -> u64 {
    let after = clock.ticks_from_us(u64::from(options.keep_alive_ms) * 500);
    clock.ticks().saturating_add(after)
}

/// Whether a namespace is the one that it was.
fn is_same(now: &NamespaceInfo, before: &NamespaceInfo) -> bool {
    let of = |one: &NamespaceInfo| {
        (
            one.nsid,
            one.block_count,
            one.block_size_log2,
            one.eui64,
            one.nguid,
        )
    };
    of(now) == of(before)
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
    options: &Options,
    log: u32,
    offset: u64,
    page: &mut Option<Buffer>,
) -> Result<(), FabricError> {
    let dwords = [log | 1023 << 16, 0, offset as u32, (offset >> 32) as u32];
    let command = Command::new(opcode::GET_LOG, 0, &dwords);
    read_page(
        queue,
        clock,
        options,
        "reading the discovery log",
        command,
        page,
    )
}
