// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams with what the kernel knows of each: when it arrived, to which address it was sent, and
//! how many were dropped before it.

use crate::sys::datagram as sys;
use std::io::Result;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its length in bytes; more than the memory that was given if it was cut.
    pub len_bytes: usize,
    /// Its sender.
    pub from: SocketAddr,
    /// The address to which it was sent: a group's, for one to a group. `None`: the kernel does not
    /// say.
    pub to: Option<IpAddr>,
    /// When the kernel received it, in nanoseconds since 1970 by the wall clock (`SO_TIMESTAMPNS`).
    /// `None`: it does not say.
    pub arrival_ns: Option<u64>,
    /// Datagrams that the kernel had dropped for this socket when this one arrived, since the
    /// socket exists, modulo 2^32 (`SO_RXQ_OVFL`).
    pub dropped: u32,
}

/// Asks the kernel for what [`receive`] reports.
///
/// # Errors
/// The kernel refuses an option.
pub fn prepare(socket: &UdpSocket) -> Result<()> {
    sys::switch_on(socket, sys::TIMES)?;
    sys::switch_on(socket, sys::DROPS)?;
    // A socket of both families reports addresses of IPv4 as mapped ones.
    match socket.local_addr()? {
        SocketAddr::V4(_) => sys::switch_on(socket, sys::TO_V4),
        SocketAddr::V6(_) => sys::switch_on(socket, sys::TO_V6),
    }
}

/// Receives a datagram into `data`; waits as long as the socket's time limit says.
///
/// # Errors
/// None came in that time, or the socket failed.
pub fn receive(socket: &UdpSocket, data: &mut [u8]) -> Result<Arrival> {
    let mut name = sys::Name([0; 128]);
    let mut control = sys::Control([0; 256]);
    let lengths = sys::receive(socket, data, &mut name, &mut control)?;
    let mut arrival = Arrival {
        len_bytes: lengths.datagram,
        from: address(&name.0).ok_or(std::io::ErrorKind::InvalidData)?,
        to: None,
        arrival_ns: None,
        // The kernel says nothing while none was dropped.
        dropped: 0,
    };
    let mut rest = control.0.get(..lengths.control).unwrap_or_default();
    while let Some((kind, data, after)) = message(rest) {
        match kind {
            sys::TIMES => arrival.arrival_ns = time_ns(data),
            sys::DROPS => arrival.dropped = array(data, 0).map_or(0, u32::from_ne_bytes),
            // The address in the header, behind the interface and the address of this machine
            // (ip(7)).
            sys::TO_V4 => arrival.to = array::<4>(data, 8).map(|four| Ipv4Addr::from(four).into()),
            sys::TO_V6_DATA => {
                arrival.to = array::<16>(data, 0).map(|six| Ipv6Addr::from(six).into())
            }
            _ => {}
        }
        rest = after;
    }
    Ok(arrival)
}

/// What a control message is about (level and type), its data, and the messages behind it.
type Message<'c> = ((i32, i32), &'c [u8], &'c [u8]);

/// The first control message (cmsg(3)).
fn message(control: &[u8]) -> Option<Message<'_>> {
    const WORD: usize = size_of::<usize>();
    let len = usize::from_ne_bytes(array(control, 0)?);
    let level = i32::from_ne_bytes(array(control, WORD)?);
    let kind = i32::from_ne_bytes(array(control, WORD + 4)?);
    let data = control.get((WORD + 8).next_multiple_of(WORD)..len)?;
    let after = control.get(len.next_multiple_of(WORD)..);
    Some(((level, kind), data, after.unwrap_or_default()))
}

fn time_ns(data: &[u8]) -> Option<u64> {
    let (seconds, ns) = match data.len() {
        8 => (
            i64::from(i32::from_ne_bytes(array(data, 0)?)),
            i64::from(i32::from_ne_bytes(array(data, 4)?)),
        ),
        _ => (
            i64::from_ne_bytes(array(data, 0)?),
            i64::from_ne_bytes(array(data, 8)?),
        ),
    };
    u64::try_from(seconds.checked_mul(1_000_000_000)?.checked_add(ns)?).ok()
}

