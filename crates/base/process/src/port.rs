//! Finds free ports of the loopback address for children that cannot choose one themselves.

use std::net::{Ipv4Addr, TcpListener};

use crate::error::Error;

/// Finds distinct free ports. Another program may take one before it is used: retry then.
///
/// # Errors
/// [`Error::Port`]: this machine has no port left.
pub fn free<const N: usize>() -> Result<[u16; N], Error> {
    let mut ports = [0; N];
    // All ports are open at once, so that they differ.
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::Port)?;
        *port = listener.local_addr().map_err(Error::Port)?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_differ_and_can_be_listened_on() {
        let ports = free::<20>().unwrap();
        assert_eq!(BTreeSet::from(ports).len(), 20);
        // Another program may have just taken some ports, but hardly all.
        assert!(ports.iter().any(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()));
    }
}
