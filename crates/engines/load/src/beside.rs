//! Loads that go on at their own rates beside the one whose rate is searched: no part of the line, but a rate at which they
//! do not keep up does not hold.

use crate::engine::Second;
use crate::line::SETTLE_S;
use crate::objective::{ACHIEVED_MIN, Objective, Window};

/// What a load did that went on beside the one that is searched.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Its name.
    pub name: String,
    /// The seconds of the arrivals, the settling ones included, with nothing in them but what it did.
    pub seconds: Vec<Second>,
    /// Its connections: as many of its operations may be under way when a window ends.
    pub connections: u32,
}

impl Beside {
    /// How it did not keep up, in sentences. How long its operations took is not asked: the objective is one of the load
    /// that is searched, and at a small rate a window holds too few operations for a percentile.
    pub(crate) fn judge(&self, objective: &Objective) -> Vec<String> {
        let window = Window::of(self.seconds.get(SETTLE_S as usize..).unwrap_or_default());
        let skipped = window.tally.skipped;
        let skipped = (skipped > 0).then(|| format!("{skipped} operations were skipped"));
        let errors = objective.judge_errors(&window);
        let reasons = errors.into_iter().chain(skipped).chain(self.behind(&window));
        reasons.map(|reason| format!("beside it {}: {reason}", self.name)).collect()
    }

    /// What is under way when a window ends is not missing, and at a small rate that is more than a share.
    fn behind(&self, window: &Window) -> Option<String> {
        let (due, done) = (window.tally.due, window.tally.completed());
        let missing = due.saturating_sub(done);
        let is_behind = window.achieved() < ACHIEVED_MIN && missing > u64::from(self.connections);
        is_behind.then(|| format!("it fell behind: {done} of {due} that were due were done"))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::clock::{Instant, SECOND_NS};
    use plimsoll_measure::interval::{Instants, Reply, Tally};
    use plimsoll_measure::outcome::{Outcome, Rejection};

    use super::*;

    /// A load of 4 connections, 100 operations of which were due each second, and `done` done, `failed` of them badly.
    fn beside(done: u64, failed: u64) -> Beside {
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
        Beside { name: "feed".into(), seconds: (0..3).map(second).collect(), connections: 4 }
    }

    #[test]
    fn a_load_beside_the_search_must_keep_up_and_may_be_slow() {
        let judge = |done, failed| beside(done, failed).judge(&Objective::standard());
        assert_eq!(judge(100, 0), [] as [String; 0], "a second each, and the objective says 50 ms");
        assert_eq!(judge(98, 0), [] as [String; 0], "four are under way");
        assert_eq!(judge(97, 0), ["beside it feed: it fell behind: 194 of 200 that were due were done"]);
        assert_eq!(judge(100, 1), ["beside it feed: 2 errors: 2 overload"]);
    }
}
