//! Shares a process among faults. The faults that are still active decide what the end of one fault undoes.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_host::Server;
use plimsoll_host::service::Service;

/// The result of an action on a process.
pub type Done = Result<(), Box<dyn StdError + Send + Sync>>;

/// A process that faults can act on.
pub trait Process: Send + 'static {
    /// Kills it as a crash would.
    ///
    /// # Errors
    /// When the process cannot be signalled.
    fn kill(&mut self) -> Done;

    /// Cuts its power: kills it, and takes back what it has not synced.
    ///
    /// # Errors
    /// When the process was not started with support for a loss of power, or cannot be killed.
    fn lose_power(&mut self) -> Done;

    /// Restarts it at the same address after a kill.
    ///
    /// # Errors
    /// When the process does not start.
    fn restart(&mut self) -> Done;

    /// Suspends it.
    ///
    /// # Errors
    /// When the process cannot be signalled.
    fn pause(&mut self) -> Done;

    /// Resumes it.
    ///
    /// # Errors
    /// When the process cannot be signalled.
    fn resume(&mut self) -> Done;
}

/// A server or service that Plimsoll started and that faults may kill and restart. Clones share the process.
#[derive(Debug)]
pub struct Owned<P = Server> {
    process: Arc<Mutex<P>>,
    hurt: Arc<Mutex<Hurt>>,
}

/// The number of active faults of each kind on a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hurt {
    /// Active kills and losses of power.
    down: u32,
    /// Active freezes.
    frozen: u32,
}

/// The next action on a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Kill,
    LosePower,
    Restart,
    Pause,
    Resume,
}

impl Hurt {
    /// A kill begins. The process is killed unless it is already down.
    pub(super) fn kill(&mut self) -> &'static [Act] {
        self.down += 1;
        if self.down == 1 { &[Act::Kill] } else { &[] }
    }

    /// A loss of power begins. It discards unsynced writes, also those of a process that is already down.
    pub(super) fn lose_power(&mut self) -> &'static [Act] {
        self.down += 1;
        &[Act::LosePower]
    }

    /// A kill or a loss of power ends. The last one restarts the process, and pauses it if a freeze is still active.
    pub(super) fn restart(&mut self) -> &'static [Act] {
        self.down = self.down.saturating_sub(1);
        match (self.down, self.frozen) {
            (0, 0) => &[Act::Restart],
            (0, _) => &[Act::Restart, Act::Pause],
            _ => &[],
        }
    }

    /// A freeze begins. A process that is down is frozen after its restart.
    pub(super) fn freeze(&mut self) -> &'static [Act] {
        self.frozen += 1;
        if self.down == 0 && self.frozen == 1 { &[Act::Pause] } else { &[] }
    }

    /// A freeze ends. The last one resumes the process.
    pub(super) fn thaw(&mut self) -> &'static [Act] {
        self.frozen = self.frozen.saturating_sub(1);
        if self.down == 0 && self.frozen == 0 { &[Act::Resume] } else { &[] }
    }
}

impl Owned {
    /// The server, locked for the caller.
    pub fn server(&self) -> MutexGuard<'_, Server> {
        self.process()
    }

    /// The server itself. `None` while another clone exists.
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

    /// Wraps a process that is already shared. All faults of a process must use clones of one wrapper.
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
    /// Begins a fault. A failed fault is not counted, because nothing undoes it later.
    pub(super) fn begin(&self, step: fn(&mut Hurt) -> &'static [Act]) -> Done {
        let mut hurt = self.hurt();
        let before = *hurt;
        let acts = step(&mut hurt);
        self.act(acts).inspect_err(|_| *hurt = before)
    }

    /// Ends an active fault.
    pub(super) fn end(&self, step: fn(&mut Hurt) -> &'static [Act]) -> Done {
        let acts = step(&mut self.hurt());
        self.act(acts)
    }

    fn act(&self, acts: &[Act]) -> Done {
        let mut process = self.process();
        acts.iter().try_for_each(|act| match act {
            Act::Kill => process.kill(),
            Act::LosePower => process.lose_power(),
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

    fn lose_power(&mut self) -> Done {
        Ok(Self::lose_power(self)?)
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

    /// A service stores no data itself, so a loss of power discards nothing.
    fn lose_power(&mut self) -> Done {
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
    use crate::injection::tie;

    #[test]
    fn a_process_resumes_when_its_last_fault_ends() {
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
            (
                vec![Hurt::kill, Hurt::lose_power, Hurt::restart, Hurt::restart],
                vec![Act::Kill, Act::LosePower, Act::Restart],
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

    /// A program that prints an address, as a listening service does.
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

    /// Waits for the state, because a signal takes some time.
    #[track_caller]
    fn comes_to(service: &Owned<Service>, expected: State) {
        let began = clock::now();
        while state(service) != expected && clock::now().since(began) < 20_000 * MILLISECOND_NS {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(state(service), expected);
    }

    #[test]
    fn overlapping_faults_of_a_service_respect_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let service = service(directory.path());
        let lasts = Span::from_secs(1);
        let tied = |injection| tie(&injection, Some(&service), &[]).unwrap();
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
