//! Judges background loads, which must keep up during a search.
//!
//! Background loads do not count for the load line, but a rate at which they fall behind does not hold.

use crate::objective::{Objective, Window};
use crate::rate_floor::ACHIEVED_MIN;

/// A load that keeps its rate while the search varies the rate of another load.
#[derive(Clone, Debug, Default)]
pub struct BackgroundLoad {
    /// Its name.
    pub name: String,
    /// This load's window.
    pub window: Window,
    /// The load's connections: at most this many operations are in flight when a window ends.
    pub connections: u32,
}

impl BackgroundLoad {
    /// The reasons why the load did not keep up, in sentences. Its latency is not judged: the objective
    /// applies to the searched load, and at a small rate a window has too few operations for a percentile.
    pub(crate) fn judge(&self, objective: &Objective) -> Vec<String> {
        let window = &self.window;
        let skipped = window.tally.skipped;
        let skipped = (skipped > 0).then(|| format!("{skipped} operations were skipped"));
        let errors = objective.judge_errors(window);
        let reasons = errors.into_iter().chain(skipped).chain(self.behind(window));
        reasons.map(|reason| format!("background load {}: {reason}", self.name)).collect()
    }

    /// Operations in flight when a window ends do not count as missing: at a small rate they exceed the
    /// allowed share.
    fn behind(&self, window: &Window) -> Option<String> {
        let (due, done) = (window.tally.due, window.tally.completed());
        let missing = due.saturating_sub(done);
        let is_behind = window.achieved() < ACHIEVED_MIN && missing > u64::from(self.connections);
        is_behind.then(|| format!("it fell behind: {done} of {due} due operations were done"))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::clock::{Instant, SECOND_NS};
    use plimsoll_measure::interval::{Instants, Reply, Tally};
    use plimsoll_measure::outcome::{Outcome, Rejection};

    use super::*;
    use crate::second::Second;

    /// A load of 4 connections with 100 due operations per second: `done` are done, `failed` of these with an error.
    fn load(done: u64, failed: u64) -> BackgroundLoad {
        let at = Instant::default();
        let instants = Instants { due: at, awake: at, sent: at, done: at + SECOND_NS };
        let mut tally = Tally { due: 100, ..Tally::default() };
        for number in 0..done {
            let bad = Reply::failed(Outcome::Rejected(Rejection::Overload), 1);
            tally.record(&instants, &if number < failed { bad } else { Reply::acknowledged(1) });
        }
        let second = |index: u64| Second {
            from_ns: index * SECOND_NS,
            to_ns: (index + 1) * SECOND_NS,
            tallies: vec![tally.clone()],
            ..Second::default()
        };
        let mut window = Window::default();
        (0..3).map(second).for_each(|second| window.add(&second));
        BackgroundLoad { name: "feed".into(), window, connections: 4 }
    }

    #[test]
    fn a_background_load_must_keep_up_and_may_be_slow() {
        let judge = |done, failed| load(done, failed).judge(&Objective::standard());
        assert_eq!(judge(100, 0), [] as [String; 0], "a second each, and the objective says 50 ms");
        assert_eq!(judge(98, 0), [] as [String; 0], "four are in flight");
        assert_eq!(
            judge(97, 0),
            ["background load feed: it fell behind: 194 of 200 due operations were done"]
        );
        assert_eq!(judge(100, 1), ["background load feed: 2 errors: 2 overload"]);
    }
}
