//! Recorded packets as datagrams, sent with the distances at which they arrived.

use crate::failure::{Failure, Result};
use crate::formats::pcapng::{Bad, Unpacker};
use crate::signals::Cancel;
use crate::stream::WAIT;
use crate::units::micros;
use schemars::JsonSchema;
use serde::Serialize;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Replayed {
    /// Datagrams that were sent.
    pub datagrams: u64,
    /// Datagrams that the recording does not have whole, left out.
    pub cut_datagrams: u64,
    /// How late a datagram was sent at most, after its distance from the first.
    pub lateness_max_us: u64,
}

/// A connected socket, and the packets on their way to it.
#[derive(Debug)]
pub struct Replay {
    socket: UdpSocket,
    address: String,
    unpacker: Unpacker,
    schedule: Schedule,
    cancel: Cancel,
    replayed: Replayed,
}

/// When each packet is due.
#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    /// When the first one was sent, and its arrival.
    first: Option<(Duration, u64)>,
}

impl Schedule {
    /// When a packet is due that arrived then. A clock that was set back makes it due at once.
    fn due(&mut self, now: Duration, arrival_ns: u64) -> Duration {
        let (began, first_ns) = *self.first.get_or_insert((now, arrival_ns));
        began + Duration::from_nanos(arrival_ns.saturating_sub(first_ns))
    }
}

impl Replay {
    /// Sends to `address`, to which `socket` is connected, until `cancel` is set.
    pub fn new(socket: UdpSocket, address: String, cancel: Cancel) -> Self {
        Self {
            socket,
            address,
            unpacker: Unpacker::default(),
            schedule: Schedule::default(),
            cancel,
            replayed: Replayed::default(),
        }
    }

    /// Sends the packets in the next bytes of the recording, each when it is due.
    ///
    /// # Errors
    /// The bytes are no recorded packets, or the socket failed.
    pub fn take(&mut self, bytes: &[u8], began: Instant) -> Result<()> {
        let Self {
            socket,
            address,
            unpacker,
            schedule,
            cancel,
            replayed,
        } = self;
        let taken = unpacker.take(bytes, &mut |arrival_ns, data: &[u8]| {
            let due = schedule.due(began.elapsed(), arrival_ns);
            loop {
                let left = due.saturating_sub(began.elapsed());
                if left.is_zero() || cancel.is_set() {
                    break;
                }
                std::thread::sleep(left.min(WAIT));
            }
            if cancel.is_set() {
                return Ok(());
            }
            let late = micros(began.elapsed().saturating_sub(due));
            replayed.lateness_max_us = replayed.lateness_max_us.max(late);
            replayed.datagrams += 1;
            let sent = socket.send(data);
            sent.map(drop)
                .map_err(|error| Failure::other(format!("sending to {address}: {error}")))
        })?;
        replayed.cut_datagrams = unpacker.cut;
        taken.map_err(|Bad(why)| {
            Failure::usage(format!("the file has no recorded packets: {why}")).hint(
                "--replay is for what record --format pcapng recorded; omit it to send the bytes",
            )
        })
    }

    /// What was sent so far.
    pub const fn replayed(&self) -> Replayed {
        self.replayed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_due_at_its_distance_from_the_first() {
        let ms = Duration::from_millis;
        let mut schedule = Schedule::default();
        assert_eq!(schedule.due(ms(500), 7_000_000_000), ms(500));
        assert_eq!(schedule.due(ms(501), 7_010_000_000), ms(510));
        assert_eq!(schedule.due(ms(600), 7_250_000_000), ms(750));
        // The clock was set back.
        assert_eq!(schedule.due(ms(800), 6_000_000_000), ms(500));
    }
}
