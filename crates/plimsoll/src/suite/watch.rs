//! The watchdog: decides, from what is seen of a run, when to say how far it is and when to end it.
//!
//! It reads no clock and sends no signal: it is told moments and what was seen, and says what to do.

use plimsoll_measure::clock::{Instant, SECOND_NS};

use super::progress::Seen;

/// Processes that are at work use at least this share of one CPU between two looks.
const BUSY_MIN: f64 = 0.05;
/// Looks that a run has to end by itself when it was asked to, before it is killed.
const GRACE: u64 = 3;

/// How a run is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Nanoseconds from one look to the next.
    pub interval_ns: u64,
    /// After so many looks without progress it is taken for hung.
    pub hung_after: u32,
    /// How long it may take in all, in nanoseconds.
    pub timeout_ns: u64,
}

/// One look at a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// What it wrote down.
    pub seen: Seen,
    /// CPU that its process and that of its server have used so far, in nanoseconds.
    pub cpu_ns: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Say how far it is.
    Say(Report),
    /// Ask it to end: SIGINT.
    Ask(Cause),
    /// End it: SIGKILL.
    Kill(Cause),
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Since it began, in seconds.
    pub elapsed_s: f64,
    /// Operations acknowledged.
    pub operations: u64,
    /// How many of them a second since the last look.
    pub rate_per_s: f64,
    /// For how many looks there has been no progress.
    pub idle: u32,
}

/// Why a run was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No progress.
    Hung,
    /// It took too long.
    Timeout,
    /// Somebody asked to stop.
    Asked,
}

/// A run that is watched.
#[derive(Clone, Debug)]
pub struct Watch {
    settings: Settings,
    start: Instant,
    looked: Instant,
    last: Look,
    idle: u32,
    ending: Option<Ending>,
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    cause: Cause,
    since: Instant,
    killed: bool,
}

impl Watch {
    /// A run that begins now.
    pub const fn new(settings: Settings, now: Instant) -> Self {
        let seen = Seen { operations: 0, stretches: 0, signs: 0 };
        Self { settings, start: now, looked: now, last: Look { seen, cpu_ns: 0 }, idle: 0, ending: None }
    }

    /// Whether it is time to look.
    pub const fn is_due(&self, now: Instant) -> bool {
        now.since(self.looked) >= self.settings.interval_ns
    }

    /// Takes in what was seen at a look that was due.
    pub fn look(&mut self, now: Instant, look: Look) -> Action {
        let over_s = now.since(self.looked).max(1) as f64 / SECOND_NS as f64;
        let operations = look.seen.operations.saturating_sub(self.last.seen.operations);
        self.idle = if self.has_moved(&look, over_s) { 0 } else { self.idle + 1 };
        (self.looked, self.last) = (now, look);
        Action::Say(Report {
            elapsed_s: now.since(self.start) as f64 / SECOND_NS as f64,
            operations: look.seen.operations,
            rate_per_s: operations as f64 / over_s,
            idle: self.idle,
        })
    }

    /// Under load only an operation that was acknowledged counts. Before and after it, when indexes are made or documents
    /// read back, nothing of that is seen: then every other sign of life counts, and so does work.
    fn has_moved(&self, look: &Look, over_s: f64) -> bool {
        let (now, last) = (look.seen, self.last.seen);
        let busy = look.cpu_ns.saturating_sub(self.last.cpu_ns) as f64 / SECOND_NS as f64 / over_s;
        let is_loading = now.stretches > last.stretches;
        now.operations > last.operations || (!is_loading && (now.signs > last.signs || busy >= BUSY_MIN))
    }

    /// What is to be done now; `asked` is whether somebody wants everything to stop.
    pub fn step(&mut self, now: Instant, asked: bool) -> Option<Action> {
        match &mut self.ending {
            Some(ending) => {
                let is_late = now.since(ending.since) >= GRACE * self.settings.interval_ns;
                let kill = is_late && !ending.killed;
                ending.killed |= kill;
                kill.then_some(Action::Kill(ending.cause))
            }
            None => {
                let cause = self.cause(now, asked)?;
                self.ending = Some(Ending { cause, since: now, killed: false });
                Some(Action::Ask(cause))
            }
        }
    }

