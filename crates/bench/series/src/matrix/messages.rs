//! Formats the announcement of a matrix and the output of `--list`.

use plimsoll_measure::matrix::{CellRun, LeftOut};
use plimsoll_report::text::{Width, hanging};
use plimsoll_report::units::{bytes, counted, duration, exact};

use super::cells::Cell;
use super::cost::{DISK_FACTOR, Estimate, Keep};
use super::run_estimate::RunEstimate;
use plimsoll_run::system::Isolation;
use plimsoll_scenario::Bounds;

/// The width of the names of facts, in columns.
const NAMES: usize = 12;

/// The facts of an announcement.
#[derive(Clone, Copy, Debug)]
pub struct Announcement<'a> {
    /// The scenario's title.
    pub title: &'a str,
    /// The estimate of the missing runs.
    pub estimate: &'a Estimate,
    /// The bounds of the matrix.
    pub bounds: &'a Bounds,
    /// The excluded combinations.
    pub left_out: &'a [LeftOut],
    /// The runs.
    pub runs: &'a [CellRun],
    /// The number of runs that are done already.
    pub made: usize,
    /// Whether the data of the runs stays.
    pub keep: Keep,
    /// The isolation of the runs.
    pub isolation: &'a Isolation,
}

/// The announcement, one fact after the other, in lines of at most `width`.
pub fn announce(announcement: &Announcement<'_>, width: Width) -> String {
    let estimate = announcement.estimate;
    let counts = [counted(estimate.cells.into(), "cell"), counted(estimate.runs.into(), "run")].join(", ");
    let mut lines = vec![hanging(&format!("{}: {counts}", announcement.title), "", width)];
    let facts = [
        ("documents", Some(documents(estimate))),
        ("time", Some(time(estimate, announcement.bounds))),
        ("filled in", (estimate.filled > 0).then(|| filled(estimate))),
        ("disk", (*announcement.isolation != Isolation::Shared).then(|| disk(estimate, announcement))),
        (name_of_places(announcement.isolation), places(announcement)),
        (
            "done before",
            (announcement.made > 0)
                .then(|| format!("{}, not repeated", counted(announcement.made as u64, "run"))),
        ),
    ];
    let facts = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
    lines.extend(facts.map(|(name, value)| hanging(&value, &format!("  {name:<NAMES$} "), width)));
    let out = format!("  {:<NAMES$} ", "left out");
    lines.extend(announcement.left_out.iter().map(|rule| hanging(&left_out(rule), &out, width)));
    lines.join("\n")
}

fn documents(estimate: &Estimate) -> String {
    let known = format!("{} in all", exact(estimate.documents));
    let each = (estimate.document_bytes > 0.0).then(|| bytes(estimate.document_bytes as u64));
    match estimate.uncounted {
        0 => each.map_or_else(|| known.clone(), |each| format!("{known}, about {each} each")),
        runs => format!("{known}, plus {} limited by time alone", counted(runs.into(), "run")),
    }
}

fn time(estimate: &Estimate, bounds: &Bounds) -> String {
    let bound = bounds.time;
    match estimate.unlimited {
        0 => format!("at most {} of {bound} allowed", duration(estimate.seconds)),
        runs => format!(
            "at most {bound}: {} of {} have no duration and use the remaining time",
            runs,
            counted(estimate.runs.into(), "run")
        ),
    }
}

fn filled(estimate: &Estimate) -> String {
    format!("{} readings and activities in all, before the loads", exact(estimate.filled))
}

fn disk(estimate: &Estimate, announcement: &Announcement<'_>) -> String {
    let at_least = if estimate.uncounted > 0 { "at least" } else { "up to" };
    let which = match (announcement.keep, announcement.isolation) {
        (Keep::Nothing, Isolation::Collection) => "the largest collection",
        (Keep::Everything, Isolation::Collection) => "all collections",
        (Keep::Nothing, _) => "the largest database",
        (Keep::Everything, _) => "all databases",
    };
    format!(
        "{at_least} {} on the server at once, of {} allowed: {which}, its documents × their mean size × {DISK_FACTOR}",
        bytes(estimate.disk_bytes),
        announcement.bounds.disk
    )
}

const fn name_of_places(isolation: &Isolation) -> &'static str {
    match isolation {
        Isolation::Collection => "collections",
        Isolation::Database { .. } => "databases",
        Isolation::Shared | Isolation::Fresh => "each run",
    }
}

