//! Ctrl-C and its like: the first asks for an orderly end, the second ends at once.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Signals that come within this time are one request: timeout(1), for one, signals its child and then the whole group.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// Set once the user wants an end.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Listens to SIGINT, SIGTERM and SIGHUP. After a second request the process ends at once, and
    /// the next run gives back what it had borrowed.
    pub fn listen() -> Self {
        let cancel = Self::default();
        let flag = || Arc::clone(&cancel.0);
        let is_watched = Signals::new(SIGNALS).is_ok_and(watch);
        for signal in SIGNALS {
            // Without a handler the signal ends the process at once, which is safe too.
            if !is_watched {
                let _ =
                    signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, flag());
            }
            let _ = signal_hook::flag::register(signal, flag());
        }
        cancel
    }

    /// Whether the user wants an end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

/// Ends the process at the second request. A thread does it, since the others may be deaf: in an open or a write that waits.
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
