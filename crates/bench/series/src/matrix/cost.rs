//! Estimates documents, time and disk of a matrix, and refuses a matrix that exceeds its bounds.

use plimsoll_report::units::{bytes, duration};

use super::run_estimate::RunEstimate;
use plimsoll_scenario::Bounds;

/// Bytes on the server's disk for each byte of a document: the document, its index entry, the journal, and data that the
/// storage engine has not compressed yet.
pub const DISK_FACTOR: f64 = 2.0;

/// The estimate of a whole matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The number of cells.
    pub cells: u32,
    /// The number of runs.
    pub runs: u32,
    /// The total number of documents of all runs for which it is known.
    pub documents: u64,
    /// The mean size of a document over all runs, in bytes.
    pub document_bytes: f64,
    /// The total number of documents stored before the loads.
    pub filled: u64,
    /// The number of runs with an unknown number of documents.
    pub uncounted: u32,
    /// The total seconds of all loads that have a duration, and of all other steps of the runs.
    pub seconds: f64,
    /// The number of runs whose load has no duration.
    pub unlimited: u32,
    /// The largest number of bytes on the server's disk at any time.
    pub disk_bytes: u64,
}

/// Whether collections stay after their audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Each collection is dropped after its audit.
    Nothing,
    /// All collections stay.
    Everything,
}

/// Adds up the estimates of `runs` for this number of cells.
pub fn estimate(cells: usize, runs: &[RunEstimate], keep: Keep) -> Estimate {
    let kept = |run: &RunEstimate| (run.documents.unwrap_or(0) + run.filled) as f64;
    let disk = |run: &RunEstimate| (kept(run) * run.document_bytes * DISK_FACTOR) as u64;
    let count = |is: fn(&RunEstimate) -> bool| runs.iter().filter(|run| is(run)).count() as u32;
    Estimate {
        cells: cells as u32,
        runs: runs.len() as u32,
        documents: runs.iter().filter_map(|run| run.documents).sum(),
        document_bytes: runs.iter().map(|run| run.document_bytes).sum::<f64>() / runs.len().max(1) as f64,
        filled: runs.iter().map(|run| run.filled).sum(),
        uncounted: count(|run| run.documents.is_none()),
        seconds: runs.iter().map(|run| run.load_s.unwrap_or(0.0) + run.around_s).sum(),
        unlimited: count(|run| run.load_s.is_none()),
        disk_bytes: match keep {
            Keep::Nothing => runs.iter().map(disk).max().unwrap_or(0),
            Keep::Everything => runs.iter().map(disk).sum(),
        },
    }
}

/// The reason to refuse the matrix: it would take more than its bounds, or more than `free` bytes on the disk of a server that
/// this program starts. `None` if it may start.
pub fn refusal(estimate: &Estimate, bounds: &Bounds, free: Option<u64>) -> Option<String> {
    let remedy = "pick fewer values with --only";
    if estimate.seconds > bounds.time.as_secs() {
        return Some(format!(
            "matrix.bounds.time: {} runs take up to {}, and {} are allowed; {remedy}, or raise the bound with --set \
             matrix.bounds.time={}",
            estimate.runs,
            duration(estimate.seconds),
            bounds.time,
            minutes(estimate.seconds)
        ));
    }
    let needs = format!("up to {} are needed at once on the server's disk", bytes(estimate.disk_bytes));
    if estimate.disk_bytes > bounds.disk.get() {
        return Some(format!(
            "matrix.bounds.disk: {needs}, and {} are allowed; {remedy}, or raise the bound with --set \
             matrix.bounds.disk={}GB",
            bounds.disk,
            estimate.disk_bytes.div_ceil(1_000_000_000)
        ));
    }
    free.filter(|free| estimate.disk_bytes > *free).map(|free| {
        format!(
            "the disk: {needs}, and {} are free; {remedy}, free some space, or name another place for temporary files \
             with TMPDIR",
            bytes(free)
        )
    })
}

/// The time, rounded up to whole minutes, in the form for `--set`.
fn minutes(seconds: f64) -> String {
    format!("{:.0}m", (seconds / 60.0).ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn run(documents: Option<u64>, load_s: Option<f64>) -> RunEstimate {
        RunEstimate { documents, document_bytes: 500.0, load_s, around_s: 8.0, filled: 0 }
    }

    fn bounds(time: &str, disk: &str) -> Bounds {
        Bounds { time: time.parse().unwrap(), disk: disk.parse().unwrap() }
    }

    #[test]
    fn only_the_largest_collection_needs_disk_unless_all_stay() {
        let filled = RunEstimate { filled: 500_000, ..run(Some(500_000), None) };
        let runs = [filled, run(Some(3_000_000), Some(10.0)), run(None, Some(5.0))];
        let dropped = estimate(2, &runs, Keep::Nothing);
        assert_eq!((dropped.cells, dropped.runs, dropped.documents), (2, 3, 3_500_000));
        assert_eq!((dropped.uncounted, dropped.unlimited, dropped.filled), (1, 1, 500_000));
        assert_eq!(dropped.disk_bytes, 3 * GB);
        assert_eq!(dropped.seconds, 8.0 + 8.0 + 10.0 + 8.0 + 5.0);
        assert_eq!(estimate(2, &runs, Keep::Everything).disk_bytes, 4 * GB);
    }

    #[test]
    fn a_matrix_over_a_bound_is_refused_with_its_numbers_and_the_remedy() {
        let run = RunEstimate { around_s: 48.0, ..run(Some(2_000_000), Some(600.0)) };
        let estimate = estimate(1, &[run], Keep::Nothing);
        assert_eq!(refusal(&estimate, &bounds("1h", "4GB"), Some(4 * GB)), None);
        for (bounds, free, parts) in [
            (bounds("10m", "4GB"), None, ["up to 10 min 48 s", "--set matrix.bounds.time=11m"]),
            (bounds("1h", "1GB"), None, ["1.86 GiB are needed", "--set matrix.bounds.disk=2GB"]),
            (bounds("1h", "4GB"), Some(GB), ["954 MiB are free", "TMPDIR"]),
        ] {
            let refused = refusal(&estimate, &bounds, free).unwrap();
            assert!(parts.iter().all(|part| refused.contains(part)), "{refused}");
        }
    }
}