/// An address of the Internet's families.
fn address(name: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(array(name, 0)?));
    let port = u16::from_be_bytes(array(name, 2)?);
    match family {
        libc::AF_INET => Some(SocketAddr::from((array::<4>(name, 4)?, port))),
        libc::AF_INET6 => Some(SocketAddr::from((array::<16>(name, 8)?, port))),
        _ => None,
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    fn now_ns() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        since.as_nanos() as u64
    }

    fn pair(at: &str) -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind(at).unwrap();
        prepare(&receiver).unwrap();
        let limit = Some(Duration::from_secs(60));
        receiver.set_read_timeout(limit).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        (receiver, sender)
    }

    // partner: Linux | host kernel
    #[test]
    fn the_kernel_says_when_and_to_which_address() {
        for at in ["0.0.0.0:0", "[::]:0"] {
            let (receiver, sender) = pair(at);
            let port = receiver.local_addr().unwrap().port();
            let began = std::time::Instant::now();
            // Linux stamps what arrives only from a moment after the first socket asked for it (a
            // deferred work); before that, the stamp is the time of the reception.
            loop {
                let before = now_ns();
                sender.send_to(b"one", ("127.0.0.2", port)).unwrap();
                let after = now_ns();
                // It is read later than it arrived.
                std::thread::sleep(Duration::from_millis(20));
                let mut data = [0; 2];
                let arrival = receive(&receiver, &mut data).unwrap();
                assert_eq!((arrival.len_bytes, &data), (3, b"on"));
                let to = arrival.to.unwrap();
                let four = Ipv4Addr::new(127, 0, 0, 2);
                assert!(to == four || to == four.to_ipv6_mapped(), "{to}");
                assert_eq!(arrival.from.port(), sender.local_addr().unwrap().port());
                assert_eq!(arrival.dropped, 0);
                let at_ns = arrival.arrival_ns.unwrap();
                let said = format!("{before} {at_ns} {after}");
                assert!(before <= at_ns, "{said}");
                if at_ns <= after {
                    break;
                }
                assert!(began.elapsed() < Duration::from_secs(60), "{said}");
            }
        }
    }

    #[test]
    fn the_kernel_says_behind_which_datagram_it_dropped_others() {
        let (receiver, sender) = pair("127.0.0.1:0");
        let to = receiver.local_addr().unwrap();
        let send = |number: u32| {
            let mut data = [0; 8_192];
            data[..4].copy_from_slice(&number.to_ne_bytes());
            sender.send_to(&data, to).unwrap();
        };
        let mut data = [0; 8_192];
        let (mut last, mut dropped) = (0, 0);
        let mut read = || {
            let arrival = receive(&receiver, &mut data).unwrap();
            let number = u32::from_ne_bytes(data[..4].try_into().unwrap());
            // Those that are missing were dropped before this one, and no others.
            assert_eq!(number - last, 1 + arrival.dropped - dropped);
            (last, dropped) = (number, arrival.dropped);
            last
        };
        // More than the buffer has room for: the last of them are dropped.
        (1..=2_000).for_each(send);
        assert_eq!(read(), 1);
        receiver.set_nonblocking(true).unwrap();
        let mut byte = [0];
        while receiver.peek_from(&mut byte).is_ok() {
            read();
        }
        send(2_001);
        assert_eq!(read(), 2_001);
        assert!(dropped > 0);
    }

    #[test]
    fn control_data_that_end_early_are_not_read_past_their_end() {
        let mut control = [0; 24];
        control[..8].copy_from_slice(&20_usize.to_ne_bytes());
        for len in 0..20 {
            assert_eq!(message(&control[..len]), None, "{len}");
        }
        let (_, data, rest) = message(&control).unwrap();
        assert_eq!((data.len(), rest.len()), (4, 0));
        control[..8].copy_from_slice(&15_usize.to_ne_bytes());
        assert_eq!(message(&control), None);
        control[..8].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(message(&control), None);
        assert_eq!((time_ns(&[0; 3]), address(&[0; 128])), (None, None));
    }
}
