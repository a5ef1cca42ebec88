//! Ctrl-C and its like: the first asks for an orderly end, the second ends at once.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once the user wants an end.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Listens to SIGINT, SIGTERM and SIGHUP. After the second one the process ends at once, and
    /// the next run gives back what it had borrowed.
    pub fn listen() -> Self {
        let cancel = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Without a handler the signal ends the process at once, which is safe too.
            let flag = || Arc::clone(&cancel.0);
            let _ = signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, flag());
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
