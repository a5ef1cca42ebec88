// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a service manager learns of a recording (sd_notify(3)): that it has begun, that it makes
//! progress, and how it goes.

use std::env;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two lines of how it goes.
const BETWEEN: Duration = Duration::from_secs(5);

/// A service manager that listens.
#[derive(Debug)]
pub struct Manager {
    socket: UnixDatagram,
    /// It ends a process that says nothing for this long.
    watchdog: Option<Duration>,
    /// When it was last told that the source is awaited.
    waited: Mutex<Option<Instant>>,
}

impl Manager {
    /// The one that started this process, if it listens: by `NOTIFY_SOCKET`, and `WATCHDOG_USEC`
    /// unless `WATCHDOG_PID` is another process.
    pub fn of_environment() -> Option<Self> {
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|us| is_ours && *us > 0);
        Self::at(
            &env::var("NOTIFY_SOCKET").ok()?,
            watchdog.map(Duration::from_micros),
        )
    }

    fn at(socket: &str, watchdog: Option<Duration>) -> Option<Self> {
        let address = match socket.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(socket),
        };
        let socket = UnixDatagram::unbound().ok()?;
        socket.connect_addr(&address.ok()?).ok()?;
        // A manager that is stuck does not stop a recording.
        socket.set_nonblocking(true).ok()?;
        Some(Self {
            socket,
            watchdog,
            waited: Mutex::new(None),
        })
    }

    /// Says it; false: it must be said again.
    fn tell(&self, text: &str) -> bool {
        !matches!(self.socket.send(text.as_bytes()), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// The source is open, and no sender has come yet; called again and again.
    pub(crate) fn waits(&self) {
        let mut waited = self.waited.lock().unwrap_or_else(PoisonError::into_inner);
        let most = self.watchdog.map_or(BETWEEN, |watchdog| watchdog / 4);
        if waited.is_none_or(|last| last.elapsed() >= most.min(BETWEEN))
            && self.tell("READY=1\nWATCHDOG=1\nSTATUS=waits for the source")
        {
            *waited = Some(Instant::now());
        }
    }
}

/// What changes when requests of the drive complete.
pub(crate) type Moved = [u64; 3];

/// What the manager was told.
#[derive(Debug)]
pub(crate) struct Told<'m> {
    manager: &'m Manager,
    is_ready: bool,
    alive: Option<Duration>,
    said: Option<Duration>,
    moved: Moved,
}

impl<'m> Told<'m> {
    /// Nothing yet.
    pub(crate) const fn new(manager: &'m Manager) -> Self {
        Self {
            manager,
            is_ready: false,
            alive: None,
            said: None,
            moved: [u64::MAX; 3],
        }
    }

    /// Called while it records, at this time since the beginning: the source is open and the first
    /// file made. It is alive if the drive has nothing to do, or has done something since the last
    /// time.
    pub(crate) fn look(
        &mut self,
        now: Duration,
        is_working: bool,
        moved: Moved,
        how: impl FnOnce() -> String,
    ) {
        if !self.is_ready {
            self.is_ready = self.manager.tell("READY=1");
        }
        let is_alive = !is_working || moved != self.moved;
        self.moved = moved;
        let is_over = |last: Option<Duration>, time| last.is_none_or(|last| now >= last + time);
        if let Some(watchdog) = self.manager.watchdog {
            // Half of the time, as sd_watchdog_enabled(3) has it, with room for one look.
            if is_alive && is_over(self.alive, watchdog / 4) && self.manager.tell("WATCHDOG=1") {
                self.alive = Some(now);
            }
        }
        if is_over(self.said, BETWEEN) && self.manager.tell(&format!("STATUS={}", how())) {
            self.said = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = [0; 100];
        while let Ok(len) = socket.recv(&mut line) {
            lines.push(String::from_utf8_lossy(&line[..len]).into_owned());
        }
        lines
    }

    #[test]
    fn a_drive_that_hangs_is_not_said_to_be_alive() {
        let name = format!("straightway-manager-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let watchdog = Some(Duration::from_secs(4));
        let manager = Manager::at(&format!("@{name}"), watchdog).unwrap();
        let mut told = Told::new(&manager);
        let mut look = |s, is_working, moved| {
            let how = || "fine".to_owned();
            told.look(Duration::from_secs(s), is_working, [moved, 0, 0], how);
            heard(&socket)
        };
        let alive = ["WATCHDOG=1"];
        assert_eq!(look(0, true, 0), ["READY=1", "WATCHDOG=1", "STATUS=fine"]);
        // The source is silent.
        assert_eq!(look(1, false, 0), alive);
        // It works, and nothing completes.
        assert_eq!(look(2, true, 0), [""; 0]);
        assert_eq!(look(4, true, 0), [""; 0]);
        assert_eq!(look(5, true, 1), ["WATCHDOG=1", "STATUS=fine"]);
        assert_eq!(look(5, true, 2), [""; 0]);
        manager.waits();
        manager.waits();
        let lines = "READY=1\nWATCHDOG=1\nSTATUS=waits for the source";
        assert_eq!(heard(&socket), [lines]);
        assert!(Manager::at(&format!("@{name}-none"), None).is_none());
    }
}
