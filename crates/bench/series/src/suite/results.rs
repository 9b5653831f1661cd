//! Writes `results.csv`: a line for each ended run, appended at its end.
//!
//! A line is complete with its line feed. When the file is opened again, an incomplete line of a crash is removed, and its run
//! is repeated.

use std::fs::{self, OpenOptions};
use std::io::Write;

use anyhow::Context;
use plimsoll_measure::suite::Row;
use serde_json::{Map, Value};

use super::table;
use crate::directory::{SeriesDir, full};

/// The name of the results file.
const FILE: &str = "results.csv";
/// The columns, in order.
const COLUMNS: [&str; 24] = [
    "run",
    "test",
    "kind",
    "what",
    "repetition",
    "outcome",
    "from_ms",
    "to_ms",
    "unit",
    "rate_per_s",
    "total",
    "p50_ns",
    "p99_ns",
    "p99_9_ns",
    "max_ns",
    "errors",
    "lost",
    "client_cpu_us",
    "server_cpu_us",
    "exit",
    "directory",
    "reason",
    "mean_ns",
    "p95_ns",
];
/// The number of columns of earlier versions.
const COLUMNS_BEFORE: usize = 22;
/// The columns of texts; all others are numbers.
const TEXTS: [&str; 7] = ["test", "kind", "what", "outcome", "unit", "directory", "reason"];
/// The indexes of the columns with measured figures.
const MEASURED: [std::ops::Range<usize>; 2] = [8..19, COLUMNS_BEFORE..COLUMNS.len()];

/// Replaces all lines of a suite's results.
///
/// # Errors
/// When the file cannot be written.
pub fn write(dir: &SeriesDir, rows: &[Row]) -> anyhow::Result<()> {
    dir.replace(FILE, &text(rows))
}

/// Appends a line. The line is on the disk when this returns.
///
/// # Errors
/// When the file cannot be written.
pub fn append(dir: &SeriesDir, row: &Row) -> anyhow::Result<()> {
    let file = OpenOptions::new().append(true).open(dir.path().join(FILE));
    let written = file.and_then(|mut file| {
        file.write_all(line(row).as_bytes())?;
        file.sync_data()
    });
    written.with_context(|| full(dir.path()))
}

/// Reads all complete lines of a suite's results.
///
/// # Errors
/// When the file is missing, or the user changed it.
pub fn open(dir: &SeriesDir) -> anyhow::Result<Vec<Row>> {
    let bytes = fs::read(dir.path().join(FILE)).with_context(|| format!("read {FILE}"))?;
    read(&String::from_utf8_lossy(&bytes)).context(FILE)
}

fn text(rows: &[Row]) -> String {
    table::write(COLUMNS) + &rows.iter().map(line).collect::<String>()
}

