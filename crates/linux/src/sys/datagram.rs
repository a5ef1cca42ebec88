// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls behind `datagram`.
#![allow(unsafe_code)]

use std::io::{Error, Result};
use std::mem::{size_of, size_of_val, zeroed};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Options of a socket, by level and name.
pub const TIMES: (i32, i32) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
pub const DROPS: (i32, i32) = (libc::SOL_SOCKET, libc::SO_RXQ_OVFL);
pub const TO_V4: (i32, i32) = (libc::IPPROTO_IP, libc::IP_PKTINFO);
pub const TO_V6: (i32, i32) = (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO);
/// What control data are about, if it is not what the option is called.
pub const TO_V6_DATA: (i32, i32) = (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);

/// Room for the control data of these options, aligned as their headers must be.
#[repr(C, align(8))]
pub struct Control(pub [u8; 256]);

/// A sender's address, as the kernel has it.
#[repr(C, align(8))]
pub struct Name(pub [u8; 128]);

/// What was received: lengths in bytes.
pub struct Lengths {
    /// The datagram, also if `data` was shorter.
    pub datagram: usize,
    pub control: usize,
}

/// Switches an option on.
pub fn switch_on(socket: &UdpSocket, (level, name): (i32, i32)) -> Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: `on` is valid for the length that is given, and only read.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// recvmsg(2). Waits as long as the socket's time limit says.
pub fn receive(
    socket: &UdpSocket,
    data: &mut [u8],
    name: &mut Name,
    control: &mut Control,
) -> Result<Lengths> {
    let mut vector = libc::iovec {
        iov_base: data.as_mut_ptr().cast(),
        iov_len: data.len(),
    };
    // SAFETY: all zeroes are a valid header, with neither memory nor flags.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = name.0.as_mut_ptr().cast();
    header.msg_namelen = size_of_val(&name.0) as libc::socklen_t;
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control.0) as _;
    // SAFETY: the header names memory that is valid for the lengths beside it, exclusively, until
    // the call has returned.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_TRUNC) };
    match usize::try_from(len) {
        Ok(datagram) => Ok(Lengths {
            datagram,
            #[allow(clippy::unnecessary_cast)]
            control: (header.msg_controllen as usize).min(size_of_val(&control.0)),
        }),
        Err(_) => Err(Error::last_os_error()),
    }
}
