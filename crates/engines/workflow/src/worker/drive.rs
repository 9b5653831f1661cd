//! Drives a core on real ports: does its jobs at the same time, and tells it their results.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::core::Core;
use super::job::{Happened, Hint, Job};
use super::mailbox::Mailbox;
use super::perform::perform;
use super::registry::Registry;
use super::settings::Settings;
use super::watch::Watchers;
use crate::port::{Clock, LeaseRequest, Services, Store};

/// The parts of a worker.
pub struct Worker<S, V, C> {
    /// The store.
    pub store: Arc<S>,
    /// The services.
    pub services: Arc<V>,
    /// The clock.
    pub clock: Arc<C>,
    /// Compiled definitions.
    pub registry: Arc<Registry>,
    /// Limits and times.
    pub settings: Settings,
    /// Hints from clients and from other processes.
    pub mailbox: Mailbox,
    /// Signals, starts and calls that wait in memory, for clients that must slow down.
    pub backlog: Arc<AtomicUsize>,
    /// Clients that wait for an end.
    pub watchers: Watchers,
}

/// Results, and hints, of one turn at most.
const TURN_MAX: usize = 256;

type Running = FuturesUnordered<Pin<Box<dyn Future<Output = Happened> + Send>>>;

/// Runs a worker until its mailbox is closed, and then gives its partitions back.
pub async fn drive<S: Store, V: Services, C: Clock>(worker: Worker<S, V, C>) {
    let _deathbed = Deathbed(&worker.mailbox);
    let store = &worker.store;
    let mut core = Core::new(worker.settings.clone(), worker.registry.clone(), store.partitions());
    let mut running = Running::new();
    worker.begin(vec![Job::Definitions(0)], &mut running);
    worker.listen(&mut running);
    let mut held = Vec::new();
    let mut happened = running.next().await.map(|first| vec![first]);
    while let Some(news) = happened {
        if news.iter().any(|news| matches!(news, Happened::Hint(Hint::Partitions(_)))) {
            worker.listen(&mut running);
        }
        let jobs = core.turn(news, worker.clock.now_ms());
        worker.begin(jobs, &mut running);
        let now_held = core.partitions();
        if now_held != held {
            worker.mailbox.hold(&now_held);
            held = now_held;
        }
        worker.backlog.store(core.backlog() + worker.mailbox.weight(), Ordering::Relaxed);
        happened = worker.next(&core, &mut running).await;
    }
    worker.mailbox.hold(&[]);
    let release = core.partitions();
    let request = LeaseRequest { owner: worker.settings.owner.clone(), ttl_ms: 1, want: 0, release };
    // Without an answer the leases end by themselves.
    drop(store.lease(&request).await);
}

/// Notes a panic of the worker, so that clients of this process stop accepting work for it.
struct Deathbed<'a>(&'a Mailbox);

impl Drop for Deathbed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.bury();
        }
    }
}

impl<S: Store, V: Services, C: Clock> Worker<S, V, C> {
    fn begin(&self, jobs: Vec<Job>, running: &mut Running) {
        let now_ms = self.clock.now_ms();
        for job in jobs {
            if let Job::Tell(change) = job {
                self.watchers.tell(&change);
                continue;
            }
            let (store, services, registry) =
                (self.store.clone(), self.services.clone(), self.registry.clone());
            running.push(Box::pin(async move { perform(&*store, &*services, &registry, job, now_ms).await }));
        }
    }

    /// Waits for news of other processes. They come as a hint.
    fn listen(&self, running: &mut Running) {
        if self.settings.listens {
            let store = self.store.clone();
            running.push(Box::pin(async move { Happened::Hint(Hint::Partitions(store.news().await)) }));
        }
    }

    /// The next results and hints, or a tick; none once the mailbox is closed. Neither a flood of results nor one of hints delays the other.
    async fn next(&self, core: &Core, running: &mut Running) -> Option<Vec<Happened>> {
        let at_ms = core.wake_soon_ms(self.clock.now_ms());
        let mut alarm = std::pin::pin!(self.clock.until(at_ms));
        poll_fn(|context| {
            let mut news = Vec::new();
            while let Poll::Ready(Some(happened)) = running.poll_next_unpin(context) {
                news.push(happened);
                if news.len() >= TURN_MAX {
                    break;
                }
            }
            let Some(hints) = self.mailbox.poll(context, TURN_MAX) else { return Poll::Ready(None) };
            news.extend(hints.into_iter().map(Happened::Hint));
            if !news.is_empty() {
                return Poll::Ready(Some(news));
            }
            alarm.as_mut().poll(context).map(|()| Some(vec![Happened::Tick]))
        })
        .await
    }
}
