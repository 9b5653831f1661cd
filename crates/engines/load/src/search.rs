//! Searches for the load line as a pure state machine: it decides which rate to try next, and when the answer is known.
//!
//! It climbs in geometric steps (or descends, if the first step fails), bisects on the logarithm of the rate, and then
//! confirms the bracket: the low end must hold and the high end must fail, several times, in turns. An end that
//! contradicts itself moves outward, by steps that double, so that noise widens the interval. When the low end moves, the
//! high one stays: a rate between them has held before, and a lower high end would deny it. The result is the low end,
//! so it is confirmed first when time is short.

use plimsoll_measure::line::Stage;

/// The settings of a search. Rates are operations per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The first rate to try.
    pub start: f64,
    /// Factor between two steps of the climb.
    pub factor: f64,
    /// The bracket is narrow enough when its high end exceeds its low end by at most this share.
    pub resolution: f64,
    /// How often the low end must hold and the high end fail.
    pub confirmations: u32,
    /// Length of the first windows, in seconds.
    pub window_s: f64,
    /// Length of the windows that confirm, in seconds.
    pub window_confirm_s: f64,
    /// No window is longer, in seconds.
    pub window_max_s: f64,
    /// Operations that a window should have, so that the objective's percentiles have support.
    pub operations_min: u64,
    /// The search gives up after this many tries.
    pub tries_max: u32,
    /// No try begins when the windows add up to this, in seconds.
    pub budget_s: f64,
    /// Confirming windows may begin for this much longer, in seconds.
    pub overtime_s: f64,
}

/// Steps down before the search concludes that no rate holds.
const DESCENTS_MAX: u32 = 8;
/// Steps up before the search concludes that no rate fails.
const CLIMBS_MAX: u32 = 24;
/// Spare operations in a window, so that a late one does not cost the support.
const SPARE: f64 = 1.2;

impl Settings {
    /// The default search, in about three minutes, or four until its ends are confirmed; `start` is the first rate.
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

    /// The lowest rate at which the longest window has enough operations to judge, in operations per second.
    fn floor(&self) -> f64 {
        self.operations_min as f64 * SPARE / self.window_max_s
    }
}

/// The next try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Try {
    /// Its purpose.
    pub stage: Stage,
    /// Operations per second.
    pub rate: f64,
    /// Its length in seconds.
    pub window_s: f64,
}

/// One end of the bracket.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Edge {
    rate: f64,
    confirmed: u32,
    /// How often it contradicted itself: each time it moves outward by a step twice as large.
    moved: u32,
}

impl Edge {
    const fn new(rate: f64) -> Self {
        Self { rate, confirmed: 0, moved: 0 }
    }

    /// The end after a contradiction, `outward` of its rate.
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
    /// Every rate that was tried, and whether it held.
    tried: Vec<(f64, bool)>,
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
    /// A search before its first try.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            stage: Stage::Climb,
            low: None,
            high: None,
            trying: settings.start.max(settings.floor()),
            tried: Vec::new(),
            spent_s: 0.0,
            bisections: 0,
        }
    }

    /// The next rate to try; none when the search is over.
    pub fn next(&self) -> Option<Try> {
        if self.is_spent() || self.is_hopeless() || self.is_endless() || self.is_confirmed() {
            return None;
        }
        Some(Try { stage: self.stage, rate: self.trying, window_s: self.window_s() })
    }

    /// Takes the verdict on the rate that [`Self::next`] gave.
    pub fn tell(&mut self, held: bool) {
        self.spent_s += self.window_s();
        self.tried.push((self.trying, held));
        match self.stage {
            Stage::Confirm => self.confirm(held),
            _ => self.narrow(held),
        }
        self.aim();
    }

    /// The current bracket. An unconfirmed one spans from the highest rate below every failure to the lowest above every
    /// success, as far as they were tried.
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
            (_, None) => "no rate failed: the load line lies above everything that was tried".to_owned(),
            (Some(low), Some(high)) => self.not_confirmed(low.moved + high.moved),
        };
        Found { low, high, notes: vec![note] }
    }

    /// Only ends that contradicted themselves count against the system.
    fn not_confirmed(&self, contradictions: u32) -> String {
        let times = self.settings.confirmations;
        let unsteady = "in the time given: the system is not steady enough for a narrower interval";
        let hurried = "before the time given was over, which says nothing against the system: --thorough takes what it needs";
        let why = if contradictions > 0 { unsteady } else { hurried };
        format!("the bracket was not confirmed {times} times {why}")
    }

    fn nothing_held(&self) -> String {
        let lowest = self.tried.iter().map(|(rate, _)| *rate).fold(f64::INFINITY, f64::min);
        let floor = self.settings.floor();
        if lowest > floor {
            return format!("no rate held, down to {lowest:.1} operations/s");
        }
        format!(
            "no rate held, down to {floor:.1} operations/s: below that, {:.0} s hold fewer than the {} operations that \
             the objective's percentile needs, so say a lower percentile in line.objective, or --thorough",
            self.settings.window_max_s, self.settings.operations_min
        )
    }

    /// The highest rate that held below every failure, and the lowest that failed above every success. After the low end
    /// has moved, a rate above it that held only once is not taken if there is another: it may be barely below one that
    /// failed its confirmation.
    fn uncontradicted(&self) -> (Option<f64>, Option<f64>) {
        let of = |held: bool| self.tried.iter().filter(move |(_, it)| *it == held).map(|(rate, _)| *rate);
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

    /// Sets stage and rate of the next try.
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

    /// Ends take turns, so that a change of the system affects both alike; in overtime the low end comes first, because it
    /// is the result.
    fn end_to_confirm(&self, low: Edge, high: Edge) -> Edge {
        let is_turn_of_low = low.confirmed <= high.confirmed || self.spent_s >= self.settings.budget_s;
        if is_turn_of_low && low.confirmed < self.settings.confirmations { low } else { high }
    }

    fn is_narrow(&self, low: Edge, high: Edge) -> bool {
        // A slack of 0.5 ‰ keeps rounding from costing a whole bisection.
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
        let at_floor = self.tried.iter().any(|(rate, _)| *rate <= self.settings.floor());
        self.low.is_none() && (at_floor || self.tries() > DESCENTS_MAX)
    }

    fn is_endless(&self) -> bool {
        self.high.is_none() && self.tries() >= CLIMBS_MAX
    }

    fn tries(&self) -> u32 {
        u32::try_from(self.tried.len()).unwrap_or(u32::MAX)
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
