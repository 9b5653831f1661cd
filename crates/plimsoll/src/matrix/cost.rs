//! What a matrix will cost: documents, time and disk, and whether that is more than it may.

use plimsoll_document::Source;
use plimsoll_load::phase::{Load, Phase};
use plimsoll_load::stop::Stop;
use plimsoll_mongo::maker::identity;
use plimsoll_mongo::setup::Setup;
use plimsoll_report::units::{bytes, duration};

use super::cells::Cell;
use crate::plan::Plan;
use crate::scenario::Bounds;

/// Bytes on the server's disk for each byte of a document: the document, its index entry, the journal, and what the
/// storage engine has not compressed yet.
pub const DISK_FACTOR: f64 = 2.0;
/// What a run takes beside its load, in seconds: the pings and the ceiling before and after, connecting, the page.
pub const RUN_S: f64 = 8.0;
/// How fast documents are taken to be read back.
pub const AUDIT_PER_S: f64 = 50_000.0;
/// Documents that are encoded to learn their mean size.
const SAMPLES: u64 = 500;

/// What one run of a cell takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Documents at most; nothing where only time ends the load.
    pub documents: Option<u64>,
    /// Mean bytes of a document.
    pub document_bytes: f64,
    /// Seconds of load at most; nothing where only documents or operations end it.
    pub load_s: Option<f64>,
}

/// What the whole matrix takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Combinations.
    pub cells: u32,
    /// Runs.
    pub runs: u32,
    /// Documents of the runs that are limited by them.
    pub documents: u64,
    /// Mean bytes of a document over all cells.
    pub document_bytes: f64,
    /// Runs whose documents are not known beforehand.
    pub uncounted: u32,
    /// Seconds of what is limited by time, and of everything around the loads.
    pub seconds: f64,
    /// Runs whose load has no limit of time of its own.
    pub unlimited: u32,
    /// Bytes on the server's disk at once.
    pub disk_bytes: u64,
}

/// Whether collections stay after their audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Each is dropped after its audit.
    Nothing,
    /// All stay.
    Everything,
}

/// What one run of a cell takes.
pub fn share(cell: &Cell, setup: &Setup) -> Share {
    let phases = &cell.plan.phases;
    Share {
        documents: phases.iter().map(|phase| documents(&cell.plan, phase)).sum(),
        document_bytes: setup.source.as_ref().map_or(0.0, |source| mean_bytes(source, setup)),
        load_s: phases.iter().map(seconds).sum(),
    }
}

/// Documents that a phase inserts at most; nothing if it is not known.
fn documents(plan: &Plan, phase: &Phase) -> Option<u64> {
    let batch = |load: &Load| {
        let operations = load.mix.iter().map(|(index, _)| &plan.operations[*index].1);
        let batches = operations.filter(|operation| operation.makes());
        batches.map(|operation| u64::from(operation.documents())).max().unwrap_or(0)
    };
    if phase.loads.iter().all(|load| batch(load) == 0) {
        return Some(0);
    }
    let of_loads = |count: fn(&Load, Stop) -> Option<u64>| {
        let inserts = phase.loads.iter().filter(|load| batch(load) > 0);
        inserts.map(|load| Some(count(load, phase.stop)? * batch(load))).sum::<Option<u64>>()
    };
    let (by_operations, by_time) = (of_loads(counted), of_loads(timed));
    [phase.stop.documents, by_operations, by_time].into_iter().flatten().min()
}

/// Operations of a load at most, by its limits.
fn counted(load: &Load, phase: Stop) -> Option<u64> {
    let limits = load.limits(phase);
    let each = limits.operations_each.map(|each| each * u64::from(load.arrivals.connections()));
    limits.operations.into_iter().chain(each).min()
}

/// Operations of an open load at most, by its highest rate and its time.
fn timed(load: &Load, phase: Stop) -> Option<u64> {
    let span_s = load.end(phase)?.as_secs() - load.timing.start.as_secs();
    Some((load.arrivals.peak()? * span_s).ceil() as u64)
}

/// Seconds that a phase takes at most, with what it may take to send what is overdue.
fn seconds(phase: &Phase) -> Option<f64> {
    let is_open = phase.loads.iter().any(|load| load.arrivals.is_open());
    let drain = if is_open { phase.drain.as_secs() } else { 0.0 };
    phase.stop.duration.map(|span| span.as_secs() + drain)
}

fn mean_bytes(source: &Source, setup: &Setup) -> f64 {
    let count = source.documents_max().map_or(SAMPLES, |most| most.min(SAMPLES)).max(1);
    let mut encoded = Vec::new();
    for number in 0..count {
        // A number past the end of a file adds nothing.
        let _ = source.encode(number, &identity(setup.run, number), &mut encoded);
    }
    encoded.len() as f64 / count as f64
}

/// What `runs` of so many cells take together, a share for each run.
pub fn estimate(cells: usize, runs: &[Share], keep: Keep) -> Estimate {
    let disk =
        |share: &Share| (share.documents.unwrap_or(0) as f64 * share.document_bytes * DISK_FACTOR) as u64;
    let count = |is: fn(&Share) -> bool| runs.iter().filter(|run| is(run)).count() as u32;
    Estimate {
        cells: cells as u32,
        runs: runs.len() as u32,
        documents: runs.iter().filter_map(|run| run.documents).sum(),
        document_bytes: runs.iter().map(|run| run.document_bytes).sum::<f64>() / runs.len().max(1) as f64,
        uncounted: count(|run| run.documents.is_none()),
        seconds: runs.iter().map(around_s).sum(),
        unlimited: count(|run| run.load_s.is_none()),
        disk_bytes: match keep {
            Keep::Nothing => runs.iter().map(disk).max().unwrap_or(0),
            Keep::Everything => runs.iter().map(disk).sum(),
        },
    }
}

