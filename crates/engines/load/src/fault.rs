//! Plays faults on the timeline of a phase and records when each began and ended.

use std::error::Error as StdError;

use plimsoll_measure::clock::Instant;
use plimsoll_measure::duration::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mix::scramble;
use crate::runtime::Runtime;

/// The limit of faults in one phase.
pub const FAULTS_MAX: usize = 1000;
/// The interval at which a lasting fault checks whether the phase has ended, in nanoseconds.
const CHECK_NS: u64 = 50 * plimsoll_measure::clock::MILLISECOND_NS;

/// A change to the system under load that can be undone.
pub trait Fault: Send {
    /// Begins the fault.
    ///
    /// # Errors
    /// The reason of the failure.
    fn begin(&mut self) -> Result<(), Box<dyn StdError + Send + Sync>>;

    /// Undoes the fault; returns when the system under load works again.
    ///
    /// # Errors
    /// The reason why the fault cannot be undone.
    fn end(&mut self) -> Result<(), Box<dyn StdError + Send + Sync>>;
}

/// The spacing of repeated faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Evenly.
    #[default]
    Even,
    /// With exponential gaps whose mean is `every`, from the scenario's seed; never shorter than the fault.
    Random,
}

/// A planned fault, resolved; its times count from the start of its phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The name for reports.
    pub name: String,
    /// Its index in the plan; the engine does not use it.
    pub key: usize,
    /// The first beginning.
    pub at: Span,
    /// The duration.
    pub lasts: Span,
    /// The interval between the beginnings of repetitions; `None`: the fault happens once.
    pub every: Option<Span>,
    /// The number of occurrences.
    pub times: u32,
    /// The spacing of repetitions.
    pub spacing: Spacing,
}

/// A timeline is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A fault begins again before it ends.
    #[error("{0}: it repeats before it ends; `every` must be longer than the fault")]
    Overlap(String),
    /// The number of occurrences is out of bounds.
    #[error("{0}: {1} times; give a number from 1 to {FAULTS_MAX}")]
    Times(String, u32),
    /// The phase has too many faults.
    #[error("{0} faults in one phase; {FAULTS_MAX} at most")]
    TooMany(usize),
    /// The fault begins after the phase.
    #[error("{0}: it begins at {1} s, after the phase ended at {2} s")]
    TooLate(String, u64, u64),
}

/// One planned occurrence of a fault, in nanoseconds from the phase's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The fault's index in the phase.
    pub fault: usize,
    /// The beginning.
    pub from_ns: u64,
    /// The end.
    pub to_ns: u64,
}

/// A fault that happened, in nanoseconds from the phase's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectedFault {
    /// The fault's index in the phase.
    pub fault: usize,
    /// The beginning.
    pub from_ns: u64,
    /// The moment when the system under load worked again; absent while the fault lasts.
    pub to_ns: Option<u64>,
    /// The error, if the fault failed.
    pub error: Option<String>,
}

impl InjectedFault {
    /// Merges the same fault of another shard.
    pub fn merge(&mut self, other: &Self) {
        self.from_ns = self.from_ns.min(other.from_ns);
        self.to_ns = self.to_ns.zip(other.to_ns).map(|(own, other)| own.max(other));
        if self.error.is_none() {
            self.error.clone_from(&other.error);
        }
    }
}

impl Planned {
    fn check(&self, end: Option<Span>) -> Result<(), Error> {
        if self.times == 0 || self.times as usize > FAULTS_MAX {
            return Err(Error::Times(self.name.clone(), self.times));
        }
        if self.every.is_some_and(|every| every <= self.lasts) {
            return Err(Error::Overlap(self.name.clone()));
        }
        match end {
            Some(end) if self.at >= end => {
                let seconds = |span: Span| span.as_ns() / plimsoll_measure::clock::SECOND_NS;
                Err(Error::TooLate(self.name.clone(), seconds(self.at), seconds(end)))
            }
            _ => Ok(()),
        }
    }

