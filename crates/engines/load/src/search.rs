//! Searches for the load line as a pure state machine: it selects the next rate, and decides when the result
//! is known.
//!
//! It climbs in geometric steps (or descends, if the first step fails), bisects on the logarithm of the rate,
//! and then confirms the bracket: the low end must hold and the high end must fail, several times, in turns.
//! An end that contradicts itself moves outward, by steps that double, so noise widens the interval. When the
//! low end moves, the high end stays: a rate between them has held before, and a lower high end would
//! contradict it. The result is the low end, so it is confirmed first when time is short.

use plimsoll_measure::line::Stage;

/// The settings of a search. Rates are operations per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The first rate to try.
    pub start: f64,
    /// Factor between two steps of the climb.
    pub factor: f64,
    /// The largest ratio between the ends of a narrow bracket, minus one.
    pub resolution: f64,
    /// The number of times that the low end must hold and the high end fail.
    pub confirmations: u32,
    /// Length of the first windows, in seconds.
    pub window_s: f64,
    /// Length of the confirming windows, in seconds.
    pub window_confirm_s: f64,
    /// Length of the longest window, in seconds.
    pub window_max_s: f64,
    /// The operations that a window needs for the objective's percentiles.
    pub operations_min: u64,
    /// The limit of attempts.
    pub tries_max: u32,
    /// The sum of window lengths after which no attempt begins, in seconds.
    pub budget_s: f64,
    /// The additional time for confirming windows, in seconds.
    pub overtime_s: f64,
}

/// Steps down before the search concludes that no rate holds.
const DESCENTS_MAX: u32 = 8;
/// Steps up before the search concludes that no rate fails.
const CLIMBS_MAX: u32 = 24;
/// The factor of spare operations in a window, so that a late operation does not cost a percentile.
const SPARE: f64 = 1.2;

impl Settings {
    /// The default search, which takes about three minutes, or four until its ends are confirmed; `start` is
    /// the first rate.
    pub const fn standard(start: f64, operations_min: u64) -> Self {
        Self {
            start,
            factor: 1.5,
            resolution: 0.05,
            confirmations: 3,
            window_s: 5.0,
            window_confirm_s: 10.0,
            window_max_s: 30.0,
            operations_min,
            tries_max: 40,
            budget_s: 130.0,
            overtime_s: 60.0,
        }
    }

    /// The lowest rate at which the longest window has enough operations, in operations per second.
    fn floor(&self) -> f64 {
        self.operations_min as f64 * SPARE / self.window_max_s
    }
}

/// The next attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// Its purpose.
    pub stage: Stage,
    /// Operations per second.
    pub rate: f64,
    /// The length in seconds.
    pub window_s: f64,
}

/// One end of the bracket.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Edge {
    rate: f64,
    confirmed: u32,
    /// The number of contradictions: each moves the end outward by a step twice as large.
    moved: u32,
}

impl Edge {
    const fn new(rate: f64) -> Self {
        Self { rate, confirmed: 0, moved: 0 }
    }

    /// Moves the end after a contradiction: `outward` gets its rate and the factor of the step.
    fn contradicted(self, resolution: f64, outward: impl Fn(f64, f64) -> f64) -> Self {
        let step = 1.0 + resolution * f64::from(2u32.saturating_pow(self.moved.min(16)));
        Self { rate: outward(self.rate, step), confirmed: 0, moved: self.moved + 1 }
    }
}

/// A running search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    settings: Settings,
    stage: Stage,
    low: Option<Edge>,
    high: Option<Edge>,
    trying: f64,
    /// Every attempted rate, and whether it held.
    attempted: Vec<(f64, bool)>,
    spent_s: f64,
    bisections: u32,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The highest rate that held every time.
    pub low: Option<f64>,
    /// The lowest rate that failed every time.
    pub high: Option<f64>,
    /// Doubts about the result, in sentences.
    pub notes: Vec<String>,
}

