//! Searches for the load line as a pure state machine: it selects the next rate and when to stop.
//!
//! A climb in geometric steps finds a bracket, bisections narrow it, and the remaining time goes into trials
//! around the current estimate. Most trials are just below the estimate, where a rare event shows. Some are
//! above, where the curve gets its slope. No slow change of the system can follow their order. Every fourth
//! trial repeats one fixed rate. [`mod@estimate`] turns all trials into one rate and an interval.

use plimsoll_measure::line::Stage;

mod curve;
pub mod estimate;
pub mod trial;

use curve::Bracket;
use estimate::{Estimate, bracket, crossing, drift, estimate, refuted, supported};
use trial::Trial;

/// The settings of a search. Rates are operations per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The first rate to try.
    pub start: f64,
    /// The time for all trials, with their settling and pauses, in seconds.
    pub budget_s: f64,
    /// The seed of the bootstrap.
    pub seed: u64,
}

/// The default time for all trials, in seconds.
pub const BUDGET_S: f64 = 185.0;
/// The unjudged time of each trial: the pause before it, its settling and its drain, in seconds.
pub const UNJUDGED_S: f64 = 1.6;
/// Factor between two steps of the climb.
const FACTOR: f64 = 1.4;
/// Factor between two steps down while no rate holds.
const DESCENT: f64 = 2.5;
/// Length of the climb's trials, in seconds. The first trial is longer: the bottlenecks are compared with it.
const CLIMB_S: f64 = 2.0;
const FIRST_S: f64 = 4.0;
/// Length of a bisection's trial, in seconds.
const BISECT_S: f64 = 3.0;
/// Length of a trial around the estimate, in seconds.
const TRIAL_S: f64 = 8.0;
/// A bracket is bisected while the ratio of its ends is larger.
const NARROW: f64 = 1.16;
/// The smallest range of the trials around the estimate, below and above it, as shares of it.
const BELOW: f64 = 0.08;
const ABOVE: f64 = 0.05;
/// The highest rate of the trials around the estimate, as a multiple of it.
const HIGH_MAX: f64 = 4.0;
/// The share of the trials around the estimate that are below it.
const SHARE_BELOW: f64 = 0.7;
/// One in this many of the trials around the estimate repeats the reference rate.
const REFERENCE_EVERY: u32 = 4;
/// The reference rate as a share of the estimate.
const REFERENCE: f64 = 0.94;
/// The number of bootstrap samples that give the upper end of the next trial's range.
const SAMPLES: usize = 40;
/// The operations that a trial needs, and the longest trial that waits for them, in seconds.
pub(crate) const OPERATIONS_MIN: f64 = 20.0;
const LONGEST_S: f64 = 30.0;
/// The number of trials after which the search concludes that no rate holds.
const DESCENTS_MAX: usize = 8;
/// The number of trials after which the search concludes that no rate fails.
const CLIMBS_MAX: usize = 30;
/// The fractional part of the golden ratio: its multiples spread evenly over an interval, in a scattered order.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// The next trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// Its purpose.
    pub stage: Stage,
    /// Operations per second.
    pub rate: f64,
    /// The judged length in seconds.
    pub window_s: f64,
}

/// A running search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    settings: Settings,
    trials: Vec<Trial>,
    spent_s: f64,
    /// The index of the first trial around an estimate.
    first_near: Option<usize>,
    /// Trials around the estimate so far.
    near: u32,
    /// The fixed rate of the reference trials.
    reference: Option<f64>,
}

impl Search {
    /// A search before its first trial.
    pub const fn new(settings: Settings) -> Self {
        Self { settings, trials: Vec::new(), spent_s: 0.0, first_near: None, near: 0, reference: None }
    }

    /// The next trial; none when the search is over.
    pub fn next(&self) -> Option<Attempt> {
        let attempt = self.aim()?;
        let end_s = self.spent_s + attempt.window_s + UNJUDGED_S;
        (end_s <= self.settings.budget_s || self.trials.is_empty()).then_some(attempt)
    }

    /// Records the result of a trial of [`Self::next`].
    pub fn record(&mut self, attempt: &Attempt, trial: Trial) {
        self.spent_s += attempt.window_s + UNJUDGED_S;
        if matches!(attempt.stage, Stage::Estimate | Stage::Reference) {
            self.first_near.get_or_insert(self.trials.len());
            self.near += 1;
        }
        if attempt.stage == Stage::Reference {
            self.reference.get_or_insert(attempt.rate);
        }
        self.trials.push(trial);
    }

    /// All trials, in order.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The load line, as far as it is known; none if no rate held.
    pub fn estimate(&self) -> Option<Estimate> {
        estimate(&self.trials, self.settings.seed)
    }

