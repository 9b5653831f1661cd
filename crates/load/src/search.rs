//! The search for the load line, as a pure state machine: which rate to try next, and when the answer is known.
//!
//! Geometric steps up (down, where the first step fails), then bisection on the logarithm of the rate, then the bracket
//! is confirmed: its low end must hold and its high end must fail, several times, in turns. An end that contradicts
//! itself is moved outward, by steps that double, so that noise widens the interval instead of being argued away.

use plimsoll_measure::line::Stage;

/// How to search. Rates are operations per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The first rate to try.
    pub start: f64,
    /// Factor between two steps of the climb.
    pub factor: f64,
    /// The bracket is narrow enough when its high end is at most this share above its low end.
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
    /// No try begins when the windows so far add up to this, in seconds.
    pub budget_s: f64,
}

/// Steps down before the search says that no rate holds.
const DESCENTS_MAX: u32 = 8;
/// Steps up before the search says that no rate fails.
const CLIMBS_MAX: u32 = 24;
/// Spare operations in a window, so that a late one does not cost the support.
const SPARE: f64 = 1.2;

impl Settings {
    /// The default search, in about three minutes; `start` is the first rate.
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
        }
    }

    /// The lowest rate at which the longest window has enough operations to judge, in operations per second.
    fn floor(&self) -> f64 {
        self.operations_min as f64 * SPARE / self.window_max_s
    }
}

/// What to try next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Try {
    /// Why.
    pub stage: Stage,
    /// Operations per second.
    pub rate: f64,
    /// For how long, in seconds.
    pub window_s: f64,
}

/// One end of the bracket.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Edge {
    rate: f64,
    confirmed: u32,
    /// How often it contradicted itself: each time it moves outward twice as far.
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

/// A search under way.
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

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The highest rate that held every time.
    pub low: Option<f64>,
    /// The lowest rate that failed every time.
    pub high: Option<f64>,
    /// What could not be established, in sentences.
    pub notes: Vec<String>,
}

impl Search {
    /// A search that has not tried anything.
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

    /// The next rate to try; nothing when the search is over.
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

