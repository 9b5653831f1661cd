//! Proves that the broker kept every event of a filled topic, and that each arrived exactly once and unaltered.

use plimsoll_stores::audit::Report;

use crate::suite::kind::{Reached, ReadBack};
use crate::suite::typed::Row;
use plimsoll_stream::PipelineFile;
use plimsoll_stream::audit::{Question, words};

/// Reads the topic and the destination. `None` if the destination cannot be audited, or the run did not reach the end of the
/// topic.
pub fn read_back(file: &PipelineFile, row: &Row, reached: &Reached<'_>) -> Option<anyhow::Result<ReadBack>> {
    let whole = row.fill.is_some_and(|fill| reached.total >= fill.events);
    let mut file = file.clone();
    file.point(reached.server, reached.brokers);
    let question = Question::of(&file).ok().filter(|_| whole)?;
    let question = question.with_ledgers(reached.ledger.as_slice());
    Some(question.and_then(|question| question.answer()).map(|report| result(&report)))
}

fn result(report: &Report) -> ReadBack {
    let lost = report.lost() + report.lost_by_broker();
    let lines = words(report);
    let reason = (!report.holds()).then(|| lines.split_whitespace().collect::<Vec<_>>().join(" "));
    let read = report.documents;
    ReadBack { read, lost, reason }
}
