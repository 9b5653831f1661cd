//! Tabulates the cells of a matrix.

use plimsoll_measure::integrity::Proof;
use plimsoll_measure::matrix::{Axis, Cell, Figures, Matrix, OperationFigures, Promises, Spread};

use super::measured::Measured;
use super::varying;
use crate::layout::{Width, fitting};
use crate::tables::{Cell as Word, Column, Table, Tone, left, median, right, verdict_word};
use crate::units::{
    N_TOO_SMALL, NONE, bytes, exact, exact_rate, latency, micros, or_dash, short, three_digits,
};

/// Optional columns, shown if they fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    /// The lowest and the highest of the repetitions.
    range: bool,
    /// The median response time.
    p50: bool,
}

impl Room {
    /// The choices of columns from the widest to the narrowest.
    const ALL: [Self; 3] = [
        Self { range: true, p50: true },
        Self { range: false, p50: true },
        Self { range: false, p50: false },
    ];
}

/// The results that fit into `width` columns.
pub(super) fn brief(matrix: &Matrix, width: Width) -> Table {
    fitting(Room::ALL.into_iter().map(|room| in_room(matrix, room)), width)
}

fn in_room(matrix: &Matrix, room: Room) -> Table {
    let measured = Measured::of(matrix, room.range);
    let last = if matrix.is_audited() { left("integrity") } else { right("errors") };
    let times = [room.p50.then(|| right("p50")), Some(right("p99")), Some(last)];
    let columns = [left_columns(matrix), measured.columns(), times.into_iter().flatten().collect()];
    let row = |cell: &Cell, name: &str| {
        let (figures, operation) = parts(cell, name);
        let mut row = keys(matrix, cell, name);
        row.extend(measured.words(matrix, cell, name));
        row.extend(room.p50.then(|| time(operation, |it| it.response_p50_ns)));
        row.push(time(operation, |it| it.response_p99_ns));
        row.push(if matrix.is_audited() { integrity(figures) } else { errors(operation) });
        row
    };
    Table {
        title: measured.title(matrix),
        columns: columns.concat(),
        rows: rows(matrix, row),
        ..Table::default()
    }
}

/// Rates, integrity and verdicts, for a page.
pub(super) fn results(matrix: &Matrix) -> Table {
    let measured = Measured::of(matrix, true).without_cpu();
    let more = ["operations/s", "documents", "errors"].map(right);
    let audited = matrix.is_audited().then(|| left("integrity"));
    let last = audited.into_iter().chain([left("verdict")]).collect();
    let columns = [left_columns(matrix), measured.columns(), more.into(), last];
    let row = |cell: &Cell, name: &str| {
        let (figures, operation) = parts(cell, name);
        let mut row = keys(matrix, cell, name);
        row.extend(measured.words(matrix, cell, name));
        row.push(median(operation.and_then(|it| it.operations_per_s), exact_rate));
        row.push(or_dash(operation, |it| exact(it.documents)).into());
        row.push(errors(operation));
        row.extend(matrix.is_audited().then(|| integrity(figures)));
        row.push(verdict(cell));
        row
    };
    Table {
        title: measured.title(matrix),
        columns: columns.concat(),
        rows: rows(matrix, row),
        ..Table::default()
    }
}

/// Response times and the CPU of the tool, for a page.
pub(super) fn times(matrix: &Matrix) -> Table {
    let measured = Measured::of(matrix, true);
    let columns = [left_columns(matrix), ["p50", "p99", "max"].map(right).into(), measured.cpu_columns()];
    let row = |cell: &Cell, name: &str| {
        let (_, operation) = parts(cell, name);
        let mut row = keys(matrix, cell, name);
        row.push(time(operation, |it| it.response_p50_ns));
        row.push(time(operation, |it| it.response_p99_ns));
        row.push(time(operation, |it| it.response_max_ns));
        row.extend(measured.cpu_words(matrix, cell, name));
        row
    };
    let title = measured.cpu_title(matrix);
    Table { title, columns: columns.concat(), rows: rows(matrix, row), ..Table::default() }
}

/// The cost of a document, for a page.
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
        let size = |size: f64| if size < 1000.0 { format!("{} B", short(size)) } else { bytes(size as u64) };
        let pick = |pick: fn(&Figures) -> Option<Spread>| figures.and_then(pick);
        row.push(median(pick(|it| it.client_cpu_us_per_document), micros));
        row.push(median(pick(|it| it.server_cpu_us_per_document), micros));
        row.push(median(pick(|it| it.wire_bytes_per_document), size));
        row.push(median(pick(|it| it.data_bytes_per_document), size));
        row.push(median(pick(|it| it.disk_bytes_per_document), size));
        row.push(median(pick(|it| it.written_bytes_per_document), size));
        row.push(median(pick(|it| it.headroom), three_digits));
        row
    };
    let each = if matrix.counts_requests() { "request" } else { "document" };
    let title = format!("Cost of a {each}; – means that the server does not report it");
    Table { title, columns, rows: in_groups(matrix).into_iter().map(row).collect(), ..Table::default() }
}

