//! Commits waiting readings and answers their callers. [`GroupCommit`] decides when.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Fault;
use super::counters::{Counting, add};
use super::group_commit::{GroupCommit, Step};
use super::newest::Newest;
use super::queue::{Places, Queue};
use super::store::Store;
use super::stored::Stored;
use super::stored::Written;
use crate::reading::Reading;
use plimsoll_service::Clock;

/// Readings of one caller, which may have been cancelled.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) readings: Vec<Reading>,
    pub(crate) accepted_ns: u64,
    pub(crate) answer: oneshot::Sender<Result<Vec<Written>, Fault>>,
    /// The places in the queue, released when the caller has its answer.
    pub(crate) room: Places,
}

/// The state that all committers share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) queue: Queue,
    pub(crate) counting: Counting,
    pub(crate) newest: Newest,
    pub(crate) clock: Clock,
    pub(crate) committers: usize,
    pub(crate) commit_time_max: Duration,
}

/// Commits until the job channel is closed.
pub(crate) async fn run(shared: Arc<Shared>, mut jobs: UnboundedReceiver<Job>, mut gather: GroupCommit) {
    let mut waiting = Vec::new();
    loop {
        let next = match gather.step(shared.clock.now_ns()) {
            Step::Idle => match jobs.recv().await {
                Some(job) => Some(job),
                None => return,
            },
            Step::Within(ns) => match timeout(Duration::from_nanos(ns), jobs.recv()).await {
                Ok(None) => {
                    gather.end();
                    None
                }
                Ok(job) => job,
                Err(_) => None,
            },
            Step::Commit => {
                gather.committed();
                shared.commit(std::mem::take(&mut waiting)).await;
                None
            }
        };
        let mut next = next.or_else(|| jobs.try_recv().ok());
        while let Some(job) = next {
            gather.arrive(job.readings.len(), job.accepted_ns);
            waiting.push(job);
            next = if gather.is_full() { None } else { jobs.try_recv().ok() };
        }
    }
}

impl Shared {
    async fn commit(&self, jobs: Vec<Job>) {
        let mut readings = Vec::with_capacity(jobs.iter().map(|job| job.readings.len()).sum());
        let mut callers = Vec::with_capacity(jobs.len());
        for job in jobs {
            callers.push((job.readings.len(), job.answer, job.room));
            readings.extend(job.readings);
        }
        let result = self.write(&readings).await;
        let mut written = result.as_ref().map(|written| written.iter().cloned());
        for (count, answer, room) in callers {
            let answered = match &mut written {
                Ok(written) => Ok(written.by_ref().take(count).collect()),
                Err(fault) => Err(fault.clone()),
            };
            // A cancelled caller needs no answer. Its readings are stored.
            let _ = answer.send(answered);
            drop(room);
        }
    }

    async fn write(&self, readings: &[Reading]) -> Result<Vec<Written>, Fault> {
        let start_ns = self.clock.now_ns();
        let result = match timeout(self.commit_time_max, self.store.write(readings)).await {
            Err(_) => Err(Fault::new(format!("no answer within {} ms", self.commit_time_max.as_millis()))),
            Ok(Ok(written)) if written.len() != readings.len() => {
                Err(Fault::new("not every reading was answered"))
            }
            Ok(result) => result,
        };
        let took_ns = self.clock.now_ns() - start_ns;
        self.queue.learn(readings.len(), took_ns, self.committers);
        self.count(readings, &result, took_ns);
        result
    }

    fn count(&self, readings: &[Reading], result: &Result<Vec<Written>, Fault>, took_ns: u64) {
        self.counting.commit_readings.record(readings.len() as u64);
        self.counting.store_us.record(took_ns / 1000);
        let Ok(written) = result else { return add(&self.counting.failed, readings.len()) };
        let new = written.iter().filter(|written| **written == Ok(Stored::New)).count();
        let known = written.iter().filter(|written| written.is_ok()).count() - new;
        add(&self.counting.new, new);
        add(&self.counting.known, known);
        add(&self.counting.failed, readings.len() - new - known);
        let stored = readings.iter().zip(written).filter(|(_, written)| written.is_ok());
        self.newest.note(stored.map(|(reading, _)| (reading.sensor.as_str(), reading.at_ms)));
    }
}
