//! Faults of the plan, tied to the server or to the proxies before it. Each undoes what it did and nothing else.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_load::fault::Fault;
use plimsoll_server::Server;
use plimsoll_server::fault::{Fault as Injection, Network};
use plimsoll_server::proxy::{Lasting, Proxy};
use plimsoll_server::service::Service;

use crate::system::Staged;

type Done = Result<(), Box<dyn StdError + Send + Sync>>;

/// A server of ours that the timeline of faults may kill and start again.
#[derive(Clone, Debug)]
pub struct Owned {
    server: Arc<Mutex<Server>>,
    hurt: Arc<Mutex<Hurt>>,
}

/// What lasts of what was done to the process of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hurt {
    /// Kills that keep it down.
    down: u32,
    /// Freezes.
    frozen: u32,
}

/// What has to be done to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Kill,
    Restart,
    Pause,
    Resume,
}

impl Hurt {
    /// A kill begins: a process that is down already stays so.
    fn kill(&mut self) -> &'static [Act] {
        self.down += 1;
        if self.down == 1 { &[Act::Kill] } else { &[] }
    }

    /// A kill ends: with the last one the server is started, and stopped where it is if a freeze still lasts.
    fn restart(&mut self) -> &'static [Act] {
        self.down = self.down.saturating_sub(1);
        match (self.down, self.frozen) {
            (0, 0) => &[Act::Restart],
            (0, _) => &[Act::Restart, Act::Pause],
            _ => &[],
        }
    }

    /// A freeze begins: one that is down is frozen when it is back.
    fn freeze(&mut self) -> &'static [Act] {
        self.frozen += 1;
        if self.down == 0 && self.frozen == 1 { &[Act::Pause] } else { &[] }
    }

    /// A freeze ends: with the last one the process goes on.
    fn thaw(&mut self) -> &'static [Act] {
        self.frozen = self.frozen.saturating_sub(1);
        if self.down == 0 && self.frozen == 0 { &[Act::Resume] } else { &[] }
    }
}

impl Owned {
    /// Shares a server with its faults.
    pub fn new(server: Server) -> Self {
        Self { server: Arc::new(Mutex::new(server)), hurt: Arc::default() }
    }

