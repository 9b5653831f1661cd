//! Reads the progress of a build from cargo's status line, and estimates the remaining time.

/// The progress of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current step.
    pub step: Step,
    /// Nanoseconds since the start.
    pub elapsed_ns: u64,
    /// Nanoseconds to the end, estimated from the elapsed time; none while no estimate is possible.
    pub remaining_ns: Option<u64>,
}

/// A step of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Waits for another process that installs the server.
    Waiting,
    /// Fetches the sources.
    Fetching,
    /// Compiles.
    Compiling {
        /// Finished units of work, as cargo counts them: libraries, build scripts and their runs.
        done: u32,
        /// All units of work.
        total: u32,
        /// The unit that has been compiling for longest.
        name: String,
    },
    /// Finished.
    Installed,
}

/// The number of units in a measured build on two cores.
const UNITS: u32 = 290;
/// Finished units of the measured build, and the percentage of the total time that had passed by then. The
/// last units are the largest, and the final link alone takes a fifth.
const TIMELINE: [(u32, u32); 12] = [
    (0, 0),
    (29, 4),
    (87, 12),
    (145, 22),
    (203, 34),
    (232, 48),
    (246, 51),
    (261, 63),
    (275, 70),
    (284, 77),
    (289, 79),
    (UNITS, 100),
];
/// The smallest share of the total time, in percent, that allows an estimate.
const ESTIMATE_MIN: f64 = 3.0;

/// Tracks the progress of an installation.
#[derive(Debug)]
pub(super) struct Tracker {
    step: Step,
    /// Nanoseconds from the installation's start to the last finished unit.
    advanced_ns: u64,
}

impl Tracker {
    pub(super) const fn new() -> Self {
        Self { step: Step::Waiting, advanced_ns: 0 }
    }

    /// Begins a step.
    pub(super) fn begin(&mut self, step: Step) {
        self.step = step;
    }

    /// Reads a status line of cargo; ignores other lines, such as that of the downloads.
    pub(super) fn read(&mut self, line: &str, elapsed_ns: u64) {
        let Some((done, total, name)) = units(line) else { return };
        if !matches!(self.step, Step::Compiling { done: before, .. } if before == done) {
            self.advanced_ns = elapsed_ns;
        }
        self.step = Step::Compiling { done, total, name: name.to_owned() };
    }

    pub(super) fn at(&self, elapsed_ns: u64) -> Progress {
        Progress { step: self.step.clone(), elapsed_ns, remaining_ns: self.remaining_ns(elapsed_ns) }
    }

    /// The estimated nanoseconds to the end. `None` outside the compilation and early in it, and when the
    /// build takes longer than estimated: a better estimate needs the next unit.
    fn remaining_ns(&self, elapsed_ns: u64) -> Option<u64> {
        let Step::Compiling { done, total, .. } = self.step else { return None };
        let percent = time_percent(f64::from(done) / f64::from(total.max(1)) * f64::from(UNITS));
        let whole_ns = self.advanced_ns as f64 / percent * 100.0;
        (percent >= ESTIMATE_MIN && whole_ns > elapsed_ns as f64).then(|| whole_ns as u64 - elapsed_ns)
    }
}

/// Parses the units and the first name from a line such as `    Building [====>   ] 134/290: serde_json,
/// zstd-sys(build)`.
fn units(line: &str) -> Option<(u32, u32, &str)> {
    let (_, rest) = line.trim_start().strip_prefix("Building [")?.split_once("] ")?;
    let (counts, names) = rest.split_once(':').unwrap_or((rest, ""));
    let (done, total) = counts.trim().split_once('/')?;
    let name = names.split(',').next().unwrap_or_default().trim();
    Some((done.parse().ok()?, total.parse().ok()?, name.trim_end_matches("...")))
}

/// The percentage of the total time that has passed when `units` of [`UNITS`] are finished.
fn time_percent(units: f64) -> f64 {
    let mut spans = TIMELINE.windows(2).map(|span| {
        let [(from, begin), (to, end)] =
            [span[0], span[1]].map(|(units, time)| (f64::from(units), f64::from(time)));
        (to, begin + (units - from) / (to - from) * (end - begin))
    });
    spans.find(|(to, _)| units <= *to).map_or(100.0, |(_, time)| time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_are_read_from_cargos_status_line() {
        let line = "    Building [====>   ] 134/290: serde_json, zstd-sys(build)       ";
        assert_eq!(units(line), Some((134, 290, "serde_json")));
        assert_eq!(units("    Building [====>   ] 0/290"), Some((0, 290, "")));
        assert_eq!(units(" Downloading [=> ] 3 crates"), None);
        assert_eq!(units("   Compiling cc v1.2.3"), None);
    }

    #[test]
    fn the_timeline_rises_from_the_start_to_the_end() {
        assert!(TIMELINE.windows(2).all(|span| span[0].0 < span[1].0 && span[0].1 <= span[1].1));
        assert_eq!((time_percent(0.0), time_percent(f64::from(UNITS))), (0.0, 100.0));
    }

    #[test]
    fn the_estimate_of_another_measured_build_is_near_its_436_s() {
        for (seconds, done) in [(180.0, 216), (240.0, 249), (300.0, 274), (345.0, 289)] {
            let whole = seconds / time_percent(f64::from(done)) * 100.0;
            assert!((400.0..=470.0).contains(&whole), "{done}: {whole}");
        }
    }

    #[test]
    fn the_remaining_time_falls_as_time_passes_and_is_unknown_when_overdue() {
        const SECOND: u64 = 1_000_000_000;
        let mut tracker = Tracker::new();
        assert_eq!(tracker.at(SECOND).remaining_ns, None);
        tracker.read("Building [] 0/100: a", 2 * SECOND);
        assert_eq!(tracker.at(3 * SECOND).remaining_ns, None, "nothing is finished yet");
        tracker.read("Building [] 99/100: b", 60 * SECOND);
        let remaining_ns = |tracker: &Tracker, seconds| tracker.at(seconds * SECOND).remaining_ns;
        let first = remaining_ns(&tracker, 60).unwrap();
        tracker.read("Building [] 99/100: b", 61 * SECOND);
        assert!(remaining_ns(&tracker, 60).unwrap() == first, "only a finished unit gives a new estimate");
        assert_eq!(remaining_ns(&tracker, 60 + first / SECOND + 1), None);
    }
}