/// What a run takes that is known beforehand: its load, if that is limited by time, and everything around it. Documents
/// of an unknown number are read back faster than they were written.
fn around_s(share: &Share) -> f64 {
    let load_s = share.load_s.unwrap_or(0.0);
    let audit_s = share.documents.map_or(load_s, |documents| documents as f64 / AUDIT_PER_S);
    RUN_S + load_s + audit_s
}

/// Why the matrix is not started: it would take more than its bounds, or than `free` bytes on the disk of a server of
/// ours. Nothing if it may.
pub fn refusal(estimate: &Estimate, bounds: &Bounds, free: Option<u64>) -> Option<String> {
    let mend = "pick fewer values with --only";
    if estimate.seconds > bounds.time.as_secs() {
        return Some(format!(
            "matrix.bounds.time: {} runs take up to {}, and {} are allowed; {mend}, or raise the bound with --set \
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
            "matrix.bounds.disk: {needs}, and {} are allowed; {mend}, or raise the bound with --set \
             matrix.bounds.disk={}GB",
            bounds.disk,
            estimate.disk_bytes.div_ceil(1_000_000_000)
        ));
    }
    free.filter(|free| estimate.disk_bytes > *free).map(|free| {
        format!(
            "the disk: {needs}, and {} are free; {mend}, free some space, or name another place for temporary files \
             with TMPDIR",
            bytes(free)
        )
    })
}

/// A time that is enough, as `--set` takes it.
fn minutes(seconds: f64) -> String {
    format!("{:.0}m", (seconds / 60.0).ceil())
}

#[cfg(test)]
mod tests {
    use super::super::cells::tests::{SCENARIO, expanded};
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn share(documents: Option<u64>, load_s: Option<f64>) -> Share {
        Share { documents, document_bytes: 500.0, load_s }
    }

    fn bounds(time: &str, disk: &str) -> Bounds {
        Bounds { time: time.parse().unwrap(), disk: disk.parse().unwrap() }
    }

    fn shares(text: &str, only: &[&str]) -> Vec<Share> {
        let cells = expanded(text, only).unwrap().cells;
        let share = |cell: &Cell| {
            let run = plimsoll_ledger::Run { time_s: 0, tag: [0; 3] };
            let context = plimsoll_mongo::setup::Context { seed: 0, run, base: &cell.loaded.base };
            let section = cell.loaded.scenario.section();
            super::share(cell, &Setup::build(&section, &cell.plan.database(), context).unwrap())
        };
        cells.iter().map(share).collect()
    }

    #[test]
    fn a_cell_takes_what_its_phases_take() {
        let found = shares(SCENARIO, &[]);
        assert_eq!(
            found.iter().map(|share| share.documents).collect::<Vec<_>>(),
            [Some(10_000), Some(10_000), Some(1_000_000)]
        );
        assert!(found.iter().all(|share| share.load_s.is_none()));
        assert!((140.0..190.0).contains(&found[0].document_bytes), "{}", found[0].document_bytes);
        assert_eq!(shares(SCENARIO, &["size=10M"])[0].load_s, Some(600.0));
    }

    #[test]
    fn documents_follow_from_any_limit_or_are_not_known() {
        for (stop, expected) in [
            ("{operations: 7, duration: 5s}", Some(7_000)),
            ("{duration: 5s}", None),
            ("{documents: 10, operations: 7}", Some(10)),
        ] {
            let text =
                SCENARIO.replace("phases.0.stop.documents: 10000}", &format!("phases.0.stop: {stop}}}"));
            assert_eq!(shares(&text, &["strategy=many", "size=10K"])[0].documents, expected, "{stop}");
        }
        let open = SCENARIO
            .replace("closed: {writers: 1}", "constant: {rate: 20}")
            .replace("phases.0.stop.documents: 10000}", "phases.0.stop: {duration: 5s}}");
        let found = shares(&open, &["strategy=many", "size=10K"])[0];
        let load_s = 5.0 + plimsoll_load::phase::DRAIN.as_secs();
        assert_eq!((found.documents, found.load_s), (Some(100_000), Some(load_s)), "open arrivals may drain");
    }

    #[test]
    fn only_the_largest_collection_is_there_at_once_unless_all_are_kept() {
        let runs = [share(Some(1_000_000), None), share(Some(3_000_000), Some(10.0)), share(None, Some(5.0))];
        let dropped = estimate(2, &runs, Keep::Nothing);
        assert_eq!((dropped.cells, dropped.runs, dropped.documents), (2, 3, 4_000_000));
        assert_eq!((dropped.uncounted, dropped.unlimited), (1, 1));
        assert_eq!(dropped.disk_bytes, 3 * GB);
        assert_eq!(dropped.seconds, 8.0 + 20.0 + 8.0 + 10.0 + 60.0 + 8.0 + 5.0 + 5.0);
        assert_eq!(estimate(2, &runs, Keep::Everything).disk_bytes, 4 * GB);
    }

    #[test]
    fn what_is_over_a_bound_is_refused_with_the_numbers_and_the_mend() {
        let estimate = estimate(1, &[share(Some(2_000_000), Some(600.0))], Keep::Nothing);
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
