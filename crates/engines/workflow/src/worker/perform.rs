//! Does one job on the ports.

use std::collections::BTreeSet;
use std::mem::take;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use serde_json::Value;

use super::job::{Happened, Job, Tag};
use super::registry::Registry;
use crate::batch::each;
use crate::instance::{Body, Effect, Ended, Signal, StartRequest, Status, Work};
use crate::port::{Commit, Inserted, Record, Services, SignalKey, Store, Stored};
use crate::step::{Again, Answer, CallError, start};

/// Does a job and tells its result. `now_ms` is the moment of its start.
pub async fn perform<S: Store, V: Services>(
    store: &S,
    services: &V,
    registry: &Registry,
    job: Job,
    now_ms: u64,
) -> Happened {
    match job {
        Job::Lease(request) => Happened::Leased { asked_ms: now_ms, result: store.lease(&request).await },
        Job::Holders => store.holders().await.map_or(Happened::Tick, Happened::Held),
        Job::Scan { partitions, until_ms, limit } => {
            Happened::Scanned { limit, result: store.due(&partitions, until_ms, limit).await }
        }
        Job::Load(tags) => {
            let ids: Vec<_> = tags.iter().map(|tag| tag.instance.clone()).collect();
            Happened::Loaded { result: store.load(&ids).await, tags }
        }
        Job::Definitions(question) => Happened::Defined { question, result: store.definitions().await },
        Job::Commit(commits) => commit(store, commits).await,
        Job::Remove(keys) => Happened::Settled { result: store.remove(&keys).await, keys },
        Job::Postpone(signals) => {
            let keys = signals.iter().map(|signal| signal.key.clone()).collect();
            Happened::Settled { keys, result: store.postpone(&signals).await }
        }
        Job::Bury(letters) => {
            let keys = letters.iter().map(|letter| SignalKey::of(&letter.signal)).collect();
            Happened::Settled { keys, result: store.bury(&letters).await }
        }
        Job::Drain(batches) => drain(store, registry, batches, now_ms).await,
        Job::Call(call) => {
            let caught = AssertUnwindSafe(services.call(&call)).catch_unwind().await;
            let message = || "the function panicked: read the process's messages".to_owned();
            let result =
                caught.unwrap_or_else(|_| Err(CallError { message: message(), again: Again::Maybe }));
            let answer = Answer { visit: call.visit, attempt: call.attempt, result };
            Happened::Called { instance: call.instance, key: call.key, answer }
        }
        Job::Forget { partitions, before_ms } => {
            // The next removal deletes what a failed one has left.
            drop(store.forget(&partitions, before_ms).await);
            Happened::Tick
        }
        Job::Announce(partitions) => {
            store.announce(&partitions);
            Happened::Tick
        }
        Job::Tell(_) => Happened::Tick,
    }
}

/// Changes instances. The store may refuse one of them.
async fn commit<S: Store>(store: &S, commits: Vec<(Tag, Commit)>) -> Happened {
    let (tags, commits): (Vec<_>, Vec<_>) = commits.into_iter().unzip();
    let work = |commits: Arc<[Commit]>| async move { store.commit(&commits).await };
    let results = each(commits.into(), work).await;
    Happened::Committed { results: tags.into_iter().zip(results).collect() }
}

/// The effects of several instances, by kind.
#[derive(Default)]
struct Effects {
    records: Vec<Record>,
    signals: Vec<Signal>,
    tasks: Vec<crate::instance::TaskRow>,
    letters: Vec<crate::instance::DeadLetter>,
}

/// Does the effects of each instance, apart from starts that are impossible now. The store may refuse those of one instance.
async fn drain<S: Store>(
    store: &S,
    registry: &Registry,
    batches: Vec<(Tag, Vec<Effect>)>,
    now_ms: u64,
) -> Happened {
    let (tags, batches): (Vec<_>, Vec<_>) = batches.into_iter().unzip();
    if let Err(error) = know(store, registry, &batches, now_ms).await {
        let done = tags.into_iter().map(|tag| (tag, Err(error.clone()))).collect();
        return Happened::Drained { done, records: Vec::new(), signals: Vec::new() };
    }
    let written = &Mutex::new(Effects::default());
    let work = |batches: Arc<[Vec<Effect>]>| async move {
        let mut effects = Effects::default();
        let add = |batch: &Vec<Effect>| effects.add_all(batch, registry, store.partitions(), now_ms);
        let done = batches.iter().map(add).collect();
        effects.write(store).await?;
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        written.records.append(&mut effects.records);
        written.signals.append(&mut effects.signals);
        Ok(done)
    };
    let done = tags.into_iter().zip(each(batches.into(), work).await).collect();
    let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
    Happened::Drained { done, records: take(&mut written.records), signals: take(&mut written.signals) }
}

