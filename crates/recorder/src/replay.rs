// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recorded packets as datagrams, sent with the distances at which they arrived.

use crate::{WAIT, datagrams};
use devices::cancel::Cancel;
use devices::error::{Error, Result};
use formats::pcapng::{Bad, Moment, Unpacker};
use remedy::{Part, Setting, words};
#[cfg(feature = "reports")]
use schemars::JsonSchema;
#[cfg(feature = "reports")]
use serde::Serialize;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use units::micros;

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct Replayed {
    /// Datagrams that were sent.
    pub datagrams: u64,
    /// Datagrams that the recording does not have whole, left out.
    pub cut_datagrams: u64,
    /// Datagrams that the recording says were lost when it was made.
    pub lost_datagrams: u64,
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
    refused: u64,
}

/// When each packet is due.
#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    /// The arrival of the one before.
    before: Option<Moment>,
    /// When that one was due.
    due: Duration,
}

impl Schedule {
    /// When a packet is due that arrived then: never before the one in front of it, whatever was
    /// done to the clock.
    fn due(&mut self, now: Duration, moment: Moment) -> Duration {
        let Some(before) = self.before.replace(moment) else {
            self.due = now;
            return now;
        };
        let passed = i128::from(moment.arrival_ns) - i128::from(before.arrival_ns);
        let distance = u64::try_from(passed - i128::from(moment.clock_step_ns)).unwrap_or(0);
        self.due += Duration::from_nanos(distance);
        self.due
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
            refused: 0,
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
            refused,
        } = self;
        let taken = unpacker.take(bytes, &mut |moment, data: &[u8]| {
            let due = schedule.due(began.elapsed(), moment);
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
            datagrams::send(socket, data, refused)
                .map_err(|error| Error::other(format!("sending to {address}: {error}")))
        })?;
        replayed.cut_datagrams = unpacker.cut;
        replayed.lost_datagrams = unpacker.lost;
        taken.map_err(|Bad(why)| {
            Error::usage(format!("the file has no recorded packets: {why}")).hint(words![
                Setting::Replay,
                " is for what record ",
                Part::Option(Setting::Format),
                " pcapng recorded; omit it to send the bytes"
            ])
        })
    }

    /// Datagrams that were refused, as far as is known.
    pub const fn refused(&self) -> u64 {
        self.refused
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
        let at = |ms: u64, clock_step_ns| Moment {
            arrival_ns: ms * 1_000_000,
            clock_step_ns,
        };
        let mut schedule = Schedule::default();
        assert_eq!(schedule.due(ms(500), at(7_000, 99)), ms(500));
        assert_eq!(schedule.due(ms(501), at(7_010, 0)), ms(510));
        assert_eq!(schedule.due(ms(600), at(7_250, 0)), ms(750));
        // The clock was set back by a second, and forward by an hour: the recording says so.
        assert_eq!(schedule.due(ms(800), at(6_300, -1_000_000_000)), ms(800));
        let hour = 3_600_000;
        let forward = at(6_310 + hour, hour as i64 * 1_000_000);
        assert_eq!(schedule.due(ms(800), forward), ms(810));
        // It was set back, and the recording does not say so: what follows keeps its distances.
        assert_eq!(schedule.due(ms(810), at(10, 0)), ms(810));
        assert_eq!(schedule.due(ms(810), at(40, 0)), ms(840));
    }
}
