//! Measures a fault's effect on the load: the longest silence, the first success after it, and the time until
//! the objective held again.

use plimsoll_measure::clock::{MILLISECOND_NS, SECOND_NS};
use plimsoll_measure::outcome::Failures;

use crate::engine::TenthLine;
use crate::fault::InjectedFault;

/// The shortest silence that counts as an outage, in nanoseconds.
const SILENCE_NS_MIN: u64 = 100 * MILLISECOND_NS;
/// The consecutive seconds for which the objective must hold again.
const SECONDS_HELD_MIN: usize = 3;

/// One second of a phase, for the measurement of outages. Moments are nanoseconds from the phase's start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Second {
    /// The start.
    pub from_ns: u64,
    /// The end.
    pub to_ns: u64,
    /// Operations that failed in this second.
    pub errors: Failures,
    /// Whether the objective held in this second alone.
    pub held: bool,
}

/// A fault's effect. Moments are nanoseconds from the phase's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outage {
    /// The last success before the longest silence; absent without an outage.
    pub last_success_ns: Option<u64>,
    /// The first failure after the fault began.
    pub first_error_ns: Option<u64>,
    /// The first success after the longest silence; absent without a silence, or if it never ended.
    pub first_success_ns: Option<u64>,
    /// Length of the longest silence; zero without an outage.
    pub silence_ns: u64,
    /// The start of the first consecutive seconds in which the objective held again.
    pub held_again_ns: Option<u64>,
    /// Failures from the fault's beginning to the beginning of the next one, or to the phase's end.
    pub errors: Failures,
}

/// Measures the effect of the fault that began at `happening`, up to `until_ns`. A silence counts as an outage if it is
/// longer than any before `calm_until_ns`, the moment of the phase's first fault.
pub fn outage(
    happening: &InjectedFault,
    until_ns: u64,
    calm_until_ns: u64,
    tenths: &[TenthLine],
    seconds: &[Second],
) -> Outage {
    let from_ns = happening.from_ns;
    let usual_ns = silences(tenths, calm_until_ns).filter(|it| it.1 <= calm_until_ns).map(length).max();
    // A silence that outlasts the next fault is counted up to that fault, and has no first success.
    let within = silences(tenths, until_ns).filter(|(from, to)| *to > from_ns && *from < until_ns);
    let within = within.map(|(from, to)| (from, to.min(until_ns)));
    let longest = within.max_by_key(|silence| length(*silence));
    let standing_out = longest.filter(|silence| length(*silence) > usual_ns.unwrap_or(0).max(SILENCE_NS_MIN));
    // The second in which the next fault begins belongs to that fault.
    let is_last = seconds.last().is_none_or(|last| last.from_ns < until_ns);
    let mine = |second: &Second| second.to_ns <= until_ns || is_last;
    let inside = |second: &&Second| second.to_ns > from_ns && second.from_ns < until_ns && mine(second);
    let mut errors = Failures::default();
    seconds.iter().filter(inside).for_each(|second| errors.merge(&second.errors));
    let ended = |(_, to_ns): (u64, u64)| {
        to_ns < until_ns && tenths.iter().any(|tenth| tenth.first_ok_ns == Some(to_ns))
    };
    let first_success_ns = standing_out.filter(|silence| ended(*silence)).map(|(_, to_ns)| to_ns);
    let succeeded = |at_ns: &u64| tenths.iter().any(|tenth| tenth.last_ok_ns == Some(*at_ns));
    let first_error = tenths.iter().filter_map(|tenth| tenth.first_failed_ns).find(|at_ns| *at_ns >= from_ns);
    let never_again = standing_out.is_some() && first_success_ns.is_none();
    Outage {
        last_success_ns: standing_out.map(|(from_ns, _)| from_ns).filter(succeeded),
        first_error_ns: first_error.filter(|at_ns| *at_ns < until_ns),
        first_success_ns,
        silence_ns: standing_out.map_or(0, length),
        held_again_ns: held_again(seconds, first_success_ns.unwrap_or(from_ns), mine)
            .filter(|_| !never_again),
        errors,
    }
}

const fn length((from_ns, to_ns): (u64, u64)) -> u64 {
    to_ns.saturating_sub(from_ns)
}

/// Every silence: from the phase's start, between two tenths with successes, and to `end_ns`.
fn silences(tenths: &[TenthLine], end_ns: u64) -> impl Iterator<Item = (u64, u64)> {
    let lasts = std::iter::once(0).chain(tenths.iter().filter_map(|tenth| tenth.last_ok_ns));
    let firsts = tenths.iter().filter_map(|tenth| tenth.first_ok_ns);
    lasts.zip(firsts.chain(std::iter::once(end_ns)))
}