/// The collections or databases, and whether they stay.
fn places(announcement: &Announcement<'_>) -> Option<String> {
    let fate = match (announcement.isolation, announcement.keep) {
        (Isolation::Shared, _) => {
            return Some(
                "starts with the data of earlier runs in the service, which only you can remove".into(),
            );
        }
        (Isolation::Fresh, keep) => {
            let storage = match keep {
                Keep::Nothing => ", and ends them; --keep keeps the storage",
                Keep::Everything => "; the storage stays in its directory",
            };
            return Some(format!("starts its own server and service{storage}"));
        }
        (Isolation::Collection, Keep::Nothing) => {
            "are created, and each is dropped after its audit unless something is wrong in it; --keep keeps all"
        }
        (Isolation::Database { .. }, Keep::Nothing) => {
            "are created, and each is dropped after its run; --keep keeps all"
        }
        (_, Keep::Everything) => "are created and stay",
    };
    let (first, last) = (announcement.runs.first()?, announcement.runs.last()?);
    let names = if first.number == last.number {
        first.collection.clone()
    } else {
        format!("{} to {}", first.collection, last.collection)
    };
    Some(format!("{names} {fate}"))
}

fn left_out(rule: &LeftOut) -> String {
    let when: Vec<_> =
        rule.when.iter().map(|(axis, values)| format!("{axis}={}", values.join(","))).collect();
    format!("{}: {} ({})", when.join(" "), rule.because, counted(rule.cells.into(), "cell"))
}

/// The cells, one after the other, in lines of at most `width`.
pub fn list(cells: &[Cell], estimates: &[RunEstimate], width: Width) -> String {
    let line = |(cell, estimate): (&Cell, &RunEstimate)| {
        let values: Vec<_> = cell.values.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        let documents = estimate
            .documents
            .map_or_else(|| "as many as time allows".to_owned(), |count| counted(count, "document"));
        let time = estimate.load_s.map_or_else(
            || "no limit of time".to_owned(),
            |seconds| format!("at most {}", duration(seconds)),
        );
        let cell = hanging(&values.join(" "), &format!("{:>4}  ", cell.number), width);
        let limits = format!("({documents}, {time})");
        let last = cell.lines().next_back().map_or(0, |line| line.chars().count());
        let is_short = last + 2 + limits.chars().count() <= width.0;
        if is_short { format!("{cell}  {limits}\n") } else { format!("{cell}\n      {limits}\n") }
    };
    cells.iter().zip(estimates).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_announcement_contains_every_fact() {
        let run = |number, collection: &str| CellRun {
            number,
            collection: collection.to_owned(),
            ..CellRun::default()
        };
        let estimate = Estimate {
            cells: 2,
            runs: 2,
            documents: 20_000,
            document_bytes: 500.0,
            seconds: 90.0,
            unlimited: 1,
            disk_bytes: 1 << 30,
            ..Estimate::default()
        };
        let rule = LeftOut {
            when: [("w".to_owned(), vec!["0".to_owned()])].into(),
            because: "it makes no sense".into(),
            cells: 1,
        };
        let announcement = Announcement {
            title: "writes",
            estimate: &estimate,
            bounds: &Bounds::default(),
            left_out: &[rule],
            runs: &[run(1, "a.b_1"), run(2, "a.b_2")],
            made: 1,
            keep: Keep::Nothing,
            isolation: &Isolation::Collection,
        };
        let said = announce(&announcement, Width::PIPE);
        for part in [
            "writes: 2 cells, 2 runs",
            "20,000 in all",
            "at most 1h: 1 of 2 runs",
            "up to 1.00 GiB",
            "× 2",
            "a.b_1 to a.b_2 are created, and each is dropped after its audit",
            "w=0: it makes no sense (1 cell)",
            "1 run, not repeated",
        ] {
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(part), "{part}: {said}");
        }
        for width in [60, 80, 100, 140] {
            let said = announce(&announcement, Width(width));
            assert!(said.lines().all(|line| line.chars().count() <= width), "{said}");
        }
        let database = Isolation::Database { path: String::new(), name: String::new() };
        for (isolation, part) in [
            (&Isolation::Shared, "each run starts with the data of earlier runs"),
            (&Isolation::Fresh, "each run starts its own server and service, and ends them"),
            (&database, "databases a.b_1 to a.b_2 are created, and each is dropped after its run"),
        ] {
            let estimate = Estimate { filled: 36_000, ..estimate };
            let said =
                announce(&Announcement { isolation, estimate: &estimate, ..announcement }, Width::PIPE);
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(part) && said.contains("36,000 readings and activities"), "{said}");
            assert_eq!(said.contains("the largest database"), *isolation != Isolation::Shared, "{said}");
        }
    }
}
