// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An association with a remote controller, and one of its namespaces as a device.

use crate::command::QueueEntry;
use crate::fence::Timing;
use crate::queue::{Payload, Queue};
use crate::{Ana, Backoff, Connect, FabricError, KeepAlive, RemoteOptions};
use block::{Buffer, Clock, Completion, Geometry};
use nvme::{ControllerInfo, IDENTIFY_BYTES, NamespaceInfo};

mod device;
mod establish;
mod recovery;
mod unflushed;

pub(crate) use establish::{open_controller, read_log};
use unflushed::Unflushed;

/// Commands outstanding on the administration queue.
pub(crate) const ADMIN_DEPTH: usize = 4;

/// A command that is not on a connection.
#[derive(Debug)]
enum Parked {
    /// It has not been answered, or not been sent.
    Waiting(Waiting),
    /// It was answered while its connection was given up.
    Done(Completion),
}

/// A command that a lost connection had not answered, or that waits for the end of a lost
/// association.
#[derive(Debug)]
struct Waiting {
    tag: u32,
    entry: QueueEntry,
    data: Payload,
    /// When it ends without having been executed, in ticks.
    deadline: u64,
    /// The target may have executed it, or may still.
    is_in_doubt: bool,
}

/// A namespace of a remote controller, with up to `DEPTH` requests on each of up to `QUEUES`
/// connections.
///
/// When a connection fails, or a command misses its deadline, the whole association is made again,
/// in `submit` or `poll`, for at most [`RemoteOptions::reconnect_us`] and the deadline of one
/// command. Then reads and flushes that were outstanding are submitted again. Commands that change
/// blocks wait, those of the lost association and new ones, until none of the lost association can
/// be executed any more ([`Timing`]); at most for [`RemoteOptions::reconnect_us`]. Past that they
/// end: with [`Error::OutcomeUnknown`](block::Error::OutcomeUnknown) if they had been sent,
/// otherwise with [`Error::TimedOut`](block::Error::TimedOut). If no connection can be made, every
/// request ends with [`Error::Gone`](block::Error::Gone) or `OutcomeUnknown`, and with
/// [`Error::Replaced`](block::Error::Replaced) if the namespace is another one than before.
///
/// Dropping it sleeps until no command of a lost association can be executed any more.
#[derive(Debug)]
pub struct Remote<C: Connect, K: Clock, const DEPTH: usize, const QUEUES: usize> {
    connect: C,
    clock: K,
    options: RemoteOptions,
    admin: Option<C::Keeper>,
    queues: [Option<Queue<C::Stream, DEPTH>>; QUEUES],
    parked: [[Option<Parked>; DEPTH]; QUEUES],
    parked_count: usize,
    /// Until then commands of lost associations may be executed, in ticks; 0 for none.
    fence: u64,
    page: Option<Buffer>,
    geometry: Geometry,
    controller: ControllerInfo,
    namespace: NamespaceInfo,
    uuid: [u8; 16],
    version: u32,
    timing: Timing,
    ana: Ana,
    turn: usize,
    empty_polls: u32,
    /// When the target was heard last on a connection for requests, in ticks; not earlier than it
    /// was.
    heard: u64,
    /// When commands whose path failed are sent again, in ticks; 0 if there are none.
    retry_at: u64,
    /// When they were sent again last, in ticks.
    retried_at: u64,
    /// The pauses before those, and before connecting again.
    retries: Backoff,
    attempts: Backoff,
    reconnects: u32,
    error: Option<FabricError>,
    gone: Option<block::Error>,
    /// Something is parked, or changing commands wait, or the device is gone: not the usual course.
    is_degraded: bool,
    unflushed: Unflushed,
}

/// What an association consists of, besides its queues.
struct Established<S, const DEPTH: usize, const QUEUES: usize> {
    admin: Queue<S, ADMIN_DEPTH>,
    queues: [Option<Queue<S, DEPTH>>; QUEUES],
    geometry: Geometry,
    controller: ControllerInfo,
    namespace: NamespaceInfo,
    uuid: [u8; 16],
    version: u32,
    timing: Timing,
    ana: Ana,
}

impl<C: Connect, K: Clock, const DEPTH: usize, const QUEUES: usize> Remote<C, K, DEPTH, QUEUES> {
    /// Connects. `page` has at least 4096 bytes.
    ///
    /// # Errors
    /// What failed; nothing remains connected.
    pub fn connect(
        mut connect: C,
        clock: K,
        options: RemoteOptions,
        page: Buffer,
    ) -> Result<Self, FabricError> {
        if page.len() < IDENTIFY_BYTES {
            return Err(FabricError::Memory);
        }
        let mut page = Some(page);
        let made = Self::establish(&mut connect, &clock, &options, &mut page)?;
        let heard = clock.ticks();
        let backoff = Backoff::new(&options.host_id, heard);
        let admin = KeepAlive::new(made.admin, &clock, options.keep_alive_ms);
        Ok(Self {
            admin: Some(connect.keep(admin)),
            connect,
            clock,
            options,
            queues: made.queues,
            parked: [const { [const { None }; DEPTH] }; QUEUES],
            parked_count: 0,
            fence: 0,
            page,
            geometry: made.geometry,
            controller: made.controller,
            namespace: made.namespace,
            uuid: made.uuid,
            version: made.version,
            timing: made.timing,
            ana: made.ana,
            turn: 0,
            empty_polls: 0,
            heard,
            retry_at: 0,
            retried_at: 0,
            retries: backoff.clone(),
            attempts: backoff,
            reconnects: 0,
            error: None,
            gone: None,
            is_degraded: false,
            unflushed: Unflushed::default(),
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

    /// The namespace's UUID, zero if the controller reports none.
    pub const fn uuid(&self) -> &[u8; 16] {
        &self.uuid
    }

    /// The specification version of the controller, in the format of register VS; 0 before NVMe
    /// 1.2.
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// How long commands of a lost association may be executed.
    pub const fn timing(&self) -> &Timing {
        &self.timing
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
}
