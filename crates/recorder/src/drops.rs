// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams that the kernel dropped because its buffer was full: the last column of
//! `/proc/net/udp`, in the line with the socket's inode.

use std::net::UdpSocket;

/// Number of datagrams that the kernel has dropped for `socket`; `None` if it does not report them.
pub fn of(socket: &UdpSocket) -> Option<u64> {
    let inode = rustix::fs::fstat(socket).ok()?.st_ino;
    ["/proc/net/udp", "/proc/net/udp6"]
        .into_iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .find_map(|table| dropped(&table, inode))
}

fn dropped(table: &str, inode: u64) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let own = fields.get(9)?.parse::<u64>().ok()? == inode;
        own.then(|| fields.last()?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_of_the_socket_s_line() {
        let table = "  sl  local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid \
                     timeout inode ref pointer drops\n\
                     1: 00000000:1B58 00000000:0000 07 00000000:00000000 00:00000000 00000000 \
                     0 0 4321 2 0000000000000000 17\n";
        assert_eq!(dropped(table, 4321), Some(17));
        assert_eq!(dropped(table, 1), None);
    }

    #[test]
    fn a_socket_that_is_not_read_drops() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(of(&socket), Some(0));
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        for _ in 0..2_000 {
            sender.send_to(&[0; 8_192], address).unwrap();
        }
        assert!(of(&socket).unwrap() > 0);
    }
}