impl Search {
    /// A search before its first attempt.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            stage: Stage::Climb,
            low: None,
            high: None,
            trying: settings.start.max(settings.floor()),
            attempted: Vec::new(),
            spent_s: 0.0,
            bisections: 0,
        }
    }

    /// The next rate; none when the search is over.
    pub fn next(&self) -> Option<Attempt> {
        if self.is_spent() || self.is_hopeless() || self.is_endless() || self.is_confirmed() {
            return None;
        }
        Some(Attempt { stage: self.stage, rate: self.trying, window_s: self.window_s() })
    }

    /// Records the verdict on the rate of [`Self::next`].
    pub fn record(&mut self, held: bool) {
        self.spent_s += self.window_s();
        self.attempted.push((self.trying, held));
        match self.stage {
            Stage::Confirm => self.confirm(held),
            _ => self.narrow(held),
        }
        self.aim();
    }

    /// The current bracket. An unconfirmed bracket spans from the highest rate below every failure to the
    /// lowest above every success, if such rates were attempted.
    pub fn found(&self) -> Found {
        if self.is_confirmed() {
            return Found {
                low: self.low.map(|edge| edge.rate),
                high: self.high.map(|edge| edge.rate),
                notes: Vec::new(),
            };
        }
        let (low, high) = self.uncontradicted();
        let note = match (self.low, self.high) {
            (None, _) => self.nothing_held(),
            (_, None) => "no rate failed: the load line lies above every attempted rate".to_owned(),
            (Some(low), Some(high)) => self.not_confirmed(low.moved + high.moved),
        };
        Found { low, high, notes: vec![note] }
    }

    /// Only contradictions show an unsteady system.
    fn not_confirmed(&self, contradictions: u32) -> String {
        let times = self.settings.confirmations;
        let unsteady = "within the time limit: the system is not steady enough for a narrower interval";
        let hurried = "within the time limit (the system may still be steady): --thorough has no such limit";
        let why = if contradictions > 0 { unsteady } else { hurried };
        format!("the bracket was not confirmed {times} times {why}")
    }

    fn nothing_held(&self) -> String {
        let lowest = self.attempted.iter().map(|(rate, _)| *rate).fold(f64::INFINITY, f64::min);
        let floor = self.settings.floor();
        if lowest > floor {
            return format!("no rate held, down to {lowest:.1} operations/s");
        }
        format!(
            "no rate held, down to {floor:.1} operations/s: below that, {:.0} s hold fewer than the {} operations that \
             the objective's percentile needs; use a lower percentile in line.objective, or --thorough",
            self.settings.window_max_s, self.settings.operations_min
        )
    }

    /// The highest rate that held below every failure, and the lowest that failed above every success. After
    /// the low end has moved, a rate above it that held only once is avoided if another exists: it may lie
    /// just below a rate that failed its confirmation.
    fn uncontradicted(&self) -> (Option<f64>, Option<f64>) {
        let of = |held: bool| self.attempted.iter().filter(move |(_, it)| *it == held).map(|(rate, _)| *rate);
        let (failed_min, held_max) = (of(false).fold(f64::INFINITY, f64::min), of(true).fold(0.0, f64::max));
        let end = self.low.map_or(f64::INFINITY, |low| low.rate);
        let below = || of(true).filter(move |rate| *rate < failed_min);
        let low = below().filter(|rate| *rate <= end).max_by(f64::total_cmp);
        let low = low.or_else(|| below().max_by(f64::total_cmp));
        let high = of(false).filter(|rate| *rate > held_max).min_by(f64::total_cmp);
        (low, high)
    }

    fn narrow(&mut self, held: bool) {
        let edge = Some(Edge::new(self.trying));
        if held {
            self.low = edge;
        } else {
            self.high = edge;
        }
    }

    fn confirm(&mut self, held: bool) {
        let (resolution, floor) = (self.settings.resolution, self.settings.floor());
        let (Some(low), Some(high)) = (&mut self.low, &mut self.high) else { return };
        let at_low = self.trying == low.rate;
        match (at_low, held) {
            (true, true) => low.confirmed += 1,
            (false, false) => high.confirmed += 1,
            (true, false) => *low = low.contradicted(resolution, |rate, step| (rate / step).max(floor)),
            (false, true) => *high = high.contradicted(resolution, |rate, step| rate * step),
        }
    }

    /// Sets stage and rate of the next attempt.
    fn aim(&mut self) {
        (self.stage, self.trying) = match (self.low, self.high) {
            (None, _) => (Stage::Climb, (self.trying / self.settings.factor).max(self.settings.floor())),
            (Some(low), None) => (Stage::Climb, low.rate * self.settings.factor),
            (Some(low), Some(high)) if self.stage == Stage::Confirm || self.is_narrow(low, high) => {
                (Stage::Confirm, self.end_to_confirm(low, high).rate)
            }
            (Some(low), Some(high)) => {
                self.bisections += 1;
                (Stage::Bisect, (low.rate * high.rate).sqrt())
            }
        };
    }

    /// Ends take turns, so that a change of the system affects both equally; in overtime the low end comes
    /// first, because it is the result.
    fn end_to_confirm(&self, low: Edge, high: Edge) -> Edge {
        let is_turn_of_low = low.confirmed <= high.confirmed || self.spent_s >= self.settings.budget_s;
        if is_turn_of_low && low.confirmed < self.settings.confirmations { low } else { high }
    }

    fn is_narrow(&self, low: Edge, high: Edge) -> bool {
        // A slack of 0.5 ‰ prevents a further bisection because of rounding.
        high.rate <= low.rate * (1.0 + self.settings.resolution) * 1.0005
    }

    fn is_confirmed(&self) -> bool {
        let enough =
            |edge: Option<Edge>| edge.is_some_and(|edge| edge.confirmed >= self.settings.confirmations);
        self.stage == Stage::Confirm && enough(self.low) && enough(self.high)
    }

    fn is_spent(&self) -> bool {
        let overtime_s = if self.stage == Stage::Confirm { self.settings.overtime_s } else { 0.0 };
        self.tries() >= self.settings.tries_max || self.spent_s >= self.settings.budget_s + overtime_s
    }

    fn is_hopeless(&self) -> bool {
        let at_floor = self.attempted.iter().any(|(rate, _)| *rate <= self.settings.floor());
        self.low.is_none() && (at_floor || self.tries() > DESCENTS_MAX)
    }

    fn is_endless(&self) -> bool {
        self.high.is_none() && self.tries() >= CLIMBS_MAX
    }

    fn tries(&self) -> u32 {
        u32::try_from(self.attempted.len()).unwrap_or(u32::MAX)
    }

    /// Windows grow as the bracket shrinks and are long enough for the percentiles, within their limit.
    fn window_s(&self) -> f64 {
        let settings = &self.settings;
        let base = match self.stage {
            Stage::Confirm => settings.window_confirm_s,
            _ => (settings.window_s * 1.2f64.powi(self.bisections as i32)).min(settings.window_confirm_s),
        };
        let support = settings.operations_min as f64 * SPARE / self.trying;
        base.max(support.min(settings.window_max_s)).ceil()
    }
}

#[cfg(test)]
mod tests;
