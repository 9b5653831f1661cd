//! The cells of a matrix as tables.

use plimsoll_measure::integrity::Proof;
use plimsoll_measure::matrix::{Cell, Figures, Matrix, OperationFigures, Promises, Spread};

use super::varying;
use crate::tables::{Cell as Word, Column, Table, Tone, left, right};
use crate::text::verdict_word;
use crate::units::{N_TOO_SMALL, NONE, bytes, exact, exact_rate, latency, percent, short, three_digits};

/// What a terminal has room for.
pub(super) fn brief(matrix: &Matrix) -> Table {
    let columns =
        [left_columns(matrix), rate_columns(matrix), vec![right("p50"), right("p99"), left("integrity")]];
    let row = |cell: &Cell, name: &str| {
        let (figures, operation) = parts(cell, name);
        let mut row = keys(matrix, cell, name);
        row.extend(rates(matrix, cell, name, operation));
        row.push(time(operation, |it| it.response_p50_ns));
        row.push(time(operation, |it| it.response_p99_ns));
        row.push(integrity(figures));
        row
    };
    Table { title: title(matrix), columns: columns.concat(), rows: rows(matrix, row), flexible: 0 }
}

/// Everything about the load, for a page.
pub(super) fn results(matrix: &Matrix) -> Table {
    let more = ["p50", "p99", "max", "documents", "errors"].map(right);
    let last = [left("integrity"), left("verdict")];
    let columns =
        [left_columns(matrix), rate_columns(matrix), vec![right("operations/s")], more.into(), last.into()];
    let row = |cell: &Cell, name: &str| {
        let (figures, operation) = parts(cell, name);
        let mut row = keys(matrix, cell, name);
        row.extend(rates(matrix, cell, name, operation));
        row.push(spread(operation.and_then(|it| it.operations_per_s), exact_rate));
        row.push(time(operation, |it| it.response_p50_ns));
        row.push(time(operation, |it| it.response_p99_ns));
        row.push(time(operation, |it| it.response_max_ns));
        row.push(operation.map_or_else(|| NONE.to_owned(), |it| exact(it.documents)).into());
        row.push(operation.map_or_else(|| NONE.into(), |it| Word::fault(it.errors)));
        row.push(integrity(figures));
        row.push(verdict(cell));
        row
    };
    Table { title: title(matrix), columns: columns.concat(), rows: rows(matrix, row), flexible: 0 }
}

/// What a document cost, for a page.
pub(super) fn cost(matrix: &Matrix) -> Table {
    let names = [
        "Plimsoll's CPU",
        "server's CPU",
        "on the wire",
        "data",
        "on disk",
        "written by the server",
        "headroom",
    ];
    let columns = [keys_columns(matrix), names.map(right).into()].concat();
    let row = |cell: &Cell| {
        let figures = cell.figures.as_ref();
        let mut row = values(matrix, cell);
        let micros = |us: f64| latency((us * 1000.0) as u64);
        let size = |size: f64| if size < 1024.0 { format!("{} B", short(size)) } else { bytes(size as u64) };
        let pick = |pick: fn(&Figures) -> Option<Spread>| figures.and_then(pick);
        row.push(spread(pick(|it| it.client_cpu_us_per_document), micros));
        row.push(spread(pick(|it| it.server_cpu_us_per_document), micros));
        row.push(spread(pick(|it| it.wire_bytes_per_document), size));
        row.push(spread(pick(|it| it.data_bytes_per_document), size));
        row.push(spread(pick(|it| it.disk_bytes_per_document), size));
        row.push(spread(pick(|it| it.written_bytes_per_document), size));
        row.push(spread(pick(|it| it.headroom), three_digits));
        row
    };
    let title = "What a document cost; – stands for what the server does not report".to_owned();
    Table { title, columns, rows: matrix.cells.iter().map(row).collect(), flexible: 0 }
}

fn title(matrix: &Matrix) -> String {
    let runs = if matrix.repetitions > 1 {
        format!(": median of {} runs, lowest to highest", matrix.repetitions)
    } else {
        String::new()
    };
    let Some(first) = matrix.axes.first().filter(|axis| axis.values.len() > 1) else {
        return format!("Documents per second{runs}");
    };
    let comma = if runs.is_empty() { "" } else { "," };
    format!(
        "Documents per second{runs}{comma} and as a share of the best cell that differs in {} alone",
        first.name
    )
}

