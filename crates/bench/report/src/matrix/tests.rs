//! Tests the texts of a matrix.

use std::collections::BTreeMap;

use plimsoll_measure::environment::{ServerFacts, ServerKind};
use plimsoll_measure::matrix::{Axis, CellRun, Figures, LeftOut};
use plimsoll_measure::run::{Operation, Verdict};

use super::*;
use crate::layout::tests::assert_fits;

fn run(documents_per_s: f64, lost: u64) -> Run {
    let response_ns = plimsoll_measure::histogram::Latency {
        count: 100,
        p50: Some((1e9 / documents_per_s) as u64),
        max: Some((9e9 / documents_per_s) as u64),
        ..Default::default()
    };
    let operation = Operation {
        count: 100,
        documents: 1000,
        documents_per_s,
        rate_per_s: documents_per_s / 10.0,
        response_ns,
        ..Operation::default()
    };
    let integrity = Integrity { acknowledged: 1000, found: 1000 - lost, lost, ..Integrity::default() };
    Run {
        operations: BTreeMap::from([("insert".to_owned(), operation)]),
        integrity: Some(integrity),
        verdict: if lost > 0 { Verdict::Fail } else { Verdict::Pass },
        ..Run::default()
    }
}

/// Two strategies by two sizes by one concern, twice each. The last cell lost documents, and one cell was not run.
pub(super) fn sample() -> Matrix {
    let axis = |name: &str, values: &[&str]| Axis {
        name: name.to_owned(),
        values: values.iter().map(|&value| value.to_owned()).collect(),
    };
    let axes = vec![
        axis("strategy", &["one-by-one", "partitioned"]),
        axis("size", &["10K", "1M"]),
        axis("w", &["1"]),
    ];
    let cell = |number: u32, strategy: &str, size: &str, rates: &[f64], lost: u64| Cell {
        number,
        values: [("strategy", strategy), ("size", size), ("w", "1")]
            .map(|(axis, value)| (axis.to_owned(), value.to_owned()))
            .into(),
        verdict: (!rates.is_empty()).then_some(if lost > 0 { Verdict::Fail } else { Verdict::Pass }),
        reasons: if lost > 0 {
            vec!["the integrity of the documents is violated".into()]
        } else {
            Vec::new()
        },
        notes: Vec::new(),
        figures: Figures::of(&rates.iter().map(|rate| (run(*rate, lost), None)).collect::<Vec<_>>()),
    };
    let done = |cell: u32| CellRun {
        number: cell,
        cell,
        directory: format!("{cell:03}-x"),
        state: if cell == 2 { State::Planned } else { State::Done },
        ..CellRun::default()
    };
    Matrix {
        name: "strategies".into(),
        title: "customer records, by strategy".into(),
        started: "2026-11-21T12:00:00Z".into(),
        verdict: Verdict::Fail,
        server: ServerFacts {
            kind: ServerKind::Embedded,
            version: Some("7.0".into()),
            ..ServerFacts::default()
        },
        axes,
        repetitions: 2,
        left_out: vec![LeftOut {
            when: BTreeMap::from([("size".into(), vec!["1M".into()])]),
            because: "it takes <too> long".into(),
            cells: 1,
        }],
        cells: vec![
            cell(1, "one-by-one", "10K", &[5_000.0, 5_400.0], 0),
            cell(2, "one-by-one", "1M", &[], 0),
            cell(3, "partitioned", "10K", &[80_000.0, 100_000.0], 0),
            cell(4, "partitioned", "1M", &[90_000.0], 3),
        ],
        runs: (1..=4).map(done).collect(),
        ..Matrix::default()
    }
}