    /// The server.
    pub fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server for good, once nobody else has it.
    pub fn into_server(self) -> Option<Server> {
        let server = Arc::into_inner(self.server)?;
        Some(server.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn hurt(&self) -> MutexGuard<'_, Hurt> {
        self.hurt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a fault. One that could not be begun is not undone later, so it does not count.
    fn begin(&self, step: fn(&mut Hurt) -> &'static [Act]) -> Done {
        let mut hurt = self.hurt();
        let before = *hurt;
        let acts = step(&mut hurt);
        self.act(acts).inspect_err(|_| *hurt = before)
    }

    fn end(&self, step: fn(&mut Hurt) -> &'static [Act]) -> Done {
        let acts = step(&mut self.hurt());
        self.act(acts)
    }

    fn act(&self, acts: &[Act]) -> Done {
        let mut server = self.server();
        for act in acts {
            match act {
                Act::Kill => server.kill()?,
                Act::Restart => server.restart()?,
                Act::Pause => server.pause()?,
                Act::Resume => server.resume()?,
            }
        }
        Ok(())
    }
}

/// Ties a fault of the plan to what it is done to; nothing if there is no such thing here, which was refused before.
pub fn tie(injection: &Injection, server: Option<&Owned>, proxies: &[Arc<Proxy>]) -> Option<Box<dyn Fault>> {
    Some(match injection {
        Injection::Kill { .. } => Box::new(Kill(server?.clone())),
        Injection::Freeze { .. } => Box::new(Freeze(server?.clone())),
        Injection::Network { how, .. } => {
            Box::new(Disturbed { proxies: proxies.to_vec(), how: *how, lasting: Vec::new() })
        }
    })
}

/// Ties a fault of the plan to a service that we started.
pub fn tie_service(injection: &Injection, staged: &Staged) -> Option<Box<dyn Fault>> {
    Some(match injection {
        Injection::Kill { .. } => Box::new(KillService(staged.process.clone())),
        Injection::Freeze { .. } => Box::new(FreezeService(staged.process.clone())),
        Injection::Network { how, .. } => {
            Box::new(Disturbed { proxies: staged.proxies.clone(), how: *how, lasting: Vec::new() })
        }
    })
}

struct KillService(Arc<Mutex<Service>>);

impl Fault for KillService {
    fn begin(&mut self) -> Done {
        Ok(lock(&self.0).kill()?)
    }

    fn end(&mut self) -> Done {
        Ok(lock(&self.0).restart()?)
    }
}

struct FreezeService(Arc<Mutex<Service>>);

impl Fault for FreezeService {
    fn begin(&mut self) -> Done {
        Ok(lock(&self.0).pause()?)
    }

    fn end(&mut self) -> Done {
        Ok(lock(&self.0).resume()?)
    }
}

fn lock(service: &Mutex<Service>) -> MutexGuard<'_, Service> {
    service.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Kill(Owned);

impl Fault for Kill {
    fn begin(&mut self) -> Done {
        self.0.begin(Hurt::kill)
    }

    fn end(&mut self) -> Done {
        self.0.end(Hurt::restart)
    }
}

struct Freeze(Owned);

impl Fault for Freeze {
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
    /// Its own disturbance of each proxy, while it lasts.
    lasting: Vec<Lasting>,
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

    use plimsoll_measure::clock::{self, MILLISECOND_NS};
    use plimsoll_measure::duration::Span;
    use plimsoll_server::fault::Direction;

    use super::*;

    #[test]
    fn a_process_goes_on_when_the_last_fault_that_stopped_it_ends() {
        for (steps, expected) in [
            (
                vec![Hurt::freeze as fn(&mut Hurt) -> _, Hurt::freeze, Hurt::thaw, Hurt::thaw],
                vec![Act::Pause, Act::Resume],
            ),
            (vec![Hurt::kill, Hurt::kill, Hurt::restart, Hurt::restart], vec![Act::Kill, Act::Restart]),
            (
                vec![Hurt::freeze, Hurt::kill, Hurt::restart, Hurt::thaw],
                vec![Act::Pause, Act::Kill, Act::Restart, Act::Pause, Act::Resume],
            ),
            (
                vec![Hurt::freeze, Hurt::kill, Hurt::thaw, Hurt::restart],
                vec![Act::Pause, Act::Kill, Act::Restart],
            ),
            (vec![Hurt::kill, Hurt::freeze, Hurt::thaw, Hurt::restart], vec![Act::Kill, Act::Restart]),
        ] {
            let mut hurt = Hurt::default();
            let acts: Vec<Act> = steps.iter().flat_map(|step| step(&mut hurt).iter().copied()).collect();
            assert_eq!((acts, hurt), (expected, Hurt::default()));
        }
    }

    /// Two ends of a connection through a proxy, and two faults of its network.
    fn disturbed(hows: [Network; 2]) -> (TcpStream, TcpStream, [Box<dyn Fault>; 2]) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxies = [Arc::new(Proxy::start(listener.local_addr().unwrap(), 1).unwrap())];
        let client = TcpStream::connect(proxies[0].address()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let faults = hows.map(|how| {
            let injection = Injection::Network { lasts: Span::from_secs(1), how };
            tie(&injection, None, &proxies).unwrap()
        });
        (client, server, faults)
    }

    /// How long a byte takes, in milliseconds; nothing if it does not come within `patience`.
    fn trip_ms(client: &mut TcpStream, server: &mut TcpStream, patience: Duration) -> Option<u64> {
        server.set_read_timeout(Some(patience)).unwrap();
        let sent = clock::now();
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).ok()?;
        Some(clock::now().since(sent) / MILLISECOND_NS)
    }

    #[test]
    fn the_end_of_one_fault_of_the_network_leaves_the_other_in_force() {
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
    fn what_stalls_goes_on_stalling_when_a_delay_ends() {
        let by = Span::from_ns(MILLISECOND_NS);
        let delay = Network::Delay { by, jitter: Span::default(), direction: Direction::Both };
        let (mut client, mut server, [mut stall, mut delay]) = disturbed([Network::Stall, delay]);
        stall.begin().unwrap();
        delay.begin().unwrap();
        delay.end().unwrap();
        assert_eq!(trip_ms(&mut client, &mut server, Duration::from_millis(300)), None);
        stall.end().unwrap();
        assert!(trip_ms(&mut client, &mut server, Duration::from_secs(20)).is_some());
    }
}
