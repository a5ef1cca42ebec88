//! Ctrl-C and similar signals: the first requests an orderly end, the second ends the process
//! immediately.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Signals within this time count as one request: timeout(1), for example, signals its child and
/// then the whole group.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// Set when the user requests an end.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Listens to SIGINT, SIGTERM and SIGHUP. After a second request the process ends immediately,
    /// and the next run returns what it had borrowed.
    pub fn listen() -> Self {
        let cancel = Self::default();
        let flag = || Arc::clone(&cancel.0);
        let is_watched = Signals::new(SIGNALS).is_ok_and(watch);
        for signal in SIGNALS {
            // Without a handler the signal ends the process immediately, which is safe too.
            if !is_watched {
                let _ =
                    signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, flag());
            }
            let _ = signal_hook::flag::register(signal, flag());
        }
        cancel
    }

    /// Whether the user requested an end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The underlying flag.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
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
