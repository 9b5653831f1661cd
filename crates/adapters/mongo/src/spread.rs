//! Spreads one load over several independent servers in turn.
//!
//! The operation's number in the plan selects the server, so that each server gets an equal share, even a
//! slow one. An unreachable server is skipped until a reconnect probe reaches it, without delaying the load.
//! Operations in flight to it have an unknown outcome.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use plimsoll_deployment::Deployment;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::clock;
use plimsoll_measure::first_error::OperationError;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_measure::run::ServerShare;

use crate::lean::{self, Lean};
use crate::operation_builder::OperationBuilder;
use crate::setup::Setup;
use crate::worker_ledger::{Closed, WorkerLedger};

mod reconnect_probe;

use reconnect_probe::{ReconnectProbe, RetryGate};

/// One worker's view of several servers, over our own client.
#[derive(Debug)]
pub struct Spread {
    builder: Arc<OperationBuilder>,
    hosts: Vec<Host>,
}

/// One of the servers.
#[derive(Debug)]
struct Host {
    address: String,
    target: Lean,
    gate: RetryGate,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    operations: AtomicU64,
    documents: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    /// The reason of the last failed attempt to reach the server; `None` before the first failure.
    unavailable: Mutex<Option<String>>,
}

/// A connection to each reachable server.
#[derive(Debug)]
pub struct Lane {
    links: Vec<Link>,
    current: usize,
    /// Whether no server is reachable.
    lost: bool,
}

#[derive(Debug, Default)]
struct Link {
    lane: Option<lean::Lane>,
    /// The attempt to reach a server that is down, while it runs.
    probe: Option<ReconnectProbe>,
}

impl Spread {
    /// Creates a target for one worker over all of `deployments`.
    pub fn new(setup: Arc<Setup>, deployments: &[Arc<Deployment>], ledger: WorkerLedger) -> Self {
        let builder = Arc::new(OperationBuilder::new(setup, ledger));
        let host = |deployment: &Arc<Deployment>| Host {
            address: deployment.addresses().first().map(ToString::to_string).unwrap_or_default(),
            target: Lean::sharing(builder.clone(), deployment.clone()),
            gate: RetryGate::default(),
            counts: Counts::default(),
        };
        Self { hosts: deployments.iter().map(host).collect(), builder }
    }

    /// This worker's operation builder.
    pub fn builder(&self) -> &OperationBuilder {
        &self.builder
    }

    /// Each server's share of the load so far.
    pub fn shares(&self) -> Vec<ServerShare> {
        self.hosts.iter().map(Host::share).collect()
    }

    /// Ends the target and returns its ledger.
    pub fn close(self) -> Option<Closed> {
        drop(self.hosts);
        Arc::into_inner(self.builder).map(OperationBuilder::close)
    }

