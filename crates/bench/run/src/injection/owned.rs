//! Shares a process among faults: the lasting effects of all decide what the end of one undoes.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_host::Server;
use plimsoll_host::service::Service;

/// Whether something could be done to it.
pub type Done = Result<(), Box<dyn StdError + Send + Sync>>;

/// A process that faults can be done to.
pub trait Process: Send + 'static {
    /// Kills it as a crash would.
    ///
    /// # Errors
    /// When it cannot be signalled.
    fn kill(&mut self) -> Done;

    /// Starts it again where it was, after it was killed.
    ///
    /// # Errors
    /// When it does not start.
    fn restart(&mut self) -> Done;

    /// Stops it where it is.
    ///
    /// # Errors
    /// When it cannot be signalled.
    fn pause(&mut self) -> Done;

    /// Lets it go on.
    ///
    /// # Errors
    /// When it cannot be signalled.
    fn resume(&mut self) -> Done;
}

/// A server or a service of ours that the timeline of faults may kill and start again. Clones are the same one.
#[derive(Debug)]
pub struct Owned<P = Server> {
    process: Arc<Mutex<P>>,
    hurt: Arc<Mutex<Hurt>>,
}

/// The lasting effect of a fault on a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hurt {
    /// Kills that keep it down.
    down: u32,
    /// Freezes.
    frozen: u32,
}

/// The next action on a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Kill,
    Restart,
    Pause,
    Resume,
}

impl Hurt {
    /// A kill begins: a process that is down already stays so.
    pub(super) fn kill(&mut self) -> &'static [Act] {
        self.down += 1;
        if self.down == 1 { &[Act::Kill] } else { &[] }
    }

    /// A kill ends: with the last one the process is started, and stopped where it is if a freeze still lasts.
    pub(super) fn restart(&mut self) -> &'static [Act] {
        self.down = self.down.saturating_sub(1);
        match (self.down, self.frozen) {
            (0, 0) => &[Act::Restart],
            (0, _) => &[Act::Restart, Act::Pause],
            _ => &[],
        }
    }

    /// A freeze begins: one that is down is frozen when it is back.
    pub(super) fn freeze(&mut self) -> &'static [Act] {
        self.frozen += 1;
        if self.down == 0 && self.frozen == 1 { &[Act::Pause] } else { &[] }
    }

    /// A freeze ends: with the last one the process goes on.
    pub(super) fn thaw(&mut self) -> &'static [Act] {
        self.frozen = self.frozen.saturating_sub(1);
        if self.down == 0 && self.frozen == 0 { &[Act::Resume] } else { &[] }
    }
}

impl Owned {
    /// The server.
    pub fn server(&self) -> MutexGuard<'_, Server> {
        self.process()
    }

    /// The server for good, once nobody else has it.
    pub fn into_server(self) -> Option<Server> {
        let server = Arc::into_inner(self.process)?;
        Some(server.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<P> Owned<P> {
    /// Shares a process with its faults.
    pub fn new(process: P) -> Self {
        Self::sharing(Arc::new(Mutex::new(process)))
    }

    /// Lets faults have a process that is shared already. All of its faults come from clones of one of these.
    pub fn sharing(process: Arc<Mutex<P>>) -> Self {
        Self { process, hurt: Arc::default() }
    }

    fn process(&self) -> MutexGuard<'_, P> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hurt(&self) -> MutexGuard<'_, Hurt> {
        self.hurt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Process> Owned<P> {
    /// Begins a fault. One that could not be begun is not undone later, so it does not count.
    pub(super) fn begin(&self, step: fn(&mut Hurt) -> &'static [Act]) -> Done {
        let mut hurt = self.hurt();
        let before = *hurt;
        let acts = step(&mut hurt);
        self.act(acts).inspect_err(|_| *hurt = before)
    }

    /// Ends a fault that was begun.
    pub(super) fn end(&self, step: fn(&mut Hurt) -> &'static [Act]) -> Done {
        let acts = step(&mut self.hurt());
        self.act(acts)
    }

    fn act(&self, acts: &[Act]) -> Done {
        let mut process = self.process();
        acts.iter().try_for_each(|act| match act {
            Act::Kill => process.kill(),
            Act::Restart => process.restart(),
            Act::Pause => process.pause(),
            Act::Resume => process.resume(),
        })
    }
}

impl<P> Clone for Owned<P> {
    fn clone(&self) -> Self {
        Self { process: Arc::clone(&self.process), hurt: Arc::clone(&self.hurt) }
    }
}

impl Process for Server {
    fn kill(&mut self) -> Done {
        Ok(Self::kill(self)?)
    }

    fn restart(&mut self) -> Done {
        Ok(Self::restart(self)?)
    }

    fn pause(&mut self) -> Done {
        Ok(Self::pause(self)?)
    }

    fn resume(&mut self) -> Done {
        Ok(Self::resume(self)?)
    }
}

impl Process for Service {
    fn kill(&mut self) -> Done {
        Ok(Self::kill(self)?)
    }

    fn restart(&mut self) -> Done {
        Ok(Self::restart(self)?)
    }

    fn pause(&mut self) -> Done {
        Ok(Self::pause(self)?)
    }

    fn resume(&mut self) -> Done {
        Ok(Self::resume(self)?)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use plimsoll_host::fault::Fault as Injection;
    use plimsoll_host::service::Options;
    use plimsoll_measure::clock::{self, MILLISECOND_NS};
    use plimsoll_measure::duration::Span;

    use super::*;
    use crate::injection::tie_service;

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

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum State {
        Gone,
        Stopped,
        Runs,
    }

    /// A program that says that it listens.
    fn service(directory: &Path) -> Owned<Service> {
        let args = ["-c", "echo http://$2; exec sleep 60", "sh"].map(OsString::from).to_vec();
        let log = directory.join("service.log");
        Owned::new(Service::start(Options { program: "/bin/sh".into(), args, log }).unwrap())
    }

    fn state(service: &Owned<Service>) -> State {
        let stat = fs::read_to_string(format!("/proc/{}/stat", service.process().pid())).unwrap_or_default();
        match stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next()) {
            None | Some('Z' | 'X') => State::Gone,
            Some('T') => State::Stopped,
            Some(_) => State::Runs,
        }
    }

    /// A signal takes its moment.
    #[track_caller]
    fn comes_to(service: &Owned<Service>, expected: State) {
        let began = clock::now();
        while state(service) != expected && clock::now().since(began) < 20_000 * MILLISECOND_NS {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(state(service), expected);
    }

    #[test]
    fn faults_of_a_service_that_overlap_know_of_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let service = service(directory.path());
        let lasts = Span::from_secs(1);
        let tied = |injection| tie_service(&injection, Some(&service), &[]).unwrap();
        let [mut long, mut short] = [(); 2].map(|()| tied(Injection::Kill { down: lasts }));
        long.begin().unwrap();
        short.begin().unwrap();
        short.end().unwrap();
        comes_to(&service, State::Gone);
        long.end().unwrap();
        comes_to(&service, State::Runs);
        let mut freeze = tied(Injection::Freeze { lasts });
        freeze.begin().unwrap();
        comes_to(&service, State::Stopped);
        short.begin().unwrap();
        comes_to(&service, State::Gone);
        short.end().unwrap();
        comes_to(&service, State::Stopped);
        freeze.end().unwrap();
        comes_to(&service, State::Runs);
    }
}
