//! Schedules the writers of a closed load whose number changes by stages: arithmetic on a writer's number.

use std::ops::Range;

use crate::arrivals::{Arrivals, Stage};

/// The number of writers at each moment, in nanoseconds from the load's start.
///
/// Within a stage the number changes by one, evenly: of `n` steps the i-th comes after i ÷ n of the stage, so that it ends at
/// its target. Writer w works while the number exceeds w.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shifts {
    /// (start, number of writers), in order; the last entry stays.
    steps: Vec<(u64, u32)>,
}

impl Shifts {
    /// The shifts of arrivals with a changing number of writers; none for all others.
    pub fn of(arrivals: &Arrivals) -> Option<Self> {
        let Arrivals::Writers { from, stages } = arrivals else { return None };
        let mut steps = vec![(0, *from)];
        let (mut at_ns, mut writers) = (0, *from);
        for stage in stages {
            climb(&mut steps, at_ns, writers, stage);
            at_ns += stage.over.as_ns();
            writers = stage.to;
        }
        Some(Self { steps })
    }

    /// The next shift of a writer that ends after `at_ns`; none after its last.
    pub fn next(&self, writer: u64, at_ns: u64) -> Option<Range<u64>> {
        let works = |step: &&(u64, u32)| u64::from(step.1) > writer;
        let current = self.steps.partition_point(|(from_ns, _)| *from_ns <= at_ns).saturating_sub(1);
        let rest = &self.steps[current..];
        let begins = rest.iter().position(|step| works(&step))?;
        let ends = rest[begins..].iter().find(|step| !works(step));
        Some(rest[begins].0..ends.map_or(u64::MAX, |(at_ns, _)| *at_ns))
    }
}

/// Adds every step of a stage that starts at `at_ns` with `writers`.
fn climb(steps: &mut Vec<(u64, u32)>, at_ns: u64, writers: u32, stage: &Stage<u32>) {
    let count = stage.to.abs_diff(writers);
    for step in 1..=count {
        let after_ns = u128::from(stage.over.as_ns()) * u128::from(step) / u128::from(count);
        let number = if stage.to > writers { writers + step } else { writers - step };
        steps.push((at_ns + after_ns as u64, number));
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::clock::SECOND_NS;
    use plimsoll_measure::duration::Span;

    use super::*;

    fn shifts(from: u32, stages: &[(u32, u64)]) -> Shifts {
        let stages = stages.iter().map(|(to, over_s)| Stage { to: *to, over: Span::from_secs(*over_s) });
        Shifts::of(&Arrivals::Writers { from, stages: stages.collect() }).unwrap()
    }

    /// Every stretch of a writer, in seconds.
    fn all(shifts: &Shifts, writer: u64) -> Vec<Range<f64>> {
        let mut at_ns = 0;
        let next = || {
            let stretch = shifts.next(writer, at_ns)?;
            at_ns = stretch.end;
            Some(stretch.start as f64 / SECOND_NS as f64..stretch.end as f64 / SECOND_NS as f64)
        };
        std::iter::from_fn(next).take(10).collect()
    }

    #[test]
    fn writers_start_and_stop_evenly_within_a_stage() {
        let shifts = shifts(1, &[(3, 10), (3, 5), (0, 6)]);
        assert_eq!(all(&shifts, 0), [0.0..21.0]);
        assert_eq!(all(&shifts, 1), [5.0..19.0]);
        assert_eq!(all(&shifts, 2), [10.0..17.0]);
        assert_eq!(all(&shifts, 3), []);
    }

    #[test]
    fn a_writer_may_pause_and_return_and_the_last_number_stays() {
        let shifts = shifts(0, &[(2, 0), (0, 2), (1, 0)]);
        assert_eq!(all(&shifts, 1), [0.0..1.0]);
        let first = all(&shifts, 0);
        assert_eq!(first[0].end, 2.0);
        assert_eq!(shifts.next(0, 5 * SECOND_NS).unwrap().end, u64::MAX);
    }
}
