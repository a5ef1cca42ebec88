// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens a namespace of an NVMe/TCP target.

use crate::drive::RemoteDrive;
use crate::error::{Error, Result};
use crate::path::memory::Memory;
use crate::path::{OpenOptions, Opened};
use crate::{Context, Progress};
use fabric::{Ana, FabricError, RemoteEvent, RemoteOptions, StreamError};
use linux::HostMemory;
use linux::fabric::{RemoteDevice, Tcp, connect, discover, host};
use paths::PathKind;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;

/// Opens the namespace.
///
/// # Errors
/// The target does not answer, does not have it, or forbids it.
pub fn open(
    context: &Context,
    drive: &RemoteDrive,
    kind: &PathKind,
    options: &OpenOptions,
) -> Result<Opened> {
    let memory = HostMemory::new(options.buffer_bytes.saturating_add(2 * PAGE_BYTES))?;
    let namespace = options.namespace.unwrap_or(drive.nsid);
    let device = connected(&context.progress, drive, namespace, &memory)?;
    let state = match device.ana() {
        Ana::Inaccessible | Ana::PersistentLoss => {
            let failure = Error::missing(format!(
                "{drive}: the namespace is not accessible by this path"
            ));
            return Err(failure.hint("connect to another address of the subsystem"));
        }
        Ana::NonOptimized => ", by a path that is not optimized",
        _ => "",
    };
    if !state.is_empty() {
        context.say(format_args!("warning: {drive}{state}"));
    }
    let serial = device.controller().serial.as_str().to_owned();
    let mut opened = Opened::new(kind, Box::new(device), Memory::Host(memory));
    opened.name = format!("{drive}{state}");
    opened.owner.serial = Some(serial);
    Ok(opened)
}

/// Connects to a namespace, 0 for the first, with a page of `memory`.
///
/// # Errors
/// As [`open`].
pub fn connected(
    progress: &Progress,
    drive: &RemoteDrive,
    namespace: u32,
    memory: &HostMemory,
) -> Result<RemoteDevice> {
    let failed = |error| failure(drive, error);
    let name = drive.to_string();
    let progress = progress.clone();
    let target = Tcp::new(&drive.host, drive.port)?
        .on_event(Arc::new(move |event| report(&progress, &name, event)));
    let (host_nqn, host_id) = host().map_err(failed)?;
    let mut wanted = RemoteOptions {
        host_nqn,
        host_id,
        nsid: namespace,
        queues: drive.queues,
        header_digest: drive.header_digest,
        data_digest: drive.data_digest,
        keep_alive_ms: u32::from(drive.keep_alive_s) * 1000,
        quiesce_ms: u32::from(drive.quiesce_s) * 1000,
        trusts_close: !drive.is_proxied,
        writes_through: drive.writes_through,
        reconnect_us: u64::from(drive.reconnect_s) * 1_000_000,
        ..RemoteOptions::default()
    };
    if drive.nqn.is_empty() {
        let found = discover(&mut target.clone(), &wanted, memory.allocate(PAGE_BYTES)?);
        let names: Vec<String> = found
            .map_err(failed)?
            .into_iter()
            .map(|one| format!("tcp://{}:{}/{}", one.address, one.port, one.nqn))
            .collect();
        let what = format!("tcp://{}:{} names no subsystem", drive.host, drive.port);
        return Err(if names.is_empty() {
            Error::missing(format!("{what}, and the target offers this host none"))
                .hint("allow this host at the target")
        } else {
            Error::usage(what).hint(format!("one of {}", names.join(", ")))
        });
    }
    wanted.subsystem_nqn = fabric::Name::new(&drive.nqn).map_err(failed)?;
    connect(target, wanted, memory.allocate(PAGE_BYTES)?).map_err(failed)
}

/// Reports what happened to an association.
fn report(progress: &Progress, name: &str, event: RemoteEvent) {
    let seconds = |us: u64| us.div_ceil(100_000) as f64 / 10.0;
    let doubt = |us: u64| match us {
        0 => String::new(),
        u64::MAX => "; writes that were not answered may still take effect: do not write to it \
                     before the target has ended the old association"
            .to_owned(),
        us => format!(
            "; writes that were not answered may still take effect: do not write to it for {:.1} s",
            seconds(us)
        ),
    };
    match event {
        RemoteEvent::Lost { error } => {
            progress.say(format_args!("warning: {name}: {error}; connecting again"));
        }
        RemoteEvent::Connected { writes_wait_us: 0 } => {
            progress.say(format_args!("{name}: connected again"));
        }
        RemoteEvent::Connected { writes_wait_us } => {
            let wait = match writes_wait_us {
                u64::MAX => "until their deadline".to_owned(),
                us => format!("for {:.1} s", seconds(us)),
            };
            progress.say(format_args!(
                "{name}: connected again; writes wait {wait}, until the target has ended the old association"
            ));
        }
        RemoteEvent::CacheInDoubt => {
            progress.say(format_args!(
                "warning: {name}: if the target restarted or lost power, what was written since the last \
                 flush is lost; `write-through` in the device's name avoids that"
            ));
        }
        RemoteEvent::GivenUp { error, in_doubt_us } => {
            let doubt = doubt(in_doubt_us);
            progress.say(format_args!("warning: {name}: given up: {error}{doubt}"));
        }
        RemoteEvent::Closing { wait_us } => {
            progress.say(format_args!(
                "{name}: waiting {:.1} s, until writes that were not answered cannot take effect any more",
                seconds(wait_us)
            ));
        }
        RemoteEvent::InDoubt { in_doubt_us } => {
            let doubt = doubt(in_doubt_us);
            progress.say(format_args!(
                "warning: {name}: a write ended with an unknown outcome{doubt}"
            ));
        }
        _ => {}
    }
}

fn failure(drive: &RemoteDrive, error: FabricError) -> Error {
    let what = format!("{drive}: {error}");
    let list = format!("tcp://{}:{}/", drive.host, drive.port);
    match error {
        error if error.is_unknown() => Error::missing(what).hint(format!(
            "straightway read {list} lists the subsystems that the target offers"
        )),
        error if error.is_forbidden() => {
            let own = host()
                .map(|(name, _)| name.as_str().to_owned())
                .unwrap_or_default();
            Error::missing(what).hint(format!("allow {own} at the target"))
        }
        FabricError::Stream(StreamError::Os { errno }) => {
            let error = std::io::Error::from_raw_os_error(errno);
            Error::missing(format!("{drive}: {error}"))
                .hint("is the target up, and its port reachable?")
        }
        FabricError::Initialization(_) => {
            Error::missing(what).hint("is it the port of an NVMe/TCP target?")
        }
        _ => Error::missing(what),
    }
}
