//! The engine over whichever client the scenario names.

use std::io;
use std::sync::Arc;

use plimsoll_load::arrivals::Share;
use plimsoll_load::engine::{Engine, Finished, Progress, RunError};
use plimsoll_load::fault::Fault;
use plimsoll_load::phase::Phase;
use plimsoll_load::runtime::Spin;
use plimsoll_load::worker::Control;
use plimsoll_mongo::books::{Books, Closed};
use plimsoll_mongo::driver::Driver;
use plimsoll_mongo::known::Known;
use plimsoll_mongo::lean::Lean;
use plimsoll_mongo::maker::Maker;
use plimsoll_mongo::scenario::Client;
use plimsoll_mongo::setup::Setup;
use plimsoll_mongo::topology::Site;

/// The workers and their targets.
#[derive(Debug)]
pub enum Fleet {
    /// Over our own client.
    Lean(Engine<Lean>),
    /// Over the official driver.
    Driver(Engine<Driver>),
}

impl Fleet {
    /// One worker for each of `books`.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn new(
        setup: &Arc<Setup>,
        site: &Arc<Site>,
        books: Vec<Books>,
        shard: Share,
        spin: Spin,
    ) -> io::Result<Self> {
        let operations = setup.commands.len();
        let books = books.into_iter();
        match setup.client {
            Client::Lean => {
                let targets = books.map(|books| Arc::new(Lean::new(setup.clone(), site.clone(), books)));
                Ok(Self::Lean(Engine::new(targets.collect(), operations, shard, spin)?))
            }
            Client::Driver => {
                let targets = books.map(|books| Arc::new(Driver::new(setup.clone(), site.clone(), books)));
                Ok(Self::Driver(Engine::new(targets.collect(), operations, shard, spin)?))
            }
        }
    }

    /// Runs a phase.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub fn run(
        &mut self,
        phase: &Phase,
        control: &Control,
        faults: &mut [Box<dyn Fault>],
        sink: impl FnMut(Progress),
    ) -> Result<Finished, RunError> {
        self.introduce();
        match self {
            Self::Lean(engine) => engine.run(phase, control, faults, sink),
            Self::Driver(engine) => engine.run(phase, control, faults, sink),
        }
    }

    /// Tells every worker which documents there are, so that a phase may work on those of all.
    fn introduce(&self) {
        let makers = self.makers();
        if !makers.iter().any(|maker| maker.setup.names_receipts()) {
            return;
        }
        let known = Arc::new(Known::of(makers.iter().map(|maker| maker.books().part()).collect()));
        makers.iter().for_each(|maker| maker.books().learn(known.clone()));
    }

    fn makers(&self) -> Vec<&Maker> {
        match self {
            Self::Lean(engine) => engine.targets().map(Lean::maker).collect(),
            Self::Driver(engine) => engine.targets().map(Driver::maker).collect(),
        }
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        match self {
            Self::Lean(engine) => engine.connections(),
            Self::Driver(engine) => engine.connections(),
        }
    }

    /// Ends the workers and gives their books.
    pub fn close(self) -> Vec<Closed> {
        match self {
            Self::Lean(engine) => {
                engine.into_targets().into_iter().filter_map(Arc::into_inner).map(Lean::close).collect()
            }
            Self::Driver(engine) => {
                engine.into_targets().into_iter().filter_map(Arc::into_inner).map(Driver::close).collect()
            }
        }
    }
}