    /// The bracket as it stands. One that was not confirmed spans from the highest rate below every failure to the
    /// lowest above every success, as far as they were tried.
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
            _ => format!(
                "the bracket was not confirmed {} times in the time given: the system is not steady enough for a \
                 narrower interval",
                self.settings.confirmations
            ),
        };
        Found { low, high, notes: vec![note] }
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

    /// The highest rate that held below everything that failed, and the lowest that failed above everything that held.
    fn uncontradicted(&self) -> (Option<f64>, Option<f64>) {
        let of = |held: bool| self.tried.iter().filter(move |(_, it)| *it == held).map(|(rate, _)| *rate);
        let (failed_min, held_max) = (of(false).fold(f64::INFINITY, f64::min), of(true).fold(0.0, f64::max));
        let low = of(true).filter(|rate| *rate < failed_min).max_by(f64::total_cmp);
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
                // In turns, so that a change of the system meets both ends alike.
                let rate = if low.confirmed <= high.confirmed { low.rate } else { high.rate };
                let rate = if low.confirmed >= self.settings.confirmations { high.rate } else { rate };
                (Stage::Confirm, rate)
            }
            (Some(low), Some(high)) => {
                self.bisections += 1;
                (Stage::Bisect, (low.rate * high.rate).sqrt())
            }
        };
    }

    fn is_narrow(&self, low: Edge, high: Edge) -> bool {
        // Half a per mille of slack keeps rounding from costing a whole bisection.
        high.rate <= low.rate * (1.0 + self.settings.resolution) * 1.0005
    }

    fn is_confirmed(&self) -> bool {
        let enough =
            |edge: Option<Edge>| edge.is_some_and(|edge| edge.confirmed >= self.settings.confirmations);
        self.stage == Stage::Confirm && enough(self.low) && enough(self.high)
    }

    fn is_spent(&self) -> bool {
        self.tries() >= self.settings.tries_max || self.spent_s >= self.settings.budget_s
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
mod tests {
    use super::*;
    use crate::mix::scramble;

    /// Searches a system whose verdict on a rate is `holds`; gives what was found and the tries.
    fn search(start: f64, holds: impl FnMut(f64) -> bool) -> (Found, Vec<Try>) {
        search_with(Settings::standard(start, 1000), holds)
    }

    fn search_with(settings: Settings, mut holds: impl FnMut(f64) -> bool) -> (Found, Vec<Try>) {
        let mut search = Search::new(settings);
        let mut tries = Vec::new();
        while let Some(next) = search.next() {
            tries.push(next);
            search.tell(holds(next.rate));
        }
        (search.found(), tries)
    }

    #[test]
    fn a_sharp_line_is_found_within_the_resolution_from_any_start() {
        for line in [60.0, 170.0, 999.0, 54_321.0] {
            for start in [line / 30.0, line / 2.0, line * 1.1, line * 5.0] {
                let settings = Settings { budget_s: f64::INFINITY, ..Settings::standard(start, 1000) };
                let (found, tries) = search_with(settings, |rate| rate <= line);
                let (low, high) = (found.low.unwrap(), found.high.unwrap());
                assert!(low <= line && line < high && high / low < 1.0506, "{line} from {start}: {found:?}");
                assert_eq!(found.notes, [] as [String; 0]);
                let confirming = tries.iter().filter(|it| it.stage == Stage::Confirm).count();
                assert_eq!(confirming, 6);
            }
        }
    }

    #[test]
    fn the_default_search_fits_in_three_minutes() {
        // A closed warm-up gives a start at a third of the ceiling; the line lies a little under the ceiling.
        let (_, tries) = search(100.0, |rate| rate <= 260.0);
        let total_s: f64 = tries.iter().map(|it| it.window_s + 1.5).sum();
        assert!(total_s < 165.0, "{total_s}");
    }

    #[test]
    fn a_system_that_is_never_steady_ends_in_time_with_an_interval_that_no_try_contradicts() {
        let mut tries = 0;
        let (found, all) = search(100.0, |rate| {
            tries += 1;
            rate < 150.0 || (rate < 600.0 && tries % 2 == 0)
        });
        let total_s: f64 = all.iter().map(|it| it.window_s).sum();
        assert!(total_s < 130.0 + 30.0, "{total_s}");
        assert!(found.low.is_some_and(|low| low < 600.0), "{found:?}");
        assert!(found.high.is_none_or(|high| high >= 150.0), "{found:?}");
    }

    #[test]
    fn windows_have_support_for_the_percentile() {
        for start in [0.1, 5.0, 50.0, 5000.0] {
            for line in [20.0, 45.0, 200.0] {
                let (_, tries) = search(start, |rate| rate <= line);
                assert!(tries.iter().all(|it| it.window_s * it.rate >= 1000.0), "{tries:?}");
            }
        }
    }

    #[test]
    fn a_line_too_low_to_be_judged_is_not_taken_for_a_failure_of_every_rate() {
        let (found, tries) = search(5.0, |rate| rate <= 20.0);
        assert_eq!((found.low, tries.len()), (None, 1));
        assert!(
            found.notes[0].contains("down to 40.0 operations/s: below that, 30 s hold fewer"),
            "{found:?}"
        );
        let few = Settings::standard(5.0, 100);
        let (found, _) = search_with(few, |rate| rate <= 20.0);
        assert!(found.low.is_some_and(|low| low <= 20.0), "{found:?}");
    }

    #[test]
    fn nothing_that_holds_is_said_to_be_so() {
        let (found, tries) = search(100.0, |_| false);
        assert_eq!(found.low, None);
        assert!(found.notes[0].starts_with("no rate held, down to"), "{found:?}");
        assert!(tries.len() <= 9);
    }

    #[test]
    fn nothing_that_fails_is_said_to_be_so() {
        let (found, _) = search(100.0, |_| true);
        assert_eq!(found.high, None);
        assert!(found.low.is_some() && found.notes[0].starts_with("no rate failed"));
    }

    #[test]
    fn noise_widens_the_interval_and_never_hides_the_line() {
        // Between 900 and 1100 the verdict is a coin toss.
        for seed in 0..200 {
            let mut toss = 0;
            let (found, _) = search(100.0, |rate| {
                toss += 1;
                rate < 900.0 || (rate < 1100.0 && scramble(seed, toss).is_multiple_of(2))
            });
            // An end may stay open when the time is over; what is said is never contradicted.
            assert!(found.low.is_none_or(|low| low < 1100.0), "seed {seed}: {found:?}");
            assert!(found.high.is_none_or(|high| high >= 900.0), "seed {seed}: {found:?}");
            assert!(found.low.is_some() && found.low.zip(found.high).is_none_or(|(low, high)| low < high));
        }
    }
}
