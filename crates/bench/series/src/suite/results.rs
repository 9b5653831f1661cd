//! `results.csv`: a line for each run that ended, appended as it ends.
//!
//! A line is whole when its line feed is there. What a crash leaves behind it is cut off when the file is opened again, and
//! the run is made again.

use plimsoll_measure::suite::{Kind, Measured, Outcome, Row};

use super::table;

/// The columns, in order.
const COLUMNS: [&str; 22] = [
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
];
const KINDS: [Kind; 2] = [Kind::Scenario, Kind::Pipeline];

/// The first line, with its line feed.
pub fn header() -> String {
    table::write(COLUMNS)
}

/// A line, with its line feed.
pub fn line(row: &Row) -> String {
    let measured = row.measured.clone();
    let of =
        |pick: &dyn Fn(&Measured) -> Option<String>| measured.as_ref().and_then(pick).unwrap_or_default();
    let count = |value: Option<u64>| value.map(|value| value.to_string());
    let number = |value: Option<f64>| value.map(|value| value.to_string());
    let values = [
        row.run.to_string(),
        row.test.clone(),
        row.kind.name().to_owned(),
        row.what.clone(),
        row.repetition.to_string(),
        row.outcome.name().to_owned(),
        row.from_ms.to_string(),
        row.to_ms.to_string(),
        of(&|it| Some(it.unit.clone())),
        of(&|it| number(Some(it.rate_per_s))),
        of(&|it| count(Some(it.total))),
        of(&|it| count(it.p50_ns)),
        of(&|it| count(it.p99_ns)),
        of(&|it| count(it.p99_9_ns)),
        of(&|it| count(it.max_ns)),
        of(&|it| count(Some(it.errors))),
        of(&|it| count(it.lost)),
        of(&|it| number(it.client_cpu_us)),
        of(&|it| number(it.server_cpu_us)),
        row.exit.to_string(),
        row.directory.clone(),
        row.reason.clone().unwrap_or_default(),
    ];
    table::write(values.iter().map(String::as_str))
}

/// The rows of a file that may have been cut anywhere. Of two rows of one run the later one counts.
///
/// # Errors
/// What a whole line should have been: somebody changed the file.
pub fn read(text: &str) -> anyhow::Result<Vec<Row>> {
    let whole = text.rfind('\n').map_or("", |at| &text[..=at]);
    let Some(lines) = whole.strip_prefix(&header()) else {
        anyhow::ensure!(
            whole.is_empty(),
            "the first line names other columns: use the version that wrote it, or begin anew without --resume"
        );
        return Ok(Vec::new());
    };
    let mut rows: Vec<Row> = Vec::new();
    for line in table::read(lines)? {
        let number = line.line + 1;
        let row = row(&line.values).ok_or_else(|| {
            anyhow::anyhow!("line {number} is no result: remove it, and its run is made again")
        })?;
        rows.retain(|known| known.run != row.run);
        rows.push(row);
    }
    Ok(rows)
}

fn row(values: &[String]) -> Option<Row> {
    let [run, test, kind, what, repetition, outcome, from_ms, to_ms, rest @ ..] = values else { return None };
    let [measured @ .., exit, directory, reason] = rest else { return None };
    Some(Row {
        run: run.parse().ok()?,
        test: test.clone(),
        kind: KINDS.into_iter().find(|known| known.name() == kind)?,
        what: what.clone(),
        repetition: repetition.parse().ok()?,
        outcome: Outcome::ALL.into_iter().find(|known| known.name() == outcome)?,
        from_ms: from_ms.parse().ok()?,
        to_ms: to_ms.parse().ok()?,
        measured: self::measured(measured)?,
        exit: exit.parse().ok()?,
        directory: directory.clone(),
        reason: Some(reason.clone()).filter(|reason| !reason.is_empty()),
    })
}

/// `None` where the values are none; nothing measured where all of them are empty.
fn measured(values: &[String]) -> Option<Option<Measured>> {
    let [unit, rate, total, p50, p99, p99_9, max, errors, lost, client, server] = values else { return None };
    if unit.is_empty() {
        return Some(None);
    }
    Some(Some(Measured {
        unit: unit.clone(),
        rate_per_s: rate.parse().ok()?,
        total: total.parse().ok()?,
        p50_ns: maybe(p50)?,
        p99_ns: maybe(p99)?,
        p99_9_ns: maybe(p99_9)?,
        max_ns: maybe(max)?,
        errors: errors.parse().ok()?,
        lost: maybe(lost)?,
        client_cpu_us: maybe(client)?,
        server_cpu_us: maybe(server)?,
    }))
}

/// A value that may be absent.
fn maybe<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let measured = Measured {
            unit: "documents".into(),
            rate_per_s: 163_007.125,
            total: 95_487_000,
            p50_ns: Some(1_000),
            p99_9_ns: None,
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

    fn text(rows: &[Row]) -> String {
        header() + &rows.iter().map(line).collect::<String>()
    }

    #[test]
    fn results_read_back_as_they_were_written() {
        assert_eq!(read(&text(&rows())).unwrap(), rows());
        assert_eq!(read("").unwrap(), []);
        assert_eq!(header().trim_end().split(',').count(), COLUMNS.len());
    }

    #[test]
    fn a_file_that_is_cut_at_any_byte_gives_every_row_that_was_whole() {
        let (rows, text) = (rows(), text(&rows()));
        for end in 0..=text.len() {
            let cut = String::from_utf8_lossy(&text.as_bytes()[..end]);
            let whole =
                text.as_bytes()[..end].iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
            assert_eq!(read(&cut).unwrap(), rows[..whole], "cut at byte {end}");
        }
    }

    #[test]
    fn of_two_rows_of_one_run_the_later_one_counts() {
        let mut again = rows()[1].clone();
        again.outcome = Outcome::Completed;
        let read = read(&(text(&rows()) + &line(&again))).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(read.last(), Some(&again));
    }

    #[test]
    fn a_file_that_somebody_changed_is_refused_with_its_line() {
        let text = text(&rows());
        let message = |text: &str| format!("{:#}", read(text).unwrap_err());
        assert!(message(&text.replace("run,", "nr,")).contains("names other columns"));
        assert!(message(&text.replace("hung", "fine")).contains("line 3 is no result"));
    }
}