/// The resources of a managed service and its database; `None` if none was managed or measured.
pub(super) fn service(matrix: &Matrix) -> Option<Table> {
    let measured = |figures: &Figures| figures.server_cores.is_some() || figures.disk_bytes.is_some();
    if matrix.is_audited() || !matrix.cells.iter().filter_map(|cell| cell.figures.as_ref()).any(measured) {
        return None;
    }
    let columns =
        [keys_columns(matrix), ["CPU/request", "cores", "data", "on disk"].map(right).into()].concat();
    let row = |cell: &Cell| {
        let figures = cell.figures.as_ref();
        let pick = |pick: fn(&Figures) -> Option<Spread>| figures.and_then(pick);
        let mut row = values(matrix, cell);
        row.push(median(pick(|it| it.server_cpu_us_per_operation), micros));
        row.push(median(pick(|it| it.server_cores), three_digits));
        row.push(median(pick(|it| it.data_bytes), |size| bytes(size as u64)));
        row.push(median(pick(|it| it.disk_bytes), |size| bytes(size as u64)));
        row
    };
    let title = "Resources of the service and its database: CPU under load, and data after it".to_owned();
    Some(Table { title, columns, rows: in_groups(matrix).into_iter().map(row).collect(), ..Table::default() })
}

/// A row for each operation of each cell, and one for a cell without figures. Compared cells are adjacent.
fn rows(matrix: &Matrix, row: impl Fn(&Cell, &str) -> Vec<Word>) -> Vec<Vec<Word>> {
    let (names, cells) = (matrix.operations(), in_groups(matrix));
    let names = if names.is_empty() { vec![""] } else { names };
    let of_name = |name: &&str| {
        let is_row = |cell: &&&Cell| cell.figures.is_none() || cell.of(name).is_some();
        cells.iter().filter(is_row).map(|cell| row(cell, name)).collect::<Vec<_>>()
    };
    names.iter().flat_map(of_name).collect()
}

/// The cells ordered so that the first axis changes fastest.
fn in_groups(matrix: &Matrix) -> Vec<&Cell> {
    let mut cells: Vec<&Cell> = matrix.cells.iter().collect();
    let (first, others) = matrix.axes.split_at(matrix.axes.len().min(1));
    let place = |cell: &Cell, axis: &Axis| {
        axis.values.iter().position(|value| cell.values.get(&axis.name) == Some(value))
    };
    let places =
        |cell: &&Cell| -> Vec<_> { others.iter().chain(first).map(|axis| place(cell, axis)).collect() };
    cells.sort_by_cached_key(places);
    cells
}

fn parts<'a>(cell: &'a Cell, name: &str) -> (Option<&'a Figures>, Option<&'a OperationFigures>) {
    let figures = cell.figures.as_ref();
    (figures, figures.and_then(|figures| figures.operations.get(name)))
}

/// The axes with more than one value; the compared axis comes last.
fn axes(matrix: &Matrix) -> Vec<&str> {
    let mut names = varying(matrix);
    if matrix.axes.first().is_some_and(|axis| names.first() == Some(&axis.name.as_str())) {
        names.rotate_left(1);
    }
    names
}

fn keys_columns(matrix: &Matrix) -> Vec<Column> {
    let names = axes(matrix);
    if names.is_empty() {
        vec![left("cell")]
    } else {
        names.into_iter().map(|name| left(name.to_owned())).collect()
    }
}

fn left_columns(matrix: &Matrix) -> Vec<Column> {
    let operation = (matrix.operations().len() > 1).then(|| left("operation"));
    operation.into_iter().chain(keys_columns(matrix)).collect()
}

fn values(matrix: &Matrix, cell: &Cell) -> Vec<Word> {
    let value = |axis: &str| cell.values.get(axis).cloned().unwrap_or_default().into();
    let names = axes(matrix);
    if names.is_empty() {
        vec![cell.number.to_string().into()]
    } else {
        names.into_iter().map(value).collect()
    }
}

fn keys(matrix: &Matrix, cell: &Cell, operation: &str) -> Vec<Word> {
    let operation = (matrix.operations().len() > 1).then(|| operation.into());
    operation.into_iter().chain(values(matrix, cell)).collect()
}

fn time(operation: Option<&OperationFigures>, pick: fn(&OperationFigures) -> Option<Spread>) -> Word {
    match (operation, operation.and_then(pick)) {
        (_, Some(spread)) => latency(spread.median as u64).into(),
        (Some(operation), None) if operation.response_max_ns.is_some() => N_TOO_SMALL.into(),
        _ => NONE.into(),
    }
}

fn errors(operation: Option<&OperationFigures>) -> Word {
    operation.map_or_else(|| NONE.into(), |it| Word::fault(it.errors))
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

/// The integrity in a word or two.
fn integrity(figures: Option<&Figures>) -> Word {
    let Some(promises) = figures.and_then(|figures| figures.integrity) else {
        return Word::toned("not measured", Tone::Faint);
    };
    if !promises.holds {
        return Word::toned(broken(&promises), Tone::Bad);
    }
    match promises.proof {
        Proof::Proven | Proof::ReadBack => Word::toned("0 lost", Tone::Good),
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
    if found.is_empty() { "other violations".to_owned() } else { found.join(", ") }
}
