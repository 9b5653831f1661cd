//! Connects the faults of a plan to the server or to its proxies. Each fault undoes only its own effect.

use std::sync::Arc;

use plimsoll_host::fault::{Fault as Injection, Network};
use plimsoll_host::proxy::{DisturbanceHandle, Proxy};
use plimsoll_load::fault::Fault;

use owned::Hurt;
pub use owned::{Done, Owned, Process};

mod owned;

/// Connects a fault of the plan to a process that Plimsoll started, or to the proxies in front of it. `None` if the target does not exist; an
/// earlier check refuses such plans.
pub fn tie<P: Process>(
    injection: &Injection,
    process: Option<&Owned<P>>,
    proxies: &[Arc<Proxy>],
) -> Option<Box<dyn Fault>> {
    Some(match injection {
        Injection::Kill { .. } => Box::new(Kill(process?.clone())),
        Injection::PowerLoss { .. } => Box::new(PowerLoss(process?.clone())),
        Injection::Freeze { .. } => Box::new(Freeze(process?.clone())),
        Injection::Network { how, .. } => {
            Box::new(Disturbed { proxies: proxies.to_vec(), how: *how, lasting: Vec::new() })
        }
    })
}

struct Kill<P>(Owned<P>);

impl<P: Process> Fault for Kill<P> {
    fn begin(&mut self) -> Done {
        self.0.begin(Hurt::kill)
    }

    fn end(&mut self) -> Done {
        self.0.end(Hurt::restart)
    }
}

struct PowerLoss<P>(Owned<P>);

impl<P: Process> Fault for PowerLoss<P> {
    fn begin(&mut self) -> Done {
        self.0.begin(Hurt::lose_power)
    }

    fn end(&mut self) -> Done {
        self.0.end(Hurt::restart)
    }
}

struct Freeze<P>(Owned<P>);

impl<P: Process> Fault for Freeze<P> {
    fn begin(&mut self) -> Done {
        self.0.begin(Hurt::freeze)
    }

    fn end(&mut self) -> Done {
        self.0.end(Hurt::thaw)
    }
}

struct Disturbed {
    proxies: Vec<Arc<Proxy>>,
    how: Network,
    /// The disturbance that this fault caused at each proxy, while it lasts.
    lasting: Vec<DisturbanceHandle>,
}

impl Fault for Disturbed {
    fn begin(&mut self) -> Done {
        for proxy in &self.proxies {
            match proxy.begin(self.how.disturbance()) {
                Ok(lasting) => self.lasting.push(lasting),
                Err(error) => {
                    self.end()?;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Done {
        self.proxies.iter().zip(self.lasting.drain(..)).for_each(|(proxy, lasting)| proxy.end(lasting));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use plimsoll_host::fault::Direction;
    use plimsoll_measure::clock::{self, MILLISECOND_NS};
    use plimsoll_measure::duration::Span;

    use super::*;

    /// Both ends of a connection through a proxy, and two network faults.
    fn disturbed(hows: [Network; 2]) -> (TcpStream, TcpStream, [Box<dyn Fault>; 2]) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxies = [Arc::new(Proxy::start(listener.local_addr().unwrap(), 1).unwrap())];
        let client = TcpStream::connect(proxies[0].address()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let faults = hows.map(|how| {
            let injection = Injection::Network { lasts: Span::from_secs(1), how };
            tie(&injection, None::<&Owned>, &proxies).unwrap()
        });
        (client, server, faults)
    }

    /// The travel time of a byte in milliseconds. `None` if the byte does not arrive within `patience`.
    fn trip_ms(client: &mut TcpStream, server: &mut TcpStream, patience: Duration) -> Option<u64> {
        server.set_read_timeout(Some(patience)).unwrap();
        let sent = clock::now();
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).ok()?;
        Some(clock::now().since(sent) / MILLISECOND_NS)
    }

    #[test]
    fn the_end_of_one_network_fault_leaves_the_other_in_force() {
        let delay = |ms| Network::Delay {
            by: Span::from_ns(ms * MILLISECOND_NS),
            jitter: Span::default(),
            direction: Direction::Both,
        };
        let (mut client, mut server, [mut short, mut long]) = disturbed([delay(40), delay(150)]);
        let patience = Duration::from_secs(20);
        let mut check = |at_least: u64| {
            let took_ms = trip_ms(&mut client, &mut server, patience).unwrap();
            assert!(took_ms >= at_least, "{took_ms} ms of {at_least} ms");
        };
        long.begin().unwrap();
        short.begin().unwrap();
        check(190);
        short.end().unwrap();
        check(150);
        short.begin().unwrap();
        long.end().unwrap();
        check(40);
    }

    #[test]
    fn a_stall_continues_when_a_delay_ends() {
        let by = Span::from_ns(MILLISECOND_NS);
        let delay = Network::Delay { by, jitter: Span::default(), direction: Direction::Both };
        let (mut client, mut server, [mut stall, mut delay]) = disturbed([Network::Stall, delay]);
        stall.begin().unwrap();
        delay.begin().unwrap();
        delay.end().unwrap();
        // A connection that the proxy is serving at this moment obeys within milliseconds: first bytes may pass.
        let stalled =
            (0..20).any(|_| trip_ms(&mut client, &mut server, Duration::from_millis(300)).is_none());
        assert!(stalled, "the stall ended with the delay");
        stall.end().unwrap();
        assert!(trip_ms(&mut client, &mut server, Duration::from_secs(20)).is_some());
    }
}
