//! Sums up the repetitions of a cell.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::inspection::Size;
use crate::integrity::{Integrity, Proof};
use crate::run::{Operation, Run};

/// The figures of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// The number of runs.
    pub runs: u32,
    /// The figures of each operation, by name.
    pub operations: BTreeMap<String, OperationFigures>,
    /// The integrity of all runs.
    pub integrity: Option<Promises>,
    /// CPU of the tool ÷ documents, in microseconds.
    pub client_cpu_us_per_document: Option<Spread>,
    /// CPU of the server's process ÷ documents, in microseconds; local servers only.
    pub server_cpu_us_per_document: Option<Spread>,
    /// CPU of the processes under load ÷ operations, in microseconds; local ones only. A managed service includes its
    /// database.
    #[serde(default)]
    pub server_cpu_us_per_operation: Option<Spread>,
    /// The mean number of cores that these processes used under load.
    #[serde(default)]
    pub server_cores: Option<Spread>,
    /// Bytes sent and received ÷ documents.
    pub wire_bytes_per_document: Option<Spread>,
    /// Bytes that the storage engine wrote to disk ÷ documents; absent if not reported.
    pub written_bytes_per_document: Option<Spread>,
    /// Bytes of the documents, uncompressed, ÷ documents; absent if not reported.
    pub data_bytes_per_document: Option<Spread>,
    /// Bytes of the collection on disk with its indexes ÷ documents; absent if not reported.
    pub disk_bytes_per_document: Option<Spread>,
    /// Bytes of all data after the load, uncompressed: of the collection, or of a managed service; absent if not
    /// reported.
    #[serde(default)]
    pub data_bytes: Option<Spread>,
    /// Bytes of the same on disk with its indexes.
    #[serde(default)]
    pub disk_bytes: Option<Spread>,
    /// The tool's throughput against the null server ÷ its throughput here.
    pub headroom: Option<Spread>,
}

/// The figures of one operation in a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationFigures {
    /// Documents acknowledged, over all runs.
    pub documents: u64,
    /// Operations that failed, over all runs.
    pub errors: u64,
    /// Documents acknowledged per second.
    pub documents_per_s: Option<Spread>,
    /// Operations acknowledged per second.
    pub operations_per_s: Option<Spread>,
    /// Median response time in nanoseconds; absent where too few values support it.
    pub response_p50_ns: Option<Spread>,
    /// 99th percentile of the response time in nanoseconds, in the same form.
    pub response_p99_ns: Option<Spread>,
    /// Longest response time in nanoseconds.
    pub response_max_ns: Option<Spread>,
    /// Documents acknowledged ÷ operations acknowledged, over all runs; absent where there was none.
    #[serde(default)]
    pub documents_per_operation: Option<f64>,
    /// CPU of the tool's workers ÷ operations, in microseconds, over the phases with this operation alone; absent
    /// without such a phase.
    #[serde(default)]
    pub client_cpu_us_per_operation: Option<Spread>,
}

/// A figure over the repetitions of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The median. For an even number of values, the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The number of runs with a value.
    pub of: u32,
}

/// The documents promised and found, added up over the runs of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Promises {
    /// The proof that the counts below give: the weakest of all runs.
    pub proof: Proof,
    /// Documents that the server acknowledged.
    pub acknowledged: u64,
    /// Acknowledged documents that exist.
    pub found: u64,
    /// Acknowledged documents that are missing.
    pub lost: u64,
    /// Documents that exist although they were rejected or never sent.
    pub phantom: u64,
    /// Documents that exist more than once.
    pub duplicated: u64,
    /// Documents whose content differs from the content of their receipt.
    pub corrupted: u64,
    /// Documents of unknown outcome, found or not.
    pub unknown: u64,
    /// Whether every run kept its promises.
    pub holds: bool,
}

impl Figures {
    /// The figures of a cell from its runs and the sizes of their collections; nothing without a run.
    pub fn of(runs: &[(Run, Option<Size>)]) -> Option<Self> {
        let names = runs.iter().flat_map(|(run, _)| run.operations.keys());
        let over = |pick: &dyn Fn(&Run, Option<&Size>) -> Option<f64>| {
            Spread::of(runs.iter().filter_map(|(run, size)| pick(run, size.as_ref())))
        };
        (!runs.is_empty()).then(|| Self {
            runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
            operations: names.map(|name| (name.clone(), OperationFigures::of(name, runs))).collect(),
            integrity: Promises::of(runs.iter().filter_map(|(run, _)| run.integrity.as_ref())),
            client_cpu_us_per_document: over(&|run, _| run.client.cpu_us_per_document),
            server_cpu_us_per_document: over(&|run, _| run.server_cost.cpu_us_per_document),
            server_cpu_us_per_operation: over(&|run, _| run.server_cost.cpu_us_per_operation),
            server_cores: over(&|run, _| run.server_cost.cores),
            wire_bytes_per_document: over(&|run, _| run.client.wire_bytes_per_document),
            written_bytes_per_document: over(&|run, _| run.server_cost.written_bytes_per_document),
            data_bytes_per_document: over(&|run, size| per_document(run, size?.data_bytes)),
            disk_bytes_per_document: over(&|run, size| per_document(run, on_disk(size?))),
            data_bytes: over(&|_, size| Some(size?.data_bytes? as f64)),
            disk_bytes: over(&|_, size| Some(on_disk(size?)? as f64)),
            headroom: over(&|run, _| run.client.headroom),
        })
    }
}

