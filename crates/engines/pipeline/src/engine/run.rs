//! Builds a pipeline from its parts and runs it to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{Builder, Scope};

use plimsoll_measure::clock;

use super::check::{capabilities, check};
use super::control::Control;
use super::dispatch::{Dispatch, Route, queue};
use super::parts::{Factories, Parts};
use super::reader::Reader;
use super::shared::{Error, Executor, Settings, Shared};
use super::worker::Worker;
use crate::flow::Assignments;
use crate::guarantee::{self, Guarantee};
use crate::meter::{Count, Meter};
use crate::port::sink::Order;
use crate::port::source::Source;
use crate::position::PositionStore;

/// The way in which a pipeline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All sources ended; every event is settled and committed.
    Exhausted,
    /// The pipeline was drained; events in flight are settled and committed.
    Drained,
    /// The pipeline was aborted; the next run reads the events in flight again.
    Aborted,
}

/// A pipeline that can give its guarantee.
pub struct Pipeline {
    sources: Vec<Box<dyn Source>>,
    factories: Factories,
    positions: Option<Arc<dyn PositionStore>>,
    shared: Shared,
}

impl Pipeline {
    /// Builds a pipeline and checks that it can give its guarantee.
    ///
    /// # Errors
    ///
    /// If its settings contradict each other or its parts cannot give the guarantee.
    pub fn build(parts: Parts, settings: Settings, control: Arc<Control>) -> Result<Self, Error> {
        check(&parts, &settings)?;
        capabilities(&parts)
            .iter()
            .try_for_each(|capabilities| guarantee::check(settings.guarantee, capabilities))?;
        let names: Vec<_> = parts.transforms.iter().map(|transform| transform.name()).collect();
        let tallies = parts.transforms.iter().filter_map(|transform| transform.tally());
        let meter = Arc::new(Meter::new(&names).with_tallies(tallies.chain(parts.sink.tally()).collect()));
        let shared = Shared::new(settings, parts.sink.promise(), meter, control);
        let Parts { sources, transforms, sink, dead_letters, positions } = parts;
        Ok(Self { sources, factories: Factories { transforms, sink, dead_letters }, positions, shared })
    }

    /// The counters and clocks of the pipeline.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.shared.meter)
    }

    /// The budget of the events in flight.
    pub fn budget(&self) -> Arc<crate::flow::Budget> {
        Arc::clone(&self.shared.budget)
    }

    /// Runs until all sources end, or `control` ends the pipeline.
    ///
    /// # Errors
    ///
    /// If a part failed permanently. Settled events are committed.
    pub fn run(self) -> Result<Ended, Error> {
        let Self { sources, factories, positions, shared } = self;
        let (shared, factories) = (&shared, &factories);
        let started = std::thread::scope(|scope| {
            let started = start(scope, sources, positions, shared, factories);
            // Running threads must not wait for threads that never started.
            if started.is_err() {
                shared.control.abort();
            }
            started
        });
        started?;
        if shared.settings.guarantee == Guarantee::AtMostOnce {
            // The positions of unfinished events are committed, so no run reads them again.
            let counts = shared.meter.counts();
            shared.meter.add(Count::Lost, counts.get(Count::Read).saturating_sub(counts.settled()));
        }
        match shared.take_failure() {
            Some(error) => Err(error),
            None if shared.control.is_aborted() => Ok(Ended::Aborted),
            None if shared.control.is_draining() => Ok(Ended::Drained),
            None => Ok(Ended::Exhausted),
        }
    }
}

fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    sources: Vec<Box<dyn Source>>,
    positions: Option<Arc<dyn PositionStore>>,
    shared: &'env Shared,
    factories: &'env Factories,
) -> Result<(), Error> {
    let route = start_workers(scope, shared, factories)?;
    let (count, assignments) =
        (sources.len(), Assignments::new(positions).aborted_by(shared.control.aborted()));
    for (number, source) in sources.into_iter().enumerate() {
        let reader = Reader {
            source,
            assignments: Arc::new(assignments.for_another_source()),
            shared,
            dispatch: Some(Dispatch::new(route.clone(), scope, shared, factories)),
            sources: count,
            reached: BTreeMap::new(),
            committed_at: clock::now(),
            troubled_at: None,
        };
        let started =
            Builder::new().name(format!("source-{number}")).spawn_scoped(scope, move || reader.run());
        started.map_err(|error| Error::Thread(format!("could not be started: {error}")))?;
    }
    Ok(())
}

fn start_workers<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    shared: &'env Shared,
    factories: &'env Factories,
) -> Result<Route, Error> {
    let Executor::Pool(threads) = shared.settings.executor else { return Ok(Route::Own) };
    if shared.promise.order == Order::Any {
        let (sender, receiver) = queue();
        for number in 0..threads {
            Worker::build(number, receiver.clone(), shared, factories)?.start(scope)?;
        }
        return Ok(Route::Any(sender));
    }
    let mut queues = Vec::with_capacity(threads);
    for number in 0..threads {
        let (sender, receiver) = queue();
        Worker::build(number, receiver, shared, factories)?.start(scope)?;
        queues.push(sender);
    }
    Ok(Route::Pinned(queues))
}