/// Learns the definitions that effects start, wherever they were deployed.
async fn know<S: Store>(store: &S, registry: &Registry, batches: &[Vec<Effect>], now_ms: u64) -> Stored<()> {
    let is_known = |effect: &Effect| match &effect.work {
        Work::Start(request) => Some(registry.latest(&request.definition).is_some()),
        _ => None,
    };
    let known: Vec<_> = batches.iter().flatten().filter_map(is_known).collect();
    if known.contains(&false) {
        return registry.refresh_now(store).await;
    }
    if !known.is_empty() {
        // Without an answer the known versions are good enough.
        drop(registry.refresh(store, now_ms).await);
    }
    Ok(())
}

impl Effects {
    /// Adds the effects that are possible now; returns their numbers. Only a start may be impossible. Signals to its instance wait for it.
    fn add_all(&mut self, effects: &[Effect], registry: &Registry, partitions: u16, now_ms: u64) -> Vec<u64> {
        let (mut done, mut waiting) = (Vec::new(), BTreeSet::new());
        for effect in effects {
            if matches!(&effect.work, Work::Signal(signal) if waiting.contains(&signal.instance)) {
                continue;
            }
            if self.add(effect.work.clone(), registry, partitions, now_ms) {
                done.push(effect.number);
            } else if let Work::Start(request) = &effect.work {
                waiting.insert(request.id.clone());
            }
        }
        done
    }

    /// Adds an effect; returns whether it is possible now.
    fn add(&mut self, work: Work, registry: &Registry, partitions: u16, now_ms: u64) -> bool {
        match work {
            Work::Signal(signal) => self.signals.push(signal),
            Work::Task(row) => self.tasks.push(row),
            Work::Bury(letter) => self.letters.push(letter),
            Work::Start(request) => return self.start(request, registry, partitions, now_ms),
        }
        true
    }

    /// Adds a start. A sub-workflow that cannot start fails at its parent; an independent one waits for its definition. A definition that
    /// only a later version of this program can read lets both wait: that version may have started the sub-workflow already.
    fn start(&mut self, request: StartRequest, registry: &Registry, partitions: u16, now_ms: u64) -> bool {
        let (id, parent) = (request.id.clone(), request.parent.clone());
        let words = match registry.latest(&request.definition) {
            None if registry.latest_fault(&request.definition).is_some() => return false,
            None => format!("no definition is named {}: deploy it", request.definition),
            Some(program) => {
                let state = start(&program, request, now_ms).map_err(|error| error.to_string());
                let record = state.and_then(|state| {
                    Record::of(&state, partitions, 1, 0).map_err(|error| error.to_string())
                });
                match record {
                    Ok(record) => {
                        self.records.push(record);
                        return true;
                    }
                    Err(words) => words,
                }
            }
        };
        let Some(parent) = parent else { return false };
        let ended =
            Ended { visit: parent.visit, status: Status::Failed, data: Value::Null, error: Some(words) };
        self.signals.push(Signal::new(parent.instance, format!("ended:{id}"), Body::Ended(ended), now_ms));
        true
    }

    /// Writes everything. Afterwards, records that the store knew before are left out: the stored ones may be
    /// newer.
    async fn write<S: Store>(&mut self, store: &S) -> Stored<()> {
        if !self.records.is_empty() {
            let inserted = store.start(&self.records).await?;
            let mut is_new = inserted.into_iter().map(|inserted| inserted == Inserted::New);
            self.records.retain(|_| is_new.next().unwrap_or(false));
        }
        if !self.signals.is_empty() {
            store.publish(&self.signals).await?;
        }
        if !self.tasks.is_empty() {
            store.write_tasks(&self.tasks).await?;
        }
        if !self.letters.is_empty() {
            store.bury(&self.letters).await?;
        }
        Ok(())
    }
}
