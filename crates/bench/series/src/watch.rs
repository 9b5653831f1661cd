//! Decides when to report the progress of a run and when to end it.
//!
//! The watchdog reads no clock and sends no signal: callers pass times and samples, and act on its decisions.

use plimsoll_measure::clock::{Instant, SECOND_NS};

use crate::progress::Counters;

/// The minimum CPU use of a busy process between two checks, as a share of one CPU.
const BUSY_MIN: f64 = 0.05;
/// The number of checks between the request to end and the kill.
const GRACE: u64 = 3;
/// The longest silence of an audit: one answer may take 120 s (`plimsoll_mongo::audit`), and the server needs time to recover.
const AUDIT_SILENT_NS: u64 = 150 * SECOND_NS;

/// The limits of a watched run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The time between two checks, in nanoseconds.
    pub interval_ns: u64,
    /// The number of checks without progress after which the run counts as hung.
    pub hung_after: u32,
    /// The longest total time of the run, in nanoseconds.
    pub timeout_ns: u64,
}

/// A sample of a run's progress and CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The progress in its files.
    pub counters: Counters,
    /// CPU time of its process and of its server so far, in nanoseconds.
    pub cpu_ns: u64,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Ask the run to end: SIGINT.
    Ask(Cause),
    /// End the run: SIGKILL.
    Kill,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Seconds since its start.
    pub elapsed_s: f64,
    /// Acknowledged operations; for a pipeline, settled events.
    pub operations: u64,
    /// Their rate per second since the last check.
    pub rate_per_s: f64,
    /// Checks without progress so far.
    pub idle: u32,
}

/// The cause of a run's early end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The run made no progress.
    Hung,
    /// The run exceeded its time limit.
    Timeout,
    /// The user asked to stop.
    Asked,
}

/// A watched run.
#[derive(Clone, Debug)]
pub struct Watch {
    settings: Settings,
    start: Instant,
    sampled: Instant,
    /// The time of the last check that saw progress.
    moved: Instant,
    last: Sample,
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
    /// A run that starts now.
    pub const fn new(settings: Settings, now: Instant) -> Self {
        let counters = Counters { operations: 0, stretches: 0, signs: 0, audits: 0 };
        let last = Sample { counters, cpu_ns: 0 };
        Self { settings, start: now, sampled: now, moved: now, last, idle: 0, ending: None }
    }

    /// Whether the next check is due.
    pub const fn is_due(&self, now: Instant) -> bool {
        now.since(self.sampled) >= self.settings.interval_ns
    }

    /// Records a sample.
    pub fn record(&mut self, now: Instant, sample: Sample) -> Report {
        let over_s = now.since(self.sampled).max(1) as f64 / SECOND_NS as f64;
        let operations = sample.counters.operations.saturating_sub(self.last.counters.operations);
        (self.idle, self.moved) =
            if self.has_moved(&sample, over_s) { (0, now) } else { (self.idle + 1, self.moved) };
        (self.sampled, self.last) = (now, sample);
        Report {
            elapsed_s: now.since(self.start) as f64 / SECOND_NS as f64,
            operations: sample.counters.operations,
            rate_per_s: operations as f64 / over_s,
            idle: self.idle,
        }
    }

    /// Whether a sample shows progress. Under load only acknowledged operations count. Before and after it,
    /// while indexes are built or documents are read back, the files change little: then every other sign of
    /// life counts, and so does CPU time.
    fn has_moved(&self, sample: &Sample, over_s: f64) -> bool {
        let (now, last) = (sample.counters, self.last.counters);
        let busy = sample.cpu_ns.saturating_sub(self.last.cpu_ns) as f64 / SECOND_NS as f64 / over_s;
        let is_loading = now.stretches > last.stretches;
        now.operations > last.operations || (!is_loading && (now.signs > last.signs || busy >= BUSY_MIN))
    }

    /// The decision at this time; `asked` is whether the user asked to stop.
    pub fn step(&mut self, now: Instant, asked: bool) -> Option<Action> {
        let Some(ending) = self.ending else {
            let cause = self.cause(now, asked)?;
            self.ending = Some(Ending { cause, since: now, killed: false });
            return Some(Action::Ask(cause));
        };
        let kill = self.is_late(now, ending) && !ending.killed;
        self.ending = Some(Ending { killed: ending.killed || kill, ..ending });
        kill.then_some(Action::Kill)
    }

    /// Whether a run ignored the request to end for too long. A run that the user stopped still reads back its documents. It
    /// may continue while it makes progress, within its timeout.
    fn is_late(&self, now: Instant, ending: Ending) -> bool {
        let grace_ns = GRACE * self.settings.interval_ns;
        if ending.cause != Cause::Asked {
            return now.since(ending.since) >= grace_ns;
        }
        let silent_ns = now.since(ending.since).min(now.since(self.moved));
        let is_over = now.since(self.start) >= self.settings.timeout_ns.saturating_add(grace_ns);
        silent_ns >= self.patience_ns(grace_ns) || is_over
    }

    /// The allowed silence in nanoseconds: `said_ns` under load, and at least the longest answer of an audit
    /// during the audit.
    fn patience_ns(&self, said_ns: u64) -> u64 {
        if self.last.counters.audits > 0 { said_ns.max(AUDIT_SILENT_NS) } else { said_ns }
    }