/// A row for each operation of each cell; one for a cell without any.
fn rows(matrix: &Matrix, row: impl Fn(&Cell, &str) -> Vec<Word>) -> Vec<Vec<Word>> {
    let of_cell = |cell: &Cell| {
        let names = cell.figures.iter().flat_map(|figures| figures.operations.keys());
        let rows: Vec<_> = names.map(|name| row(cell, name)).collect();
        if rows.is_empty() { vec![row(cell, "")] } else { rows }
    };
    matrix.cells.iter().flat_map(of_cell).collect()
}

fn parts<'a>(cell: &'a Cell, name: &str) -> (Option<&'a Figures>, Option<&'a OperationFigures>) {
    let figures = cell.figures.as_ref();
    (figures, figures.and_then(|figures| figures.operations.get(name)))
}

fn keys_columns(matrix: &Matrix) -> Vec<Column> {
    let names = varying(matrix);
    if names.is_empty() {
        vec![left("cell")]
    } else {
        names.into_iter().map(|name| left(name.to_owned())).collect()
    }
}

fn left_columns(matrix: &Matrix) -> Vec<Column> {
    let mut columns = keys_columns(matrix);
    columns.extend((matrix.operations().len() > 1).then(|| left("operation")));
    columns
}

fn values(matrix: &Matrix, cell: &Cell) -> Vec<Word> {
    let value = |axis: &str| cell.values.get(axis).cloned().unwrap_or_default().into();
    let names = varying(matrix);
    if names.is_empty() {
        vec![cell.number.to_string().into()]
    } else {
        names.into_iter().map(value).collect()
    }
}

fn keys(matrix: &Matrix, cell: &Cell, operation: &str) -> Vec<Word> {
    let mut keys = values(matrix, cell);
    keys.extend((matrix.operations().len() > 1).then(|| operation.into()));
    keys
}

fn rate_columns(matrix: &Matrix) -> Vec<Column> {
    let lowest = (matrix.repetitions > 1).then(|| right("lowest to highest"));
    [Some(right("documents/s")), lowest, Some(right("of best"))].into_iter().flatten().collect()
}

fn rates(matrix: &Matrix, cell: &Cell, name: &str, operation: Option<&OperationFigures>) -> Vec<Word> {
    let rate = operation.and_then(|it| it.documents_per_s);
    let range = |spread: Spread| format!("{} to {}", exact_rate(spread.min), exact_rate(spread.max));
    let range = (matrix.repetitions > 1).then(|| rate.map_or_else(|| NONE.into(), |rate| range(rate).into()));
    let share = matrix.share_of_best(cell, name).map_or_else(|| NONE.into(), best);
    [Some(spread(rate, exact_rate)), range, Some(share)].into_iter().flatten().collect()
}

fn best(share: f64) -> Word {
    Word::toned(percent(share), if share >= 1.0 { Tone::Good } else { Tone::Normal })
}

fn spread(spread: Option<Spread>, show: impl Fn(f64) -> String) -> Word {
    spread.map_or_else(|| NONE.to_owned(), |spread| show(spread.median)).into()
}

fn time(operation: Option<&OperationFigures>, pick: fn(&OperationFigures) -> Option<Spread>) -> Word {
    match (operation, operation.and_then(pick)) {
        (_, Some(spread)) => latency(spread.median as u64).into(),
        (Some(operation), None) if operation.response_max_ns.is_some() => N_TOO_SMALL.into(),
        _ => NONE.into(),
    }
}

fn verdict(cell: &Cell) -> Word {
    cell.verdict.map_or_else(
        || NONE.into(),
        |verdict| {
            let (word, tone) = verdict_word(verdict);
            Word::toned(word, tone)
        },
    )
}

/// What became of the promises, in a word or two.
fn integrity(figures: Option<&Figures>) -> Word {
    let Some(promises) = figures.and_then(|figures| figures.integrity) else {
        return Word::toned("not measured", Tone::Faint);
    };
    if !promises.holds {
        return Word::toned(broken(&promises), Tone::Bad);
    }
    match promises.proof {
        Proof::Proven => Word::toned("0 lost", Tone::Good),
        Proof::Counted => "counted".into(),
        Proof::FireAndForget => Word::toned("no promise", Tone::Faint),
        Proof::NotApplicable => Word::toned("not applicable", Tone::Faint),
        Proof::NotAudited => Word::toned("not audited", Tone::Doubtful),
    }
}

fn broken(promises: &Promises) -> String {
    let counts = [
        (promises.lost, "lost"),
        (promises.corrupted, "corrupted"),
        (promises.duplicated, "duplicated"),
        (promises.phantom, "phantom"),
    ];
    let found: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", exact(*count)))
        .collect();
    found.join(", ")
}