/// Bytes of a collection on disk with its indexes.
fn on_disk(size: &Size) -> Option<u64> {
    Some(size.storage_bytes? + size.index_bytes.unwrap_or(0))
}

/// `bytes` per document that the audit found.
fn per_document(run: &Run, bytes: Option<u64>) -> Option<f64> {
    let integrity = run.integrity.as_ref()?;
    let there = integrity.found + integrity.unknown_present;
    (there > 0).then(|| bytes.map(|bytes| bytes as f64 / there as f64))?
}

impl OperationFigures {
    fn of(name: &str, runs: &[(Run, Option<Size>)]) -> Self {
        let seen: Vec<&Operation> = runs.iter().filter_map(|(run, _)| run.operations.get(name)).collect();
        let time = |pick: fn(&Operation) -> Option<u64>| {
            Spread::of(seen.iter().filter_map(|operation| pick(operation)).map(|ns| ns as f64))
        };
        let count: u64 = seen.iter().map(|operation| operation.count).sum();
        let documents: u64 = seen.iter().map(|operation| operation.documents).sum();
        Self {
            documents,
            documents_per_operation: (count > 0).then(|| documents as f64 / count as f64),
            client_cpu_us_per_operation: Spread::of(seen.iter().filter_map(|it| it.cpu_us_per_operation)),
            errors: seen.iter().flat_map(|operation| operation.errors.values()).sum(),
            documents_per_s: Spread::of(seen.iter().map(|operation| operation.documents_per_s)),
            operations_per_s: Spread::of(seen.iter().map(|operation| operation.rate_per_s)),
            response_p50_ns: time(|operation| operation.response_ns.p50),
            response_p99_ns: time(|operation| operation.response_ns.p99),
            response_max_ns: time(|operation| operation.response_ns.max),
        }
    }

    /// Whether both have the same number of documents per operation, within 1 %.
    pub(super) fn has_size_of(&self, other: &Self) -> bool {
        match (self.documents_per_operation, other.documents_per_operation) {
            (Some(one), Some(other)) => (one - other).abs() <= one.max(other) / 100.0,
            (one, other) => one == other,
        }
    }
}

impl Spread {
    /// A spread without values: reports show no number for it, and it satisfies no bound.
    pub const NONE: Self = Self { median: f64::NAN, min: f64::NAN, max: f64::NAN, of: 0 };

    /// The spread of `values`; nothing if there is none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { median, min, max, of: u32::try_from(values.len()).unwrap_or(u32::MAX) })
    }
}

impl Promises {
    fn of<'a>(runs: impl Iterator<Item = &'a Integrity>) -> Option<Self> {
        runs.fold(None, |sum, run| {
            let sum = sum.unwrap_or(Self { holds: true, ..Self::default() });
            Some(Self {
                proof: sum.proof.max(run.proof),
                acknowledged: sum.acknowledged + run.acknowledged,
                found: sum.found + run.found,
                lost: sum.lost + run.lost,
                phantom: sum.phantom + run.phantom,
                duplicated: sum.duplicated + run.duplicated,
                corrupted: sum.corrupted + run.corrupted,
                unknown: sum.unknown + run.unknown_present + run.unknown_absent,
                holds: sum.holds && run.holds(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_values_is_the_mean_of_the_middle_two() {
        let spread = Spread::of([4.0, 1.0, 2.0, 8.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max, spread.of), (3.0, 1.0, 8.0, 4));
        assert_eq!(Spread::of([1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Spread::of([]), None);
        assert!(Spread::NONE.median.is_nan());
    }

    #[test]
    fn promises_add_up_over_the_runs_of_a_cell() {
        let figures = Figures::of(&[(run(5.0, 0), None), (run(7.0, 3), None)]).unwrap();
        let integrity = figures.integrity.unwrap();
        assert_eq!((integrity.acknowledged, integrity.found, integrity.lost), (20, 17, 3));
        assert!(!integrity.holds);
        assert_eq!(figures.operations["insert"].documents, 20);
        assert_eq!(figures.wire_bytes_per_document.unwrap().max, 7.0);
        assert_eq!(Figures::of(&[]), None);
    }

    #[test]
    fn bytes_on_disk_are_divided_by_the_existing_documents() {
        let size = Size {
            data_bytes: Some(700),
            storage_bytes: Some(500),
            index_bytes: Some(200),
            ..Size::default()
        };
        let figures = Figures::of(&[(run(5.0, 3), Some(size))]).unwrap();
        assert_eq!(figures.disk_bytes_per_document.unwrap().median, 100.0);
        assert_eq!(figures.data_bytes_per_document.unwrap().median, 100.0);
        assert_eq!((figures.disk_bytes.unwrap().median, figures.data_bytes.unwrap().max), (700.0, 700.0));
    }

    #[test]
    fn acknowledged_documents_of_a_service_are_known_without_an_audit() {
        let size = Size { storage_bytes: Some(500), ..Size::default() };
        let unaudited = Run { integrity: None, ..run(5.0, 0) };
        let figures = Figures::of(&[(unaudited, Some(size))]).unwrap();
        assert_eq!((figures.disk_bytes_per_document, figures.data_bytes), (None, None));
        assert_eq!(figures.disk_bytes.unwrap().median, 500.0);
    }
}