    fn cause(&self, now: Instant, asked: bool) -> Option<Cause> {
        if asked {
            Some(Cause::Asked)
        } else if now.since(self.start) >= self.settings.timeout_ns {
            Some(Cause::Timeout)
        } else {
            (self.idle >= self.settings.hung_after).then_some(Cause::Hung)
        }
    }

    /// Why it was ended, if it was.
    pub fn ended_for(&self) -> Option<Cause> {
        self.ending.map(|ending| ending.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings =
        Settings { interval_ns: 10 * SECOND_NS, hung_after: 3, timeout_ns: 300 * SECOND_NS };

    fn at(seconds: u64) -> Instant {
        Instant::from_ns(seconds * SECOND_NS)
    }

    fn look(operations: u64, stretches: u64, signs: u64, cpu_s: f64) -> Look {
        Look { seen: Seen { operations, stretches, signs }, cpu_ns: (cpu_s * 1e9) as u64 }
    }

    /// Looks every ten seconds; gives the looks without progress after each.
    fn idle(looks: &[Look]) -> Vec<u32> {
        let mut watch = Watch::new(SETTINGS, at(0));
        let report = |(number, look): (u64, &Look)| match watch.look(at(10 * number), *look) {
            Action::Say(report) => report.idle,
            other => panic!("{other:?}"),
        };
        (1..).zip(looks).map(report).collect()
    }

    #[test]
    fn a_look_is_due_after_each_interval_and_tells_the_rate_since_the_last() {
        let mut watch = Watch::new(SETTINGS, at(0));
        assert!(!watch.is_due(at(9)) && watch.is_due(at(10)));
        watch.look(at(10), look(50, 10, 0, 0.0));
        assert!(!watch.is_due(at(19)));
        let said = watch.look(at(20), look(250, 20, 0, 0.0));
        let report = Report { elapsed_s: 20.0, operations: 250, rate_per_s: 20.0, idle: 0 };
        assert_eq!((said, watch.step(at(20), false)), (Action::Say(report), None));
    }

    #[test]
    fn under_load_only_operations_are_progress() {
        // The load goes on and on, the processes work, and nothing is acknowledged.
        assert_eq!(idle(&[look(5, 10, 1, 1.0), look(5, 20, 2, 9.0), look(5, 30, 2, 19.0)]), [0, 1, 2]);
    }

    #[test]
    fn before_and_after_the_load_other_signs_of_life_and_work_count() {
        assert_eq!(idle(&[look(0, 0, 1, 0.0), look(0, 0, 2, 0.0), look(0, 0, 2, 0.6)]), [0, 0, 0]);
        assert_eq!(
            idle(&[look(0, 0, 0, 0.4), look(0, 0, 0, 0.8)]),
            [1, 2],
            "so little is what idle processes use"
        );
    }

    #[test]
    fn without_progress_it_is_asked_to_end_and_then_killed_once() {
        let mut watch = Watch::new(SETTINGS, at(0));
        for number in 1..=3 {
            assert_eq!(watch.step(at(10 * number - 1), false), None);
            watch.look(at(10 * number), Look::default());
        }
        assert_eq!(watch.step(at(30), false), Some(Action::Ask(Cause::Hung)));
        assert_eq!(
            (watch.step(at(59), false), watch.step(at(60), true)),
            (None, Some(Action::Kill(Cause::Hung)))
        );
        assert_eq!((watch.step(at(70), false), watch.ended_for()), (None, Some(Cause::Hung)));
    }

    #[test]
    fn it_is_asked_to_end_when_its_time_is_over_or_somebody_wants_to_stop() {
        let mut late = Watch::new(SETTINGS, at(0));
        assert_eq!(late.step(at(299), false), None);
        assert_eq!(late.step(at(300), false), Some(Action::Ask(Cause::Timeout)));
        let mut asked = Watch::new(SETTINGS, at(0));
        assert_eq!(asked.step(at(1), true), Some(Action::Ask(Cause::Asked)));
        assert_eq!((asked.step(at(2), true), asked.ended_for()), (None, Some(Cause::Asked)));
    }
}