    fn stretches(&self, fault: usize, seed: u64) -> Vec<Stretch> {
        let mut from_ns = self.at.as_ns();
        let mut all = Vec::new();
        for time in 0..u64::from(self.times) {
            all.push(Stretch { fault, from_ns, to_ns: from_ns + self.lasts.as_ns() });
            let Some(every) = self.every else { break };
            from_ns += match self.spacing {
                Spacing::Even => every.as_ns(),
                Spacing::Random => self.gap_ns(every, scramble(scramble(seed, fault as u64), time)),
            };
        }
        all
    }

    /// The time from one beginning to the next: the duration of the fault and an exponential gap, together
    /// `every` on average.
    fn gap_ns(&self, every: Span, draw: u64) -> u64 {
        let uniform = ((draw >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let mean_ns = (every.as_ns() - self.lasts.as_ns()) as f64;
        self.lasts.as_ns() + (-uniform.ln() * mean_ns) as u64
    }
}

/// Lists every planned occurrence of a phase, in order; omits those after `end`.
///
/// # Errors
/// The first invalid fault.
pub fn timeline(planned: &[Planned], end: Option<Span>, seed: u64) -> Result<Vec<Stretch>, Error> {
    planned.iter().try_for_each(|fault| fault.check(end))?;
    let all = planned.iter().enumerate().flat_map(|(index, fault)| fault.stretches(index, seed));
    let mut all: Vec<_> = all.filter(|it| end.is_none_or(|end| it.from_ns < end.as_ns())).collect();
    if all.len() > FAULTS_MAX {
        return Err(Error::TooMany(all.len()));
    }
    all.sort_by_key(|stretch| (stretch.from_ns, stretch.fault));
    Ok(all)
}

/// Plays a timeline on the clock of `runtime`: begins and undoes each fault at its moment, one at a time, and
/// reports to `sink`. When `is_over` is true, a lasting fault is undone at once and the rest is skipped.
pub async fn play<R: Runtime>(
    runtime: &R,
    start: Instant,
    stretches: &[Stretch],
    faults: &mut [Box<dyn Fault>],
    is_over: impl Fn() -> bool,
    mut sink: impl FnMut(InjectedFault),
) {
    let mut lasting: Vec<(u64, InjectedFault)> = Vec::new();
    let mut next = stretches.iter().peekable();
    loop {
        let over = is_over();
        let begins = next.peek().map(|stretch| stretch.from_ns).filter(|_| !over);
        let ends = lasting.iter().map(|(to_ns, _)| *to_ns).min();
        let Some(at_ns) = begins.into_iter().chain(ends).min() else { return };
        if !over && runtime.now() < start + at_ns {
            runtime.until((start + at_ns).min(runtime.now() + CHECK_NS)).await;
            continue;
        }
        if let Some(at) = lasting.iter().position(|(to_ns, _)| over || *to_ns <= at_ns) {
            let (_, happening) = lasting.swap_remove(at);
            sink(undo(runtime, start, happening, faults));
        } else if let Some(stretch) = next.next() {
            let happening = begin(runtime, start, *stretch, faults);
            sink(happening.clone());
            if happening.error.is_none() {
                lasting.push((stretch.to_ns, happening));
            }
        }
    }
}

fn begin<R: Runtime>(
    runtime: &R,
    start: Instant,
    stretch: Stretch,
    faults: &mut [Box<dyn Fault>],
) -> InjectedFault {
    let from_ns = runtime.now().since(start);
    let error = faults[stretch.fault].begin().err().map(|error| error.to_string());
    InjectedFault { fault: stretch.fault, from_ns, to_ns: None, error }
}

fn undo<R: Runtime>(
    runtime: &R,
    start: Instant,
    happening: InjectedFault,
    faults: &mut [Box<dyn Fault>],
) -> InjectedFault {
    let error = faults[happening.fault].end().err().map(|error| error.to_string());
    InjectedFault { to_ns: Some(runtime.now().since(start)), error, ..happening }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::runtime::Simulated;

    fn planned(at: u64, lasts: u64, every: Option<u64>, times: u32) -> Planned {
        Planned {
            name: "kill".into(),
            key: 0,
            at: Span::from_secs(at),
            lasts: Span::from_secs(lasts),
            every: every.map(Span::from_secs),
            times,
            spacing: Spacing::Even,
        }
    }

    fn seconds(stretches: &[Stretch]) -> Vec<(usize, u64, u64)> {
        let second = plimsoll_measure::clock::SECOND_NS;
        stretches.iter().map(|it| (it.fault, it.from_ns / second, it.to_ns / second)).collect()
    }

    #[test]
    fn repetitions_follow_each_other_until_the_phase_ends() {
        let plan = [planned(5, 1, Some(10), 50), planned(7, 3, None, 1)];
        let all = timeline(&plan, Some(Span::from_secs(30)), 1).unwrap();
        assert_eq!(seconds(&all), [(0, 5, 6), (1, 7, 10), (0, 15, 16), (0, 25, 26)]);
    }

    #[test]
    fn random_gaps_have_their_mean_and_never_overlap() {
        for seed in 0..20 {
            let plan = [Planned { spacing: Spacing::Random, ..planned(1, 2, Some(10), 1000) }];
            let all = timeline(&plan, None, seed).unwrap();
            assert!(all.windows(2).all(|pair| pair[1].from_ns >= pair[0].to_ns), "seed {seed}");
            let mean = all[999].from_ns as f64 / 999e9;
            assert!((9.0..11.0).contains(&mean), "seed {seed}: {mean}");
            assert_eq!(all, timeline(&plan, None, seed).unwrap());
        }
    }

    #[test]
    fn invalid_timelines_are_refused() {
        for (plan, part) in [
            (planned(1, 5, Some(5), 2), "repeats before it ends"),
            (planned(1, 1, None, 0), "0 times"),
            (planned(40, 1, None, 1), "begins at 40 s, after the phase ended at 30 s"),
        ] {
            let error = timeline(&[plan], Some(Span::from_secs(30)), 1).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    /// Records the calls; undoing takes a while, as a restart does.
    struct Noted {
        log: Arc<Mutex<Vec<&'static str>>>,
        refuses: bool,
    }

    impl Fault for Noted {
        fn begin(&mut self) -> Result<(), Box<dyn StdError + Send + Sync>> {
            self.log.lock().unwrap().push("begin");
            if self.refuses { Err("there is none".into()) } else { Ok(()) }
        }

        fn end(&mut self) -> Result<(), Box<dyn StdError + Send + Sync>> {
            self.log.lock().unwrap().push("end");
            Ok(())
        }
    }

    fn play_until(over_s: u64, refuses: bool) -> (Vec<InjectedFault>, Vec<&'static str>) {
        let second = plimsoll_measure::clock::SECOND_NS;
        let world = Simulated::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut faults: Vec<Box<dyn Fault>> = vec![Box::new(Noted { log: log.clone(), refuses })];
        let stretches = timeline(&[planned(2, 3, Some(10), 3)], None, 1).unwrap();
        let (inside, events) = (world.clone(), seen.clone());
        world.run(async move {
            let over = inside.clone();
            let is_over = move || over.now().as_ns() >= over_s * second;
            let sink = |happening| events.lock().unwrap().push(happening);
            play(&inside, Instant::default(), &stretches, &mut faults, is_over, sink).await;
        });
        let (seen, log) = (seen.lock().unwrap().clone(), log.lock().unwrap().clone());
        (seen, log)
    }

    #[test]
    fn each_fault_begins_and_ends_at_its_moment() {
        let second = plimsoll_measure::clock::SECOND_NS;
        let (seen, _) = play_until(u64::MAX / second, false);
        let moments: Vec<_> =
            seen.iter().map(|it| (it.from_ns / second, it.to_ns.map(|to_ns| to_ns / second))).collect();
        assert_eq!(
            moments,
            [(2, None), (2, Some(5)), (12, None), (12, Some(15)), (22, None), (22, Some(25))]
        );
    }

    #[test]
    fn the_end_of_a_phase_undoes_a_lasting_fault_and_begins_no_other() {
        let (seen, log) = play_until(13, false);
        assert_eq!(log, ["begin", "end", "begin", "end"]);
        assert_eq!(seen.last().unwrap().to_ns.map(|to_ns| to_ns / 1_000_000_000), Some(13));
    }

    #[test]
    fn a_failed_fault_is_reported_and_not_undone() {
        let (seen, log) = play_until(13, true);
        assert_eq!(log, ["begin", "begin"]);
        assert!(seen.iter().all(|it| it.error.as_deref() == Some("there is none")), "{seen:?}");
    }
}
