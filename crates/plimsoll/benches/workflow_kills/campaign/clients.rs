//! Starts instances and sends them signals over HTTP, from several threads, and records the acknowledged
//! requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{anyhow, ensure};

use super::http::Http;
use super::ledger::{Entry, Ledger};

/// The definition of the instances: each counts its signals, rests, and ends after the last signal.
pub const DEFINITION: &str = "
name: parcel
steps:
- service: {name: accept, function: log}
- repeat:
    name: stations
    while: '((.seen // []) | length) < 4'
    steps:
    - wait: {name: scan, signal: scan, result: scan}
    - set: {value: '. + {seen: ((.seen // []) + [.scan])}'}
- timer: {name: rest, after: 50ms}
- service: {name: deliver, function: log}
";
/// The name of the definition.
const NAME: &str = "parcel";
/// The number of signals until an instance ends.
pub const SIGNALS: u64 = 4;
/// The number of signals of an instance that stays open.
const SIGNALS_OPEN: u64 = 2;
/// One instance in this many stays open.
const OPEN_EVERY: u64 = 5;
/// One acknowledged request in this many is sent again.
const AGAIN_EVERY: u64 = 4;
/// The number of client threads of a round.
pub const CLIENTS: usize = 4;

/// Clients at work.
pub struct Clients {
    stop: Arc<AtomicBool>,
    ledger: Arc<Ledger>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Clients {
    /// Starts this number of client threads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(clients: usize, services: &[SocketAddr], ledger: Ledger) -> anyhow::Result<Self> {
        let (stop, ledger) = (Arc::new(AtomicBool::new(false)), Arc::new(ledger));
        let start = |client: usize| {
            let (stop, ledger, http) = (stop.clone(), ledger.clone(), Http::of(services, client));
            thread::Builder::new().name("client".into()).spawn(move || work(client, http, &ledger, &stop))
        };
        let threads = (0..clients).map(start).collect::<Result<_, _>>()?;
        Ok(Self { stop, ledger, threads })
    }

    /// The number of acknowledged requests so far.
    ///
    /// # Errors
    /// A client has given up.
    pub fn acknowledged(&self) -> anyhow::Result<u64> {
        let is_well = self.threads.iter().all(|thread| !thread.is_finished());
        ensure!(is_well, "a client has given up: the error at the round's end names the reason");
        Ok(self.ledger.len())
    }

    /// Lets each client complete its instance, and waits for that.
    ///
    /// # Errors
    /// A request was never acknowledged.
    pub fn finish(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let join = |thread: JoinHandle<_>| thread.join().map_err(|_| anyhow!("a client panicked"))?;
        self.threads.into_iter().try_for_each(join)
    }
}

fn work(client: usize, mut http: Http, ledger: &Ledger, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        lead(&mut http, ledger, &format!("p-{client}-{number}"), number)?;
        number += 1;
    }
    Ok(())
}

/// Starts one instance and sends its signals.
fn lead(http: &mut Http, ledger: &Ledger, instance: &str, number: u64) -> anyhow::Result<()> {
    let start = format!("{{\"definition\": \"{NAME}\"}}");
    let path = format!("/api/instances/{instance}");
    send(http, &path, &start, number.is_multiple_of(AGAIN_EVERY))?;
    ledger.add(&Entry { instance: instance.to_owned(), signal: None })?;
    let is_open = number % OPEN_EVERY == OPEN_EVERY - 1;
    for signal in 0..if is_open { SIGNALS_OPEN } else { SIGNALS } {
        let body = format!("{{\"name\": \"scan\", \"body\": {signal}}}");
        let path = format!("/api/instances/{instance}/signals/s-{signal}");
        send(http, &path, &body, (number + signal).is_multiple_of(AGAIN_EVERY))?;
        ledger.add(&Entry { instance: instance.to_owned(), signal: Some(signal) })?;
    }
    Ok(())
}

fn send(http: &mut Http, path: &str, body: &str, is_again: bool) -> anyhow::Result<()> {
    http.put(path, body)?;
    if is_again { http.put(path, body) } else { Ok(()) }
}