    /// The load line of the first and of the second half of the search, if it moved.
    pub fn drift(&self) -> Option<(f64, f64)> {
        let (climb, near) = self.trials.split_at(self.first_near?);
        drift(climb, near, self.reference?, self.estimate()?.rate)
    }

    fn aim(&self) -> Option<Attempt> {
        let rates = || self.trials.iter().map(|trial| trial.rate);
        let Some((lowest, highest)) = rates().reduce(f64::min).zip(rates().reduce(f64::max)) else {
            return Some(attempt(Stage::Climb, self.settings.start, FIRST_S));
        };
        let climb = |rate| attempt(Stage::Climb, rate, CLIMB_S);
        if let Some(last) = self.trials.last().filter(|last| self.near == 0 && last.rate == highest) {
            let is_first = self.trials.iter().filter(|trial| trial.rate == highest).count() == 1;
            match last.held() {
                // A rare event looks like a rate that is too high, so a rate that failed in the climb is tried again.
                false if is_first => return Some(climb(highest)),
                true if self.trials.len() < CLIMBS_MAX => return Some(climb(highest * FACTOR)),
                _ => {}
            }
        }
        match self.bracket() {
            Bracket { low: None, .. } if self.is_slow_at_two_rates() => None,
            Bracket { low: None, .. } if self.trials.len() <= DESCENTS_MAX => {
                let floor = OPERATIONS_MIN / LONGEST_S;
                (lowest > floor).then(|| climb((lowest / DESCENT).max(floor)))
            }
            Bracket { high: None, .. } => (self.trials.len() < CLIMBS_MAX).then(|| climb(highest * FACTOR)),
            Bracket { low: Some(low), high: Some(high) } if self.near == 0 && high / low > NARROW => {
                Some(attempt(Stage::Bisect, (low * high).sqrt(), BISECT_S))
            }
            Bracket { low, high: Some(high) } => {
                let low = low.or_else(|| self.estimate().map(|estimate| estimate.low))?;
                let near = crossing(&self.trials, (low * high).sqrt());
                Some(self.near_the_estimate(near.clamp(low / FACTOR, high * FACTOR)))
            }
        }
    }

    /// Whether all operations were slow at two rates, one `DESCENT` below the other, although the system kept up.
    pub fn is_slow_at_two_rates(&self) -> bool {
        let slow = self.trials.iter().filter(|trial| trial.is_slow_throughout).map(|trial| trial.rate);
        slow.clone().reduce(f64::min) < slow.reduce(f64::max)
    }

    /// The bracket of all trials. Until the first trial around an estimate, failures below a rate that held do not count: one
    /// rare event would outweigh the few trials so far.
    fn bracket(&self) -> Bracket {
        if self.near > 0 {
            return bracket(&self.trials);
        }
        let held =
            self.trials.iter().filter(|trial| trial.held()).map(|trial| trial.rate).fold(0.0, f64::max);
        let clear: Vec<_> = self.trials.iter().filter(|it| it.held() || it.rate > held).cloned().collect();
        bracket(&clear)
    }

    /// A trial around the estimate, or one at the reference rate.
    fn near_the_estimate(&self, estimate: f64) -> Attempt {
        if self.near % REFERENCE_EVERY == REFERENCE_EVERY - 1 {
            let rate = self.reference.unwrap_or(estimate * REFERENCE);
            return attempt(Stage::Reference, rate, TRIAL_S);
        }
        let place = (0.5 + f64::from(self.near) * GOLDEN).fract();
        let rate = if place < SHARE_BELOW {
            let lowest = self.trials.iter().map(|trial| trial.rate).fold(f64::INFINITY, f64::min);
            let low = supported(&self.trials, estimate).unwrap_or(lowest).min(estimate / (1.0 + BELOW));
            estimate * (low / estimate).powf(1.0 - place / SHARE_BELOW)
        } else {
            let high = refuted(&self.trials, self.settings.seed, SAMPLES).min(estimate * HIGH_MAX);
            let high = high.max(estimate * (1.0 + ABOVE));
            estimate * (high / estimate).powf((place - SHARE_BELOW) / (1.0 - SHARE_BELOW))
        };
        attempt(Stage::Estimate, rate, TRIAL_S)
    }
}

/// A trial that is long enough for its operations.
fn attempt(stage: Stage, rate: f64, window_s: f64) -> Attempt {
    let rate = rate.max(OPERATIONS_MIN / LONGEST_S);
    Attempt { stage, rate, window_s: window_s.max((OPERATIONS_MIN / rate).ceil()).min(LONGEST_S) }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