    fn cause(&self, now: Instant, asked: bool) -> Option<Cause> {
        if asked {
            Some(Cause::Asked)
        } else if now.since(self.start) >= self.settings.timeout_ns {
            Some(Cause::Timeout)
        } else {
            let is_patient = now.since(self.moved) < self.patience_ns(0);
            (self.idle >= self.settings.hung_after && !is_patient).then_some(Cause::Hung)
        }
    }

    /// The cause of its early end, if it was ended.
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

    fn sample(operations: u64, stretches: u64, signs: u64, cpu_s: f64) -> Sample {
        Sample {
            counters: Counters { operations, stretches, signs, audits: 0 },
            cpu_ns: (cpu_s * 1e9) as u64,
        }
    }

    /// A check of a run that has read back `signs` parts.
    fn auditing(signs: u64) -> Sample {
        Sample { counters: Counters { operations: 5, stretches: 9, signs, audits: signs }, cpu_ns: 0 }
    }

    /// Checks every ten seconds from the first number to the last, each with the same result.
    fn record_each(
        watch: &mut Watch,
        numbers: std::ops::RangeInclusive<u64>,
        sample: impl Fn(u64) -> Sample,
    ) {
        numbers.for_each(|number| {
            watch.record(at(10 * number), sample(number));
        });
    }

    /// Checks every ten seconds. Returns the checks without progress after each.
    fn idle(samples: &[Sample]) -> Vec<u32> {
        let mut watch = Watch::new(SETTINGS, at(0));
        let report = |(number, sample): (u64, &Sample)| watch.record(at(10 * number), *sample).idle;
        (1..).zip(samples).map(report).collect()
    }

    #[test]
    fn a_check_is_due_after_each_interval_and_reports_the_rate_since_the_last() {
        let mut watch = Watch::new(SETTINGS, at(0));
        assert!(!watch.is_due(at(9)) && watch.is_due(at(10)));
        watch.record(at(10), sample(50, 10, 0, 0.0));
        assert!(!watch.is_due(at(19)));
        let said = watch.record(at(20), sample(250, 20, 0, 0.0));
        let report = Report { elapsed_s: 20.0, operations: 250, rate_per_s: 20.0, idle: 0 };
        assert_eq!((said, watch.step(at(20), false)), (report, None));
    }

    #[test]
    fn under_load_only_operations_are_progress() {
        // The load continues and the processes work, but no operation is acknowledged.
        assert_eq!(idle(&[sample(5, 10, 1, 1.0), sample(5, 20, 2, 9.0), sample(5, 30, 2, 19.0)]), [0, 1, 2]);
    }

    #[test]
    fn other_signs_of_life_and_cpu_time_count_before_and_after_the_load() {
        assert_eq!(idle(&[sample(0, 0, 1, 0.0), sample(0, 0, 2, 0.0), sample(0, 0, 2, 0.6)]), [0, 0, 0]);
        assert_eq!(
            idle(&[sample(0, 0, 0, 0.4), sample(0, 0, 0, 0.8)]),
            [1, 2],
            "an idle process uses this little CPU time"
        );
    }

    #[test]
    fn a_run_without_progress_is_asked_to_end_and_then_killed_once() {
        let mut watch = Watch::new(SETTINGS, at(0));
        for number in 1..=3 {
            assert_eq!(watch.step(at(10 * number - 1), false), None);
            watch.record(at(10 * number), Sample::default());
        }
        assert_eq!(watch.step(at(30), false), Some(Action::Ask(Cause::Hung)));
        assert_eq!((watch.step(at(59), false), watch.step(at(60), true)), (None, Some(Action::Kill)));
        assert_eq!((watch.step(at(70), false), watch.ended_for()), (None, Some(Cause::Hung)));
    }

    #[test]
    fn an_audit_may_wait_longer_for_one_answer_than_a_load_but_not_forever() {
        let mut watch = Watch::new(SETTINGS, at(0));
        record_each(&mut watch, 1..=15, |_| auditing(1));
        assert_eq!(watch.step(at(159), false), None, "the last sign was at 10 s");
        assert_eq!(watch.step(at(160), false), Some(Action::Ask(Cause::Hung)));
    }

    #[test]
    fn a_stopped_run_is_not_killed_while_it_reads_back() {
        let mut watch = Watch::new(SETTINGS, at(0));
        record_each(&mut watch, 1..=1, auditing);
        assert_eq!(watch.step(at(10), true), Some(Action::Ask(Cause::Asked)));
        record_each(&mut watch, 2..=20, auditing);
        assert_eq!(watch.step(at(205), true), None, "the run makes progress");
        record_each(&mut watch, 21..=32, |_| auditing(20));
        assert_eq!(watch.step(at(329), true), None);
        assert_eq!(watch.step(at(330), true), Some(Action::Kill), "the run exceeds its timeout");

        let mut silent = Watch::new(SETTINGS, at(0));
        assert_eq!(silent.step(at(1), true), Some(Action::Ask(Cause::Asked)));
        assert_eq!((silent.step(at(30), true), silent.step(at(31), true)), (None, Some(Action::Kill)));
    }

    #[test]
    fn a_run_is_asked_to_end_at_its_timeout_or_by_the_user() {
        let mut late = Watch::new(SETTINGS, at(0));
        assert_eq!(late.step(at(299), false), None);
        assert_eq!(late.step(at(300), false), Some(Action::Ask(Cause::Timeout)));
        let mut asked = Watch::new(SETTINGS, at(0));
        assert_eq!(asked.step(at(1), true), Some(Action::Ask(Cause::Asked)));
        assert_eq!((asked.step(at(2), true), asked.ended_for()), (None, Some(Cause::Asked)));
    }
}
