//! Finds the process that listens on a port of this machine.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Finds the process that listens on a port of a loopback address, or on all addresses.
///
/// `None` when `address` is not a loopback address, no process listens, or this user may not read the
/// listener's open files.
pub fn listener(address: IpAddr, port: u16) -> Option<u32> {
    if !address.is_loopback() {
        return None;
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let inode = tables.iter().find_map(|table| inode(&fs::read_to_string(table).ok()?, port))?;
    owner(Path::new("/proc"), &format!("socket:[{inode}]"))
}

/// The inode of the socket that listens on `port`, in a table of `/proc/net`: `sl local rem st … inode`, with
/// the local address as `HEX:PORT` in hexadecimal.
fn inode(table: &str, port: u16) -> Option<u64> {
    let port = format!("{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (_, local) = fields.next()?.rsplit_once(':')?;
        let state = fields.nth(1)?;
        let inode = fields.nth(5)?;
        (local == port && state == LISTEN).then(|| inode.parse().ok()).flatten()
    })
}

fn owner(proc: &Path, socket: &str) -> Option<u32> {
    fs::read_dir(proc).ok()?.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        holds(&entry.path().join("fd"), socket).then_some(pid)
    })
}

fn holds(descriptors: &Path, socket: &str) -> bool {
    let Ok(entries) = fs::read_dir(descriptors) else { return false };
    entries
        .flatten()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
         0: 0100007F:A09D 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 5550 1 0 100 0\n\
         1: 0100007F:A09E 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 5551 1 0 100 0\n";

    #[test]
    fn only_a_listening_socket_of_the_port_counts() {
        assert_eq!(inode(TABLE, 0xA09D), Some(5550));
        assert_eq!(inode(TABLE, 0xA09E), None);
        assert_eq!(inode("", 1), None);
    }

    #[test]
    fn this_process_is_found_by_the_port_it_listens_on() {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        assert_eq!(listener(address.ip(), address.port()), Some(std::process::id()));
        drop(socket);
        assert_eq!(listener(address.ip(), address.port()), None);
    }

    #[test]
    fn a_server_elsewhere_has_no_local_process() {
        assert_eq!(listener(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 27017), None);
    }
}
