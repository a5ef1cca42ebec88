// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends datagrams at a rate, so that a block is not a burst that overflows a receiver's buffer.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Bytes of a datagram: fits any network, and is a whole number of words.
const DATAGRAM_BYTES: usize = 1_024;
/// A datagram that is due sooner than this is sent immediately: a sleep is not shorter.
const GRAIN: Duration = Duration::from_micros(100);

/// A connected socket.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    address: String,
    /// 0: as fast as they can be sent.
    bytes_per_second: u64,
    refused: u64,
}

impl Datagrams {
    /// Sends to `address`, to which `socket` is connected, as fast as possible.
    pub const fn new(socket: UdpSocket, address: String) -> Self {
        Self {
            socket,
            address,
            bytes_per_second: 0,
            refused: 0,
        }
    }

    /// Spreads each block over its time at this rate.
    pub fn pace(&mut self, bytes_per_second: u64) {
        self.bytes_per_second = bytes_per_second;
    }

    /// The destination.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Datagrams that were refused, as far as is known.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Sends a block.
    ///
    /// # Errors
    /// The socket failed.
    pub fn send(&mut self, data: &[u8]) -> std::io::Result<()> {
        let (socket, refused) = (&self.socket, &mut self.refused);
        let began = Instant::now();
        paced(
            data,
            self.bytes_per_second,
            &mut || began.elapsed(),
            &mut |time| std::thread::sleep(time),
            &mut |datagram| send(socket, datagram, refused),
        )
    }
}

/// Sends a datagram. That an earlier one was refused (ICMP port unreachable, udp(7)) is counted and
/// ends nothing: the receiver may not have started yet, or start again.
///
/// # Errors
/// The socket failed.
pub fn send(socket: &UdpSocket, datagram: &[u8], refused: &mut u64) -> std::io::Result<()> {
    loop {
        match socket.send(datagram) {
            // The call reports the earlier one, and has sent nothing.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => *refused += 1,
            result => return result.map(drop),
        }
    }
}

/// Sends `data` in datagrams, each after the time of those before it. This is an eighth faster than
/// the rate, so that a late block can catch up.
fn paced(
    data: &[u8],
    bytes_per_second: u64,
    now: &mut dyn FnMut() -> Duration,
    sleep: &mut dyn FnMut(Duration),
    send: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut sent_bytes = 0;
    for datagram in data.chunks(DATAGRAM_BYTES) {
        let due_ns = (u128::from(sent_bytes) * 875_000_000)
            .checked_div(u128::from(bytes_per_second))
            .unwrap_or(0);
        let due = Duration::from_nanos(u64::try_from(due_ns).unwrap_or(u64::MAX));
        let left = due.saturating_sub(now());
        if left >= GRAIN {
            sleep(left);
        }
        send(datagram)?;
        sent_bytes += datagram.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// When each datagram was sent, on a clock that advances only by sleeping.
    fn times(len: usize, bytes_per_second: u64) -> Vec<Duration> {
        let clock = Cell::new(Duration::ZERO);
        let mut times = Vec::new();
        paced(
            &vec![0; len],
            bytes_per_second,
            &mut || clock.get(),
            &mut |time| clock.set(clock.get() + time),
            &mut |_| {
                times.push(clock.get());
                Ok(())
            },
        )
        .unwrap();
        times
    }

    #[test]
    fn a_block_is_spread_over_most_of_its_time() {
        // 1 MiB at 2 MiB/s: half a second, 1,024 datagrams.
        let times = times(1 << 20, 2 << 20);
        assert_eq!(times.len(), 1024);
        let last = *times.last().unwrap();
        assert!(
            (Duration::from_millis(430)..Duration::from_millis(500)).contains(&last),
            "{last:?}"
        );
        // No window of 5 ms has more than its share plus a few.
        for (first, time) in times.iter().enumerate() {
            let within = times[first..]
                .iter()
                .take_while(|other| **other < *time + Duration::from_millis(5));
            assert!(within.count() <= 13, "{first}");
        }
    }

    #[test]
    fn without_a_rate_nothing_sleeps() {
        assert_eq!(times(10_000, 0).last(), Some(&Duration::ZERO));
        assert_eq!(times(0, 0), []);
    }
}
