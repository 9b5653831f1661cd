//! Formats the announcement of a matrix and the output of `--list`.

use plimsoll_measure::matrix::LeftOut;
use plimsoll_report::text::hanging;
use plimsoll_report::units::{bytes, counted, duration, exact};

use super::cells::Cell;
use super::cost::{DISK_FACTOR, Estimate, Keep};
use super::run_estimate::Share;
use super::runs::Planned;
use crate::isolation::Venue;
use plimsoll_scenario::Bounds;

/// Columns of the names of facts.
const WIDTH: usize = 12;

/// Everything that is planned.
#[derive(Clone, Copy, Debug)]
pub struct Intent<'a> {
    /// The scenario's title.
    pub title: &'a str,
    /// What it takes.
    pub estimate: &'a Estimate,
    /// What it may take.
    pub bounds: &'a Bounds,
    /// What is left out.
    pub left_out: &'a [LeftOut],
    /// The runs.
    pub runs: &'a [Planned],
    /// Runs that were made before.
    pub made: usize,
    /// Whether what was written stays.
    pub keep: Keep,
    /// Where runs are made.
    pub venue: Venue,
}

/// What the matrix will do, a line each.
pub fn announce(intent: &Intent<'_>) -> String {
    let estimate = intent.estimate;
    let mut lines = vec![format!(
        "{}: {}, {}",
        intent.title,
        counted(estimate.cells.into(), "cell"),
        counted(estimate.runs.into(), "run")
    )];
    let facts = [
        ("documents", Some(documents(estimate))),
        ("time", Some(time(estimate, intent.bounds))),
        ("filled in", (estimate.filled > 0).then(|| filled(estimate))),
        ("disk", (intent.venue != Venue::Service).then(|| disk(estimate, intent))),
        (name_of_places(intent.venue), places(intent)),
        (
            "made before",
            (intent.made > 0).then(|| format!("{}, not made again", counted(intent.made as u64, "run"))),
        ),
    ];
    let facts = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
    lines.extend(facts.map(|(name, value)| hanging(&value, &format!("  {name:<WIDTH$} "))));
    let out = format!("  {:<WIDTH$} ", "left out");
    lines.extend(intent.left_out.iter().map(|rule| hanging(&left_out(rule), &out)));
    lines.join("\n")
}

fn documents(estimate: &Estimate) -> String {
    let known = format!("{} in all", exact(estimate.documents));
    let each = (estimate.document_bytes > 0.0).then(|| bytes(estimate.document_bytes as u64));
    match estimate.uncounted {
        0 => each.map_or_else(|| known.clone(), |each| format!("{known}, about {each} each")),
        runs => format!("{known}, and those of {} that time alone ends", counted(runs.into(), "run")),
    }
}

fn time(estimate: &Estimate, bounds: &Bounds) -> String {
    let bound = bounds.time;
    match estimate.unlimited {
        0 => format!("at most {} of {bound} allowed", duration(estimate.seconds)),
        runs => format!(
            "at most {bound}, the bound: {} of {} have no limit of time of their own and get what is left of it",
            runs,
            counted(estimate.runs.into(), "run")
        ),
    }
}

fn filled(estimate: &Estimate) -> String {
    format!("{} readings and activities in all, before the loads", exact(estimate.filled))
}

fn disk(estimate: &Estimate, intent: &Intent<'_>) -> String {
    let at_least = if estimate.uncounted > 0 { "at least" } else { "up to" };
    let which = match (intent.keep, intent.venue) {
        (Keep::Nothing, Venue::Database) => "the largest collection",
        (Keep::Everything, Venue::Database) => "all collections",
        (Keep::Nothing, _) => "the largest database",
        (Keep::Everything, _) => "all databases",
    };
    format!(
        "{at_least} {} on the server at once, of {} allowed: {which}, its documents × their mean size × {DISK_FACTOR}",
        bytes(estimate.disk_bytes),
        intent.bounds.disk
    )
}

const fn name_of_places(venue: Venue) -> &'static str {
    match venue {
        Venue::Database => "collections",
        Venue::Databases => "databases",
        Venue::Service | Venue::Anew => "each run",
    }
}

/// What the runs write to, and what becomes of it.
fn places(intent: &Intent<'_>) -> Option<String> {
    let fate = match (intent.venue, intent.keep) {
        (Venue::Service, _) => {
            let words =
                "begins with what those before it left in the service: nobody but you can put that back";
            return Some(words.to_owned());
        }
        (Venue::Anew, Keep::Nothing) => {
            return Some(
                "starts a server and the service of its own, and ends them; --keep keeps the storage"
                    .to_owned(),
            );
        }
        (Venue::Anew, Keep::Everything) => {
            return Some(
                "starts a server and the service of its own; the storage stays in its directory".to_owned(),
            );
        }
        (Venue::Database, Keep::Nothing) => {
            "are made, and each is dropped after its audit unless something is wrong in it; --keep keeps all"
        }
        (Venue::Databases, Keep::Nothing) => "are made, and each is dropped after its run; --keep keeps all",
        (_, Keep::Everything) => "are made and stay",
    };
    let (first, last) = (intent.runs.first()?, intent.runs.last()?);
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

/// The cells, one a line.
pub fn list(cells: &[Cell], shares: &[Share]) -> String {
    let line = |(cell, share): (&Cell, &Share)| {
        let values: Vec<_> = cell.values.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        let documents = share
            .documents
            .map_or_else(|| "as many as time allows".to_owned(), |count| counted(count, "document"));
        let time = share.load_s.map_or_else(
            || "no limit of time".to_owned(),
            |seconds| format!("at most {}", duration(seconds)),
        );
        format!("{:>4}  {}  ({documents}, {time})\n", cell.number, values.join(" "))
    };
    cells.iter().zip(shares).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_will_happen_is_said() {
        let run = |number, collection: &str| Planned {
            number,
            cell: 0,
            repetition: 1,
            directory: String::new(),
            collection: collection.to_owned(),
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
        let intent = Intent {
            title: "writes",
            estimate: &estimate,
            bounds: &Bounds::default(),
            left_out: &[rule],
            runs: &[run(1, "a.b_1"), run(2, "a.b_2")],
            made: 1,
            keep: Keep::Nothing,
            venue: Venue::Database,
        };
        let said = announce(&intent);
        for part in [
            "writes: 2 cells, 2 runs",
            "20,000 in all",
            "at most 1h, the bound: 1 of 2 runs",
            "up to 1.00 GiB",
            "× 2",
            "a.b_1 to a.b_2 are made, and each is dropped after its audit",
            "w=0: it makes no sense (1 cell)",
            "1 run, not made again",
        ] {
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
        for (venue, part) in [
            (Venue::Service, "each run begins with what those before it left"),
            (Venue::Anew, "each run starts a server and the service of its own"),
            (Venue::Databases, "databases a.b_1 to a.b_2 are made, and each is dropped after its run"),
        ] {
            let estimate = Estimate { filled: 36_000, ..estimate };
            let said = announce(&Intent { venue, estimate: &estimate, ..intent });
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(part) && said.contains("36,000 readings and activities"), "{said}");
            assert_eq!(said.contains("the largest database"), venue != Venue::Service, "{said}");
        }
    }
}
