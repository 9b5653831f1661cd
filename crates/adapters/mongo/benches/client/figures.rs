//! Computes medians and ratios of the measurements, and compares them with the goals.

use plimsoll_measure::matrix::Spread;

use crate::client::Client;
use crate::rounds::{Measured, Round};
use crate::workload::{Cost, Workload};

/// The results of one client in one workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) client: Client,
    /// CPU time per document in µs; with one document a command, that is the time per operation.
    pub(crate) cpu_us: Spread,
    /// Documents per second.
    pub(crate) per_s: Spread,
    /// This client's CPU time as a multiple of the bare socket's.
    pub(crate) times_bare: Spread,
    /// The driver's CPU time as a multiple of this client's.
    pub(crate) below_driver: Spread,
}

/// The results of all clients in one workload.
pub(crate) struct Table {
    pub(crate) workload: Workload,
    /// One row per client, in the order of [`Client::ALL`].
    pub(crate) rows: Vec<Row>,
}

/// A goal of the lean client.
pub(crate) struct Bar {
    pub(crate) claim: &'static str,
    /// The measured value.
    pub(crate) measured: f64,
    /// Whether the goal is met.
    pub(crate) met: bool,
}

/// All results that are shown.
pub(crate) struct Figures {
    /// One table per workload.
    pub(crate) tables: Vec<Table>,
    /// The goals of the lean client.
    pub(crate) bars: Vec<Bar>,
}

impl Figures {
    /// Computes the figures.
    pub(crate) fn of(measured: &[Measured]) -> Self {
        let tables: Vec<Table> = measured.iter().map(table).collect();
        let bars = tables.iter().flat_map(|table| bars(table.workload, lean(&table.rows))).collect();
        Figures { tables, bars }
    }
}

fn table(measured: &Measured) -> Table {
    let rows = Client::ALL.into_iter().map(|client| row(client, measured)).collect();
    Table { workload: measured.workload, rows }
}

fn row(client: Client, measured: &Measured) -> Row {
    let documents = f64::from(measured.commands) * f64::from(measured.workload.documents());
    let over =
        |value: &dyn Fn(&Round) -> f64| Spread::of(measured.rounds.iter().map(value)).unwrap_or(Spread::NONE);
    Row {
        client,
        cpu_us: over(&|round| cpu_us(round, client) / documents),
        per_s: over(&|round| documents * 1e9 / cost(round, client).wall_ns as f64),
        times_bare: over(&|round| cpu_us(round, client) / cpu_us(round, Client::Bare)),
        below_driver: over(&|round| cpu_us(round, Client::Driver) / cpu_us(round, client)),
    }
}

fn cost(round: &Round, client: Client) -> Cost {
    round[client as usize]
}

fn cpu_us(round: &Round, client: Client) -> f64 {
    cost(round, client).cpu_ns as f64 / 1000.0
}

fn lean(rows: &[Row]) -> Row {
    rows[Client::Lean as usize]
}

fn bars(workload: Workload, lean: Row) -> Vec<Bar> {
    let at_most = |claim, measured, bound| Bar { claim, measured, met: measured <= bound };
    let at_least = |claim, measured, bound| Bar { claim, measured, met: measured >= bound };
    match workload {
        Workload::Single => vec![
            at_most("single insert: at most 1.25 × the bare socket", lean.times_bare.median, 1.25),
            at_least("single insert: at least 5 × below the driver", lean.below_driver.median, 5.0),
            at_most("single insert: goal 6 µs", lean.cpu_us.median, 6.0),
        ],
        Workload::Batch => vec![
            at_least("batches: at least 8 × below the driver", lean.below_driver.median, 8.0),
            at_most("batches: goal 0.2 µs a document", lean.cpu_us.median, 0.2),
        ],
    }
}
