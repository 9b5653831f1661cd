//! A pipeline, from its parts to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{Builder, Scope};

use plimsoll_measure::clock;

use super::check::{check, means};
use super::control::Control;
use super::dispatch::{Dispatch, Route, queue};
use super::reader::Reader;
use super::shared::{Error, Executor, Settings, Shared};
use super::worker::Worker;
use crate::flow::Lanes;
use crate::guarantee::{self, Guarantee};
use crate::meter::{Count, Meter};
use crate::port::positions::PositionStore;
use crate::port::sink::{Order, SinkFactory};
use crate::port::source::Source;
use crate::port::transform::TransformFactory;

/// What a pipeline is made of.
pub struct Parts {
    /// Where events come from; each is read by a thread of its own.
    pub sources: Vec<Box<dyn Source>>,
    /// What happens to them, in this order; the security stage, if any, is the first.
    pub transforms: Vec<Box<dyn TransformFactory>>,
    /// Where they go.
    pub sink: Box<dyn SinkFactory>,
    /// Where those go that cannot.
    pub dead_letters: Option<Box<dyn SinkFactory>>,
    /// Where positions are kept for sources that keep none.
    pub positions: Option<Arc<dyn PositionStore>>,
}

/// What makes a worker's parts.
pub(super) struct Makers {
    pub(super) transforms: Vec<Box<dyn TransformFactory>>,
    pub(super) sink: Box<dyn SinkFactory>,
    pub(super) dead_letters: Option<Box<dyn SinkFactory>>,
}

/// How a pipeline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The source has nothing more; everything is settled and committed.
    Exhausted,
    /// It was asked to; what was in flight is settled and committed.
    Drained,
    /// It was ended at once; what was in flight comes again.
    Aborted,
}

/// A pipeline that can give its guarantee.
pub struct Pipeline {
    sources: Vec<Box<dyn Source>>,
    makers: Makers,
    positions: Option<Arc<dyn PositionStore>>,
    shared: Shared,
}

impl Pipeline {
    /// Puts a pipeline together and checks that it can give its guarantee.
    ///
    /// # Errors
    ///
    /// If its settings contradict each other or its parts cannot give the guarantee.
    pub fn build(parts: Parts, settings: Settings, control: Arc<Control>) -> Result<Self, Error> {
        check(&parts, &settings)?;
        means(&parts).iter().try_for_each(|means| guarantee::check(settings.guarantee, means))?;
        let names: Vec<_> = parts.transforms.iter().map(|transform| transform.name()).collect();
        let tallies = parts.transforms.iter().filter_map(|transform| transform.tally());
        let meter = Arc::new(Meter::new(&names).with(tallies.chain(parts.sink.tally()).collect()));
        let shared = Shared::new(settings, parts.sink.promise(), meter, control);
        let Parts { sources, transforms, sink, dead_letters, positions } = parts;
        Ok(Self { sources, makers: Makers { transforms, sink, dead_letters }, positions, shared })
    }

    /// What it counts and times.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.shared.meter)
    }

    /// What is in flight, exactly.
    pub fn budget(&self) -> Arc<crate::flow::Budget> {
        Arc::clone(&self.shared.budget)
    }

    /// Runs until the source has nothing more, or it is ended.
    ///
    /// # Errors
    ///
    /// If a part failed for good. What was settled by then is committed.
    pub fn run(self) -> Result<Ended, Error> {
        let Self { sources, makers, positions, shared } = self;
        let (shared, makers) = (&shared, &makers);
        let started = std::thread::scope(|scope| {
            let started = start(scope, sources, positions, shared, makers);
            // The threads that run already must not wait for those that never will.
            if started.is_err() {
                shared.control.abort();
            }
            started
        });
        started?;
        if shared.settings.guarantee == Guarantee::AtMostOnce {
            // The positions of what was cut short are committed: nobody reads it again.
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
    makers: &'env Makers,
) -> Result<(), Error> {
    let route = start_workers(scope, shared, makers)?;
    let (count, lanes) = (sources.len(), Lanes::new(positions).ended_by(shared.control.aborted()));
    for (number, source) in sources.into_iter().enumerate() {
        let reader = Reader {
            source,
            lanes: Arc::new(lanes.beside()),
            shared,
            dispatch: Some(Dispatch::new(route.clone(), scope, shared, makers)),
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
    makers: &'env Makers,
) -> Result<Route, Error> {
    let Executor::Pool(threads) = shared.settings.executor else { return Ok(Route::Own) };
    if shared.promise.order == Order::Any {
        let (sender, receiver) = queue();
        for number in 0..threads {
            Worker::build(number, receiver.clone(), shared, makers)?.start(scope)?;
        }
        return Ok(Route::Any(sender));
    }
    let mut queues = Vec::with_capacity(threads);
    for number in 0..threads {
        let (sender, receiver) = queue();
        Worker::build(number, receiver, shared, makers)?.start(scope)?;
        queues.push(sender);
    }
    Ok(Route::Pinned(queues))
}