/// The first full second of `mine`, at or after `after_ns`, from which the objective held long enough.
fn held_again(seconds: &[Second], after_ns: u64, mine: impl Fn(&Second) -> bool) -> Option<u64> {
    let whole = |it: &&Second| it.from_ns >= after_ns && it.to_ns - it.from_ns == SECOND_NS;
    let full: Vec<_> = seconds.iter().filter(|it| whole(it) && mine(it)).collect();
    full.windows(SECONDS_HELD_MIN).find(|row| row.iter().all(|it| it.held)).map(|row| row[0].from_ns)
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::outcome::{Doubt, Outcome};

    use super::*;

    const MS: u64 = MILLISECOND_NS;

    /// A load of one operation each 10 ms over 20 s; all operations in `down`, in milliseconds, fail.
    fn tenths(down: std::ops::Range<u64>) -> Vec<TenthLine> {
        (0..200)
            .map(|index| {
                let all: Vec<_> = (0..10).map(|op| index * 100 + op * 10).collect();
                let ok = all.iter().copied().filter(|at| !down.contains(at));
                let failed = all.iter().copied().find(|at| down.contains(at));
                TenthLine {
                    index,
                    first_ok_ns: ok.clone().min().map(|at| at * MS),
                    last_ok_ns: ok.max().map(|at| at * MS),
                    first_failed_ns: failed.map(|at| at * MS),
                    ..TenthLine::default()
                }
            })
            .collect()
    }

    fn seconds(held: impl Fn(u64) -> bool) -> Vec<Second> {
        let mut errors = Failures::default();
        errors.add(Outcome::Unknown(Doubt::ConnectionLost), 1);
        let second = |index: u64| Second {
            from_ns: index * SECOND_NS,
            to_ns: (index + 1) * SECOND_NS,
            errors: if held(index) { Failures::default() } else { errors },
            held: held(index),
        };
        (0..20).map(second).collect()
    }

    fn kill_at(at_ms: u64) -> InjectedFault {
        InjectedFault { from_ns: at_ms * MS, to_ns: Some((at_ms + 1000) * MS), ..InjectedFault::default() }
    }

    #[test]
    fn the_silence_around_a_fault_is_measured_to_the_operation() {
        let seconds = seconds(|second| !(5..8).contains(&second));
        let outage = outage(&kill_at(5_005), 20_000 * MS, 5_005 * MS, &tenths(5_010..7_230), &seconds);
        assert_eq!(outage.last_success_ns, Some(5_000 * MS));
        assert_eq!(outage.first_error_ns, Some(5_010 * MS));
        assert_eq!(outage.first_success_ns, Some(7_230 * MS));
        assert_eq!(outage.silence_ns, 2_230 * MS);
        assert_eq!(outage.held_again_ns, Some(8 * SECOND_NS));
        assert_eq!(outage.errors.unknown(), 3);
    }

    #[test]
    fn a_fault_without_effect_is_not_an_outage() {
        let outage = outage(&kill_at(5_005), 20_000 * MS, 5_005 * MS, &tenths(0..0), &seconds(|_| true));
        assert_eq!(outage, Outage { held_again_ns: Some(6 * SECOND_NS), ..Outage::default() });
    }

    #[test]
    fn a_silence_that_never_ends_has_no_first_success() {
        let seconds = seconds(|second| second < 5);
        let outage = outage(&kill_at(5_005), 20_000 * MS, 5_005 * MS, &tenths(5_010..99_000), &seconds);
        assert_eq!((outage.first_success_ns, outage.held_again_ns), (None, None));
        assert_eq!(outage.silence_ns, 15_000 * MS);
    }

    #[test]
    fn a_silence_belongs_to_the_fault_that_began_it() {
        // Two kills; the silence of the second begins shortly before it.
        let mut tenths = tenths(5_010..7_000);
        for tenth in &mut tenths[90..130] {
            *tenth = TenthLine { index: tenth.index, ..TenthLine::default() };
        }
        let (first, second) = (kill_at(5_005), kill_at(9_001));
        let seconds = seconds(|_| true);
        let of =
            |kill: &InjectedFault, until_ms: u64| outage(kill, until_ms * MS, 5_005 * MS, &tenths, &seconds);
        assert_eq!(of(&first, 9_001).silence_ns, 2_000 * MS);
        assert_eq!(of(&second, 20_000).first_success_ns, Some(13_000 * MS));
    }

    #[test]
    fn a_slow_load_is_not_taken_for_an_outage() {
        // One operation every two seconds.
        let tenth = |index| {
            let at_ns = (index % 20 == 0).then_some(index * 100 * MS);
            TenthLine { index, first_ok_ns: at_ns, last_ok_ns: at_ns, ..TenthLine::default() }
        };
        let tenths: Vec<_> = (0..200).map(tenth).collect();
        let outage = outage(&kill_at(5_005), 20_000 * MS, 5_005 * MS, &tenths, &seconds(|_| true));
        assert_eq!(outage.silence_ns, 0);
    }
}