/// A line, with its line feed.
fn line(row: &Row) -> String {
    // A row is a plain structure of texts and numbers, so it always has a tree.
    let tree = serde_json::to_value(row).unwrap_or_default();
    let cell = |column: &&str| match tree.get(column).unwrap_or(&tree["measured"][*column]) {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let cells: Vec<_> = COLUMNS.iter().map(cell).collect();
    table::write(cells.iter().map(String::as_str))
}

/// The rows of a file that may be cut off anywhere. If a run has two rows, the later one counts.
fn read(text: &str) -> anyhow::Result<Vec<Row>> {
    let whole = text.rfind('\n').map_or("", |at| &text[..=at]);
    let headings =
        [COLUMNS.len(), COLUMNS_BEFORE].map(|count| table::write(COLUMNS[..count].iter().copied()));
    let Some(lines) = headings.iter().find_map(|heading| whole.strip_prefix(heading.as_str())) else {
        anyhow::ensure!(
            whole.is_empty(),
            "the first line names other columns: use the version that wrote it, or start anew without --resume"
        );
        return Ok(Vec::new());
    };
    let mut rows: Vec<Row> = Vec::new();
    for line in table::read(lines)? {
        let number = line.line + 1;
        let row = row(&line.values)
            .with_context(|| format!("line {number} is not a result: remove it to repeat its run"))?;
        rows.retain(|known| known.run != row.run);
        rows.push(row);
    }
    Ok(rows)
}

fn row(values: &[String]) -> Option<Row> {
    if ![COLUMNS_BEFORE, COLUMNS.len()].contains(&values.len()) {
        return None;
    }
    let cells =
        COLUMNS.iter().zip(values).map(|(column, text)| Some(((*column).to_owned(), value(column, text)?)));
    let cells: Vec<(String, Value)> = cells.collect::<Option<_>>()?;
    let is_figure = |(column, _): &(String, Value)| {
        MEASURED.iter().any(|range| COLUMNS[range.clone()].contains(&column.as_str()))
    };
    let (figures, others): (Vec<_>, Vec<_>) = cells.into_iter().partition(is_figure);
    let (figures, mut tree) = (Map::from_iter(figures), Map::from_iter(others));
    let is_measured = figures["unit"] != "";
    tree.insert("measured".to_owned(), if is_measured { figures.into() } else { Value::Null });
    serde_json::from_value(tree.into()).ok()
}

/// The value of a cell; `None` if a number is required and the text is not one.
fn value(column: &str, text: &str) -> Option<Value> {
    match (TEXTS.contains(&column), text) {
        (true, "") if column == "reason" => Some(Value::Null),
        (true, text) => Some(text.into()),
        (false, "") => Some(Value::Null),
        (false, text) => {
            let count = text.parse::<u64>().map(Value::from).ok();
            count.or_else(|| text.parse::<f64>().map(Value::from).ok())
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::suite::{Measured, Outcome};

    use super::*;

    fn rows() -> Vec<Row> {
        let measured = Measured {
            unit: "documents".into(),
            rate_per_s: 163_007.125,
            total: 95_487_000,
            p50_ns: Some(1_000),
            p99_9_ns: None,
            mean_ns: Some(1_200),
            max_ns: Some(9_000_000),
            lost: Some(0),
            client_cpu_us: Some(0.31),
            ..Measured::default()
        };
        let row = |run: u32, outcome, measured, reason: Option<&str>| Row {
            run,
            test: format!("test-{run}"),
            what: "bulk-baseline".into(),
            repetition: 1,
            outcome,
            from_ms: 1_774_197_419_960,
            to_ms: 1_774_198_024_811,
            measured,
            exit: 99,
            directory: format!("00{run}-test-{run}"),
            reason: reason.map(str::to_owned),
            ..Row::default()
        };
        vec![
            row(1, Outcome::Completed, Some(measured.clone()), None),
            row(2, Outcome::Hung, None, Some("no progress, \"at all\", for 30 s")),
            row(3, Outcome::Failed, Some(Measured { lost: None, ..measured }), Some("# lost, é")),
        ]
    }

    #[test]
    fn results_read_back_as_they_were_written() {
        assert_eq!(read(&text(&rows())).unwrap(), rows());
        assert_eq!(read("").unwrap(), []);
        assert_eq!(table::write(COLUMNS).trim_end().split(',').count(), COLUMNS.len());
    }

    #[test]
    fn every_complete_row_of_a_file_cut_at_any_byte_is_read() {
        let (rows, text) = (rows(), text(&rows()));
        for end in 0..=text.len() {
            let cut = String::from_utf8_lossy(&text.as_bytes()[..end]);
            let whole =
                text.as_bytes()[..end].iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
            assert_eq!(read(&cut).unwrap(), rows[..whole], "cut at byte {end}");
        }
    }

    #[test]
    fn results_of_earlier_versions_are_read_without_the_new_columns() {
        let old = |line: &str| line.rsplitn(3, ',').last().unwrap_or_default().to_owned();
        let text: String = text(&rows()[..1]).lines().map(|line| old(line) + "\n").collect();
        let mut expected = rows()[0].clone();
        let measured = expected.measured.as_mut().unwrap();
        (measured.mean_ns, measured.p95_ns) = (None, None);
        assert_eq!(read(&text).unwrap(), [expected]);
    }

    #[test]
    fn the_later_of_two_rows_of_one_run_counts() {
        let mut again = rows()[1].clone();
        again.outcome = Outcome::Completed;
        let read = read(&(text(&rows()) + &line(&again))).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(read.last(), Some(&again));
    }

    #[test]
    fn a_changed_file_is_refused_with_its_line() {
        let text = text(&rows());
        let message = |text: &str| format!("{:#}", read(text).unwrap_err());
        assert!(message(&text.replace("run,", "nr,")).contains("names other columns"));
        assert!(message(&text.replace("hung", "fine")).contains("line 3 is not a result"));
    }
}
