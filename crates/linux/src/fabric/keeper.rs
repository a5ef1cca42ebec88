// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread that keeps an association alive while nobody polls the device.
//!
//! Servers and mounts sleep until somebody asks for something, and a recorder until its source has
//! data; the target ends an association after one Keep Alive Timeout without a command.

use super::Socket;
use crate::clock::TscClock;
use ::fabric::{FabricError, KeepAlive, Keeper, StreamError};
use block::Clock;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What the thread and the device share.
#[derive(Debug, Default)]
struct Shared {
    /// When the target was heard last, in ticks of [`TscClock`].
    heard: AtomicU64,
    is_ended: AtomicBool,
    has_failed: AtomicBool,
    failure: Mutex<Option<FabricError>>,
}

impl Shared {
    fn fail(&self, error: FabricError) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.has_failed.store(true, Ordering::Release);
    }
}

/// The thread, which ends with this.
#[derive(Debug)]
pub struct KeeperThread {
    shared: Arc<Shared>,
    /// The same connection, to wake the thread.
    stream: Option<TcpStream>,
    thread: Option<JoinHandle<()>>,
}

impl KeeperThread {
    pub(super) fn start(admin: KeepAlive<Socket>) -> Self {
        let shared = Arc::new(Shared::default());
        shared.heard.store(admin.heard(), Ordering::Relaxed);
        let stream = admin.stream().0.try_clone();
        let own = Arc::clone(&shared);
        let thread = stream.and_then(|stream| {
            let builder = std::thread::Builder::new().name("keep-alive".to_owned());
            let thread = builder.spawn(move || keep(admin, &own))?;
            Ok((stream, thread))
        });
        match thread {
            Ok((stream, thread)) => Self {
                shared,
                stream: Some(stream),
                thread: Some(thread),
            },
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(5);
                shared.fail(FabricError::Stream(StreamError::Os { errno }));
                Self {
                    shared,
                    stream: None,
                    thread: None,
                }
            }
        }
    }
}

fn keep(mut admin: KeepAlive<Socket>, shared: &Shared) {
    let clock = TscClock::default();
    while !shared.is_ended.load(Ordering::Relaxed) {
        let now = clock.ticks();
        admin.tend(now);
        shared.heard.store(admin.heard(), Ordering::Release);
        if let Some(error) = admin.failure() {
            shared.fail(error);
            return;
        }
        let left = u128::from(admin.next().saturating_sub(now)) * 1_000_000;
        let us = left / u128::from(clock.ticks_per_second().max(1));
        admin.wait(us.clamp(1000, 1_000_000) as u32);
    }
}

impl Keeper for KeeperThread {
    /// The thread does it.
    fn tend(&mut self, _: u64) {}

    fn heard(&self) -> u64 {
        self.shared.heard.load(Ordering::Acquire)
    }

    fn failure(&self) -> Option<FabricError> {
        if self.shared.has_failed.load(Ordering::Acquire) {
            *self
                .shared
                .failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        } else {
            None
        }
    }
}

impl Drop for KeeperThread {
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Ordering::Relaxed);
        // Wakes the thread.
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tcp;
    use crate::clock::TscClock;
    use ::fabric::{FabricError, Name, Remote, RemoteOptions, StreamError};
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn a_connection_that_is_given_up_is_reset_rather_than_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // A target that takes the connection request and says nothing.
        let target = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 128];
            stream.read_exact(&mut bytes).unwrap();
            // The host gives up: an end of file would mean that unsent bytes come later.
            loop {
                match stream.read(&mut bytes) {
                    Ok(0) => return None,
                    Ok(_) => {}
                    Err(error) => return Some(error.kind()),
                }
            }
        });
        let options = RemoteOptions {
            subsystem_nqn: Name::new("nqn.t:subsystem").unwrap(),
            host_nqn: Name::new("nqn.t:host").unwrap(),
            command_timeout_us: 50_000,
            ..RemoteOptions::default()
        };
        let page = block::Buffer::from_static(Box::leak(vec![0; 4096].into_boxed_slice()));
        let target_name = Tcp::new("127.0.0.1", port).unwrap();
        let connected =
            Remote::<_, _, 4, 1>::connect(target_name, TscClock::default(), options, page);
        let error = connected.unwrap_err();
        assert!(matches!(error, FabricError::TimedOut(_)), "{error}");
        assert!(!matches!(error, FabricError::Stream(StreamError::Closed)));
        let end = target.join().unwrap();
        assert_eq!(end, Some(std::io::ErrorKind::ConnectionReset));
    }
}
