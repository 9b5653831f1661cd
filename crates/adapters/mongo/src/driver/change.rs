//! Sends updates, replacements and deletions over the official driver.

use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;
use mongodb::error::Error;
use mongodb::options::ReturnDocument;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};

use super::outcome::of_error;
use super::topology::Topology;
use super::{Named, find};
use crate::operation_builder::{ReturnedState, Work};
use crate::scenario::Returns;
use crate::setup::{Command, FindShape, Purpose};

/// Updates, replaces or deletes.
pub(super) async fn change(
    work: Work<'_>,
    collection: &Collection<RawDocumentBuf>,
    named: &mut Named,
) -> Reply {
    let Work { builder, command, .. } = work;
    let changed = send(collection, command, named).await;
    let outcome = match &changed {
        Ok(_) if !builder.setup.is_acknowledged() => Outcome::Unknown(Doubt::Unacknowledged),
        Ok(_) => Outcome::Acknowledged,
        Err(error) => work.noted(of_error(error), error),
    };
    let count = changed.unwrap_or(0);
    builder.conclude(&mut named.pending, outcome, count > 0);
    match outcome {
        Outcome::Acknowledged if count == 0 && named.aim.is_promised() && command.must_match() => {
            Reply::failed(Outcome::Rejected(Rejection::Unexpected), 1)
        }
        Outcome::Acknowledged => Reply::acknowledged(count),
        Outcome::Unknown(Doubt::Unacknowledged) => {
            let mut reply = Reply::acknowledged(0);
            crate::outcome::add(&mut reply, outcome, 1);
            reply
        }
        outcome => Reply::failed(outcome, 1),
    }
}

/// Returns the number of matched documents.
async fn send(
    collection: &Collection<RawDocumentBuf>,
    command: &Command,
    named: &Named,
) -> Result<u64, Error> {
    let filter = named.filter.clone();
    match command.purpose() {
        Purpose::Remove => collection.delete_one(filter).await.map(|done| done.deleted_count),
        Purpose::Replace => {
            collection.replace_one(filter, &named.update).await.map(|done| done.matched_count)
        }
        _ => {
            let (multi, upsert) = match command {
                Command::Update { multi, upsert, .. } => (*multi, *upsert),
                _ => (false, false),
            };
            let changed = if multi {
                collection.update_many(filter, named.update()).upsert(upsert).await
            } else {
                collection.update_one(filter, named.update()).upsert(upsert).await
            };
            changed.map(|done| done.matched_count + u64::from(done.upserted_id.is_some()))
        }
    }
}

/// Finds one document and changes it in the same command.
pub(super) async fn find_and_modify(
    (work, topology): (Work<'_>, &Topology),
    collection: &Collection<RawDocumentBuf>,
    named: &mut Named,
) -> Reply {
    let Work { builder, command, .. } = work;
    let new = matches!(command, Command::FindAndModify { returns: Returns::New, .. });
    let which = if new { ReturnDocument::After } else { ReturnDocument::Before };
    let filter = named.filter.clone();
    let picked = named.aim.document.map(|picked| work.as_sent(picked));
    let found = match command.purpose() {
        Purpose::Remove => collection.find_one_and_delete(filter).await,
        Purpose::Replace => {
            collection.find_one_and_replace(filter, &named.update).return_document(which).await
        }
        _ => collection.find_one_and_update(filter, named.update()).return_document(which).await,
    };
    let failed = |error| work.noted(of_error(error), error);
    let outcome = found.as_ref().map_or_else(failed, |_| Outcome::Acknowledged);
    let found = found.ok().flatten();
    builder.conclude(&mut named.pending, outcome, found.is_some());
    let shows = if new { ReturnedState::After } else { ReturnedState::Before };
    let judged = match (outcome, picked) {
        (Outcome::Acknowledged, Some(picked)) => {
            let picked = topology.answered(picked);
            builder.judge_read(&picked, shows, found.as_ref().map(|found| found.as_bytes()))
        }
        _ => Ok(()),
    };
    match (outcome, judged) {
        (Outcome::Acknowledged, Ok(())) => Reply::acknowledged(u64::from(found.is_some())),
        (_, Err(rejection)) => Reply::failed(Outcome::Rejected(rejection), 1),
        (outcome, _) => Reply::failed(outcome, 1),
    }
}

/// Finds one document and then changes it. A failed read ends the operation.
pub(super) async fn read_modify_write(
    (work, topology): (Work<'_>, &Topology),
    collection: &Collection<RawDocumentBuf>,
    named: &mut Named,
) -> Reply {
    match find::read((work, topology), collection, &FindShape::default(), named).await {
        Ok(_) => change(work, collection, named).await,
        Err(outcome) => Reply::failed(outcome, 1),
    }
}