#[test]
fn a_matrix_is_summarised_in_one_table() {
    let found = summary(&sample(), Some("plimsoll-runs/m"), Screen::PIPE);
    let expected = "
customer records, by strategy
strategies · 2026-11-21T12:00:00Z · 3 of 4 runs · embedded server 7.0 · w 1

FAIL

Documents per second: median of 2 runs, lowest to highest, and as a share of the best cell that
differs in strategy alone
  size  strategy     documents/s      lowest to highest  of best      p50          p99  integrity
  10K   one-by-one         5,200         5,000 to 5,400   5.7 %  193 µs  n too small  0 lost
  10K   partitioned       90,000      80,000 to 100,000    100 %  11.2 µs  n too small  0 lost
  1M    one-by-one             –                      –       –       –            –  not measured
  1M    partitioned       90,000       90,000 to 90,000       –  11.1 µs  n too small  3 lost

  • the integrity of the documents is violated: partitioned, 1M
  • 1 of 4 cells were not measured

Page  plimsoll-runs/m/matrix.html
Next  plimsoll show plimsoll-runs/m/001-x
";
    let bare = |text: &str| {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(bare(&found), bare(expected.trim_start()), "{found}");
    assert_fits(|screen| summary(&sample(), None, screen));
}

/// Two clients by two operations, three times each, with a fill that is not shown.
fn taxed() -> Matrix {
    let axis =
        |name: &str, values: [&str; 2]| Axis { name: name.into(), values: values.map(Into::into).into() };
    let cell = |client: &str, operation: &str, cpu_us: f64, rate: f64| {
        let mut run = run(rate, 0);
        let mut work = run.operations["insert"].clone();
        work.cpu_us_per_operation = Some(cpu_us);
        work.response_ns.p99 = work.response_ns.p50;
        run.operations.insert("work".into(), work);
        Cell {
            values: [("client", client), ("operation", operation)].map(|(a, b)| (a.into(), b.into())).into(),
            figures: Figures::of(&vec![(run, None); 3]),
            ..Cell::default()
        }
    };
    Matrix {
        title: "tax".into(),
        axes: vec![axis("client", ["lean", "driver"]), axis("operation", ["one insert", "batch of 1000"])],
        show: vec!["work".into()],
        repetitions: 3,
        cells: vec![
            cell("lean", "one insert", 20.0, 3_906.0),
            cell("lean", "batch of 1000", 1_204.0, 108_552.0),
            cell("driver", "one insert", 50.0, 3_654.0),
            cell("driver", "batch of 1000", 2_408.0, 104_356.0),
        ],
        ..Matrix::default()
    }
}

#[test]
fn the_cpu_of_an_operation_is_compared_with_the_least_and_no_text_is_cut() {
    let found = summary(&taxed(), None, Screen::PIPE);
    let rows: Vec<_> = found.lines().filter(|line| line.ends_with("lost")).collect();
    let words = |row: &str| {
        row.split("  ").filter(|word| !word.is_empty()).map(str::trim).collect::<Vec<_>>().join("|")
    };
    let rows: Vec<_> = rows.into_iter().map(words).collect();
    for (row, start) in rows.iter().zip([
        "one insert|lean|3,906|100 %|20.0 µs|1.00 ×",
        "one insert|driver|3,654|93.5 %|50.0 µs|2.50 ×",
        "batch of 1000|lean|108,552|100 %|1.20 ms|1.00 ×",
        "batch of 1000|driver|104,356|96.1 %|2.41 ms|2.00 ×",
    ]) {
        assert!(row.starts_with(start), "{start}: {found}");
    }
    assert_eq!(rows.len(), 4, "{found}");
    assert!(found.contains("Only in matrix.json: insert") && !found.contains('…'), "{found}");
    assert_fits(|screen| summary(&taxed(), None, screen));
}

#[test]
fn a_column_that_does_not_fit_is_on_the_page() {
    let mut wide = taxed();
    for cell in &mut wide.cells {
        let operations = &mut cell.figures.as_mut().unwrap().operations;
        let rate = operations.get_mut("work").unwrap().documents_per_s.as_mut().unwrap();
        (rate.median, rate.min, rate.max) = (123_456.0, 123_456.0, 123_456.0);
    }
    let (found, html) = (summary(&wide, None, Screen::PIPE), page(&wide));
    assert!(!found.contains("lowest to highest") && html.contains("lowest to highest"), "{found}");
    assert!(found.contains("CPU/op") && found.contains("× least"), "{found}");
}

#[test]
fn a_run_is_summarised_in_one_line() {
    assert_eq!(
        brief(&run(5_000.0, 3)),
        "insert 5,000 documents/s, p99 – (needs 1,000 operations); 3 of 1,000 lost; FAIL"
    );
}

#[test]
fn the_page_has_the_chart_the_table_and_the_excluded_combinations() {
    let html = page(&sample());
    for words in
        ["Documents per second", "partitioned", "it takes &lt;too&gt; long", "3 lost", "001-x/report.html"]
    {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("<too>") && !html.contains("<script") && !html.contains("http"));
    assert_eq!(html.matches("<figure").count(), 1);
    assert_eq!(html, page(&sample()), "the same matrix gives the same page");
}

#[test]
fn a_matrix_without_results_has_a_page_and_a_summary() {
    assert!(page(&Matrix::default()).contains("INVALID"));
    assert!(summary(&Matrix::default(), None, Screen::PIPE).contains("INVALID"));
}

/// Two designs of a started service, one operation of which fails occasionally.
fn served() -> Matrix {
    let mut matrix = sample();
    matrix.axes = vec![Axis { name: "design".into(), values: vec!["document".into(), "bucket".into()] }];
    matrix.cells.truncate(2);
    matrix.runs.truncate(2);
    for (cell, design) in matrix.cells.iter_mut().zip(["document", "bucket"]) {
        let mut run = run(200.0, 0);
        run.integrity = None;
        let mut ingest = run.operations.remove("insert").unwrap();
        ingest.documents = ingest.count;
        ingest.errors = [("overload".to_owned(), 3)].into();
        run.operations = [("ingest".to_owned(), ingest)].into();
        run.server_cost.cores = Some(0.75);
        run.server_cost.cpu_us_per_operation = Some(450.0);
        let size = plimsoll_measure::inspection::Size { storage_bytes: Some(3 << 20), ..Default::default() };
        cell.values = [("design".to_owned(), design.to_owned())].into();
        cell.figures = Figures::of(&[(run, Some(size))]);
    }
    matrix
}

#[test]
fn a_matrix_of_a_service_shows_requests_errors_and_resources() {
    let found = summary(&served(), None, Screen::PIPE);
    let bare = found.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Requests per second",
        "design requests/s",
        "p99 errors",
        "document 200",
        "design CPU/request cores data on disk",
        "bucket 450 µs 0.75 – 3.00 MiB",
    ] {
        assert!(bare.contains(part), "{part}: {found}");
    }
    assert!(!found.contains("integrity") && !found.contains("ocuments"), "{found}");
    let html = page(&served());
    assert!(html.contains("requests/s") && html.contains("on disk") && !html.contains("documents/s"));
}
