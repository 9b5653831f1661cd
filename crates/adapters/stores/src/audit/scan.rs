//! Reads collections back and compares their documents with the source.

use std::time::Duration;

use bson::{Document, RawBsonRef, RawDocument, doc, spec::BinarySubtype};
use plimsoll_deployment::{
    Deployment, Error as DeploymentError, MajorityError, Namespace, catch_up, runtime,
};
use plimsoll_element as element;
use plimsoll_wire::{Connection, Cursor, FindRequest, FindSpec};

use super::partition::{Expected, Payload, TooLong};
use super::reconcile::{Found, Reconcile};
use super::report::Report;
use crate::document::form::{Form, PAYLOAD_ID, checked_id};
use crate::document::identity::Identity;

/// The number of documents that are requested for one reply.
const BATCH: u32 = 10_000;
/// The server's time limit for one reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);

/// The place of the event's identity in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identified {
    /// In its `_id`.
    ById,
    /// In this field (`source_field` of an insert sink), which is not unique, so duplicates are found.
    ByField(String),
}

/// A collection with some of the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The collection.
    pub namespace: Namespace,
    /// The place of the events' identities in its documents.
    pub identified: Identified,
    /// The form of its documents. Dead letters are [`Form::Full`].
    pub form: Form,
}

/// The reason why a destination cannot be audited.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// It cannot be reached, or cannot be read completely.
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
    /// A partition has too many offsets.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// A majority lags behind the primary: a read at majority would report missing events.
    #[error(transparent)]
    Majority(#[from] MajorityError),
    /// The documents do not hold the payloads.
    #[error(
        "checksums need the original payload, which documents of `form: {0:?}` do not hold: audit without checksums"
    )]
    NoPayload(Form),
}

/// Compares the collections `parts` of the deployment at `uri` with the source. Together, data and dead letters must hold each
/// event once.
///
/// # Errors
/// If a collection cannot be read completely.
pub fn scan(uri: &str, expected: Vec<Expected>, parts: &[Part]) -> Result<Report, AuditError> {
    let summed = expected.iter().any(|expected| expected.checksum.is_some());
    let unfit = parts.iter().find(|part| !matches!(part.form, Form::Bson | Form::Full));
    if let Some(part) = unfit.filter(|_| summed) {
        return Err(AuditError::NoPayload(part.form));
    }
    let mut fold = Reconcile::new(expected)?;
    runtime()?.block_on(async {
        let deployment = Deployment::new(uri, REPLY_TIMEOUT).await?;
        for part in parts {
            let mut connection = deployment.connect().await?;
            read(&mut connection, part, summed, &mut fold).await?;
        }
        Ok(fold.finish())
    })
}

async fn read(
    connection: &mut Connection,
    part: &Part,
    summed: bool,
    fold: &mut Reconcile,
) -> Result<(), AuditError> {
    let mut spec = FindSpec::new(&part.namespace.db, &part.namespace.collection);
    spec.batch_size = Some(BATCH);
    catch_up(connection, &part.namespace).await?;
    spec.read_concern = connection.hello().is_replicated().then(|| "majority".into());
    if !summed {
        spec.projection = Some(projection(&part.identified));
    }
    let request = FindRequest::new(&spec, &connection.limits()).map_err(DeploymentError::from)?;
    let mut cursor = Cursor::new(request);
    while let Some(documents) = cursor.next(connection).await.map_err(DeploymentError::from)? {
        for document in documents {
            see(document, part, fold);
        }
    }
    Ok(())
}

fn projection(identified: &Identified) -> Document {
    match identified {
        Identified::ById => doc! {"_id": 1},
        Identified::ByField(field) => doc! {"_id": 0, field: 1},
    }
}

fn see(document: &RawDocument, part: &Part, fold: &mut Reconcile) {
    let field = match &part.identified {
        Identified::ById => "_id",
        Identified::ByField(field) => field,
    };
    let Some(identity) = identity(document, field) else { return fold.see(Found::Foreign) };
    if !fold.wants_payload(identity) {
        return fold.see(Found::Event { identity, payload: Payload::Unread });
    }
    match part.form {
        Form::Bson => see_bson(document, field, identity, fold),
        _ => {
            let binary;
            let payload = match document.get("payload") {
                Ok(Some(RawBsonRef::Binary(found))) => {
                    binary = [found.bytes];
                    Payload::Pieces(&binary)
                }
                Ok(Some(RawBsonRef::Null)) => Payload::Null,
                _ => Payload::Unreadable,
            };
            fold.see(Found::Event { identity, payload });
        }
    }
}

fn identity(document: &RawDocument, field: &str) -> Option<Identity> {
    match document.get(field).ok()?? {
        RawBsonRef::Binary(binary) if binary.subtype == BinarySubtype::Generic => {
            Identity::from_bytes(binary.bytes)
        }
        _ => None,
    }
}

/// Reconstructs a payload stored as the document: without the added `_id` or source field, and with its own `_id` restored.
fn see_bson(document: &RawDocument, field: &str, identity: Identity, fold: &mut Reconcile) {
    let bytes = document.as_bytes();
    let stored = checked_id(bytes).ok().flatten().map(|id| id.range_in(bytes));
    let (Some(id), true) = (stored, field == "_id") else {
        return fold.see(Found::Event { identity, payload: Payload::Unreadable });
    };
    let kept = element::find(bytes, PAYLOAD_ID.as_bytes()).map(|kept| kept.range_in(bytes));
    let renamed = kept.as_ref().map_or(0, |_| PAYLOAD_ID.len() - "_id".len());
    let len = i32::try_from(bytes.len() - id.len() - renamed).unwrap_or(i32::MAX).to_le_bytes();
    match kept {
        None => fold.see(Found::Event {
            identity,
            payload: Payload::Pieces(&[&len, &bytes[4..id.start], &bytes[id.end..]]),
        }),
        Some(kept) => {
            let name = kept.start + 1 + PAYLOAD_ID.len();
            let pieces: [&[u8]; 6] = [
                &len,
                &bytes[id.end..kept.start],
                &bytes[kept.start..=kept.start],
                b"_id",
                &bytes[name..kept.end],
                &bytes[kept.end..],
            ];
            fold.see(Found::Event { identity, payload: Payload::Pieces(&pieces) });
        }
    }
}