    /// The operation's server, or the next reachable server; `None` if no server is reachable.
    fn turn(&self, lane: &Lane, number: u64) -> Option<usize> {
        let count = self.hosts.len();
        let first = (number % count as u64) as usize;
        let found =
            (0..count).map(|step| (first + step) % count).find(|host| lane.links[*host].lane.is_some());
        if found != Some(first) {
            self.hosts[first].counts.skipped.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// Adopts recovered connections, and probes servers that are down. Never waits.
    fn tend(&self, lane: &mut Lane) {
        for (host, link) in self.hosts.iter().zip(&mut lane.links) {
            if link.lane.is_none() {
                host.tend(link);
            }
        }
    }
}

impl Lane {
    fn is_lost(&self) -> bool {
        self.links.iter().all(|link| link.lane.is_none())
    }
}

impl Host {
    fn share(&self) -> ServerShare {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ServerShare {
            address: self.address.clone(),
            operations: load(&self.counts.operations),
            documents: load(&self.counts.documents),
            failed: load(&self.counts.failed),
            skipped: load(&self.counts.skipped),
            unavailable: self.counts.unavailable.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn count(&self, reply: &Reply) {
        let counts = &self.counts;
        counts.operations.fetch_add(1, Ordering::Relaxed);
        counts.documents.fetch_add(reply.documents, Ordering::Relaxed);
        counts.failed.fetch_add(u64::from(reply.failed.total() > 0), Ordering::Relaxed);
    }

    /// Adopts a recovered connection, or starts a probe when one is due.
    fn tend(&self, link: &mut Link) {
        match link.probe.as_mut().map(ReconnectProbe::answer) {
            Some(Poll::Pending) => {}
            Some(Poll::Ready(answer)) => {
                link.probe = None;
                link.lane = answer.and_then(|connection| self.target.furnish(connection).ok());
                match link.lane {
                    Some(_) => self.gate.reached(),
                    None => self.gate.failed(clock::now()),
                }
            }
            None if self.gate.may_try(clock::now()) => {
                link.probe = Some(ReconnectProbe::at(self.target.deployment().clone()));
            }
            None => {}
        }
    }

    /// Connects and waits for the result.
    ///
    /// # Errors
    /// The reason why the server is unreachable, which is also noted.
    async fn open(&self) -> Result<Link, Box<dyn Error + Send + Sync>> {
        match self.target.open().await {
            Ok(lane) => {
                self.gate.reached();
                Ok(Link { lane: Some(lane), probe: None })
            }
            Err(error) => {
                self.mark_unavailable(error.to_string());
                Err(error)
            }
        }
    }

    /// Drops a lost connection. Operations sent over it are not sent again.
    fn lose(&self, link: &mut Link) {
        self.mark_unavailable("the connection was lost".to_owned());
        if let Some(lane) = &mut link.lane {
            self.target.release(lane);
        }
        link.lane = None;
    }

    fn mark_unavailable(&self, reason: String) {
        self.gate.failed(clock::now());
        *self.counts.unavailable.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

impl Target for Spread {
    type Lane = Lane;

    fn begin(&self, documents: Option<u64>) {
        self.builder.begin(documents);
    }

    /// Connects to every reachable server; one is enough once the load runs. Waits for a server that is down
    /// only if no other is up.
    async fn open(&self) -> Result<Lane, Box<dyn Error + Send + Sync>> {
        let links = self.hosts.iter().map(|_| Link::default()).collect();
        let mut lane = Lane { links, current: 0, lost: false };
        let mut failure = None;
        let (down, up): (Vec<_>, Vec<_>) =
            (0..self.hosts.len()).partition(|host| self.hosts[*host].gate.is_down());
        for hosts in [up, down] {
            if !lane.is_lost() {
                break;
            }
            for host in hosts {
                match self.hosts[host].open().await {
                    Ok(link) => lane.links[host] = link,
                    Err(error) => failure = Some(error),
                }
            }
        }
        match failure {
            Some(error) if lane.is_lost() => Err(error),
            _ => Ok(lane),
        }
    }

    fn prepare(&self, lane: &mut Lane, operation: usize, number: u64) -> Prepared {
        self.tend(lane);
        // Without a reachable server no operation is prepared, and the send reports that.
        let Some(host) = self.turn(lane, number) else { return Prepared::Ready };
        lane.current = host;
        let Some(link) = &mut lane.links[host].lane else { return Prepared::Ready };
        self.hosts[host].target.prepare(link, operation, number)
    }

    async fn send(&self, lane: &mut Lane) -> Reply {
        let host = &self.hosts[lane.current];
        let Some(link) = &mut lane.links[lane.current].lane else {
            lane.lost = lane.is_lost();
            return Reply::failed(Outcome::Rejected(Rejection::NotTried), 1);
        };
        let reply = host.target.send(link).await;
        host.count(&reply);
        if host.target.is_broken(link) {
            host.lose(&mut lane.links[lane.current]);
        }
        lane.lost = lane.is_lost();
        reply
    }

    fn discard(&self, lane: &mut Lane) {
        if let Some(link) = &mut lane.links[lane.current].lane {
            self.hosts[lane.current].target.discard(link);
        }
    }

    fn tick(&self) {
        self.builder.ledger().flush();
    }

    fn first_errors(&self) -> Vec<OperationError> {
        self.builder.first_errors.take()
    }

    fn is_broken(&self, lane: &Lane) -> bool {
        lane.lost
    }

    async fn settle(&self, lane: &mut Lane) {
        for (host, link) in self.hosts.iter().zip(&mut lane.links) {
            if let Some(link) = &mut link.lane {
                host.target.settle(link).await;
            }
        }
    }
}
