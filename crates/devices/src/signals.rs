// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C and similar signals: the first requests an orderly end, the second ends the process
//! immediately.

use crate::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// Those that end a service of systemd: SIGHUP asks one to read its configuration again, and this
/// one has none.
const SIGNALS_OF_SERVICE: [i32; 2] = [SIGINT, SIGTERM];

/// Signals within this time count as one request: timeout(1), for example, signals its child and
/// then the whole group.
const ONE_REQUEST: Duration = Duration::from_millis(500);

impl Cancel {
    /// Listens to SIGINT, SIGTERM and, except in a service, SIGHUP. After a second request the
    /// process ends immediately, and the next run returns what it had borrowed.
    pub fn listen() -> Self {
        let cancel = Self::default();
        let flag = || Arc::clone(&cancel.is_set);
        let signals = if is_service() {
            &SIGNALS_OF_SERVICE[..]
        } else {
            &SIGNALS[..]
        };
        if is_service() {
            let _ = signal_hook::flag::register(SIGHUP, Arc::new(AtomicBool::new(false)));
        }
        // A file beyond the process's limit is an error of its write (setrlimit(2)), not the end.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
        let is_watched = Signals::new(signals).is_ok_and(watch);
        for signal in signals.iter().copied() {
            // Without a handler the signal ends the process immediately, which is safe too.
            if !is_watched {
                let _ =
                    signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, flag());
            }
            // Before the flag, so that whoever sees the flag finds the signal.
            let number = Arc::clone(&cancel.signal);
            let _ = signal_hook::flag::register_usize(signal, number, signal as usize);
            let _ = signal_hook::flag::register(signal, flag());
        }
        cancel
    }

    /// The number of the signal that requested the end, if it was one.
    pub fn signal(&self) -> Option<usize> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|signal| *signal > 0)
    }
}

/// Whether this is the process that systemd started for a unit (`SYSTEMD_EXEC_PID`,
/// systemd.exec(5)).
fn is_service() -> bool {
    let pid = std::env::var("SYSTEMD_EXEC_PID").ok();
    pid.is_some_and(|pid| pid.parse() == Ok(std::process::id()))
}

/// Ends the process at the second request. This needs a thread, because the others may be blocked
/// in an open or a write.
fn watch(mut signals: Signals) -> bool {
    let watch = move || {
        let mut first = None;
        for signal in signals.forever() {
            let first = *first.get_or_insert_with(Instant::now);
            if first.elapsed() > ONE_REQUEST {
                signal_hook::low_level::exit(128 + signal);
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(watch).is_ok()
}
