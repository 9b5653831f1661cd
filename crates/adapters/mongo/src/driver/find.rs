//! Sends reads over the official driver: finds, ranges, aggregations and counts.

use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::{Collection, Cursor};
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::Outcome;

use super::outcome::of_read_error;
use super::topology::Topology;
use super::{Named, document};
use crate::operation_builder::{OperationBuilder, ReturnedState, Work, identity};
use crate::setup::{Command, FindShape, Pipeline};
use crate::worker_ledger::PickedDocument;

/// The stages of a pipeline, with the values of an operation.
pub(super) fn stages(builder: &OperationBuilder, pipeline: &Pipeline, number: u64) -> Vec<Document> {
    let identity = identity(builder.setup.run, number);
    let encode = |stage: &plimsoll_document::Program| document(|out| stage.encode(number, &identity, out));
    pipeline.stages.iter().map(encode).collect()
}

/// Runs a pipeline to its end.
pub(super) async fn aggregate(
    work: Work<'_>,
    collection: &Collection<RawDocumentBuf>,
    stages: &[Document],
) -> Reply {
    let (Command::Count(pipeline) | Command::Aggregate(pipeline)) = work.command else {
        return Reply::acknowledged(0);
    };
    let mut aggregate = collection.aggregate(stages.iter().cloned());
    if let Some(allow) = pipeline.allow_disk_use {
        aggregate = aggregate.allow_disk_use(allow);
    }
    let read = match aggregate.await {
        Ok(mut cursor) => rest(work, &mut cursor, 0).await,
        Err(error) => Err(work.noted(of_read_error(&error), &error)),
    };
    match read {
        Ok(_) if matches!(work.command, Command::Count(_)) => Reply::acknowledged(1),
        Ok(documents) => Reply::acknowledged(documents),
        Err(outcome) => Reply::failed(outcome, 1),
    }
}

/// Runs a find or a range to its end.
pub(super) async fn find(
    (work, topology): (Work<'_>, &Topology),
    collection: &Collection<RawDocumentBuf>,
    named: &Named,
) -> Reply {
    let (Command::Find { shape, .. } | Command::Range { shape, .. }) = work.command else {
        return Reply::acknowledged(0);
    };
    match read((work, topology), collection, shape, named).await {
        Ok(documents) => Reply::acknowledged(documents),
        Err(outcome) => Reply::failed(outcome, 1),
    }
}

/// Finds whole or partial documents and returns their number.
pub(super) async fn read(
    (work, topology): (Work<'_>, &Topology),
    collection: &Collection<RawDocumentBuf>,
    shape: &FindShape,
    named: &Named,
) -> Result<u64, Outcome> {
    let mut find = collection.find(named.filter.clone());
    if let Some(projection) = &shape.projection {
        find = find.projection(projection.clone());
    }
    let range = matches!(work.command, Command::Range { .. });
    let sort = if range { Some(doc! {"_id": 1}) } else { shape.sort.clone() };
    if let Some(sort) = sort {
        find = find.sort(sort);
    }
    if range {
        find = find.batch_size(named.limit);
    }
    // A negative limit asks for one batch, as the lean client does for one document.
    let limit = match named.aim.document {
        Some(_) if range => Some(i64::from(named.limit)),
        Some(_) => Some(-1),
        None => shape.limit.map(i64::from),
    };
    if let Some(limit) = limit {
        find = find.limit(limit);
    }
    let failed = |error| work.noted(of_read_error(&error), &error);
    let picked = named.aim.document.map(|picked| work.as_sent(picked));
    let mut cursor = find.await.map_err(failed)?;
    let found = cursor.advance().await.map_err(failed)?;
    if let Some(picked) = picked {
        let first = found.then(|| cursor.current().as_bytes());
        judge(work.builder, &topology.answered(picked), first, range, shape)?;
    }
    if found { rest(work, &mut cursor, 1).await } else { Ok(0) }
}

/// Checks the first document against the ledger's entry for the picked document.
fn judge(
    builder: &OperationBuilder,
    picked: &PickedDocument,
    first: Option<&[u8]>,
    range: bool,
    shape: &FindShape,
) -> Result<(), Outcome> {
    let judged = match shape.projection {
        None if range => builder.judge_first(picked, first),
        None => builder.judge_read(picked, ReturnedState::Before, first),
        Some(_) => builder.judge_read(&picked.in_part(), ReturnedState::Before, first),
    };
    judged.map_err(Outcome::Rejected)
}

/// Counts the rest of a cursor, from `documents` on.
async fn rest<T>(work: Work<'_>, cursor: &mut Cursor<T>, mut documents: u64) -> Result<u64, Outcome> {
    while cursor.advance().await.map_err(|error| work.noted(of_read_error(&error), &error))? {
        documents += 1;
    }
    Ok(documents)
}
