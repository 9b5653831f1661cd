//! Encodes metrics, and reads the reply to an insert, for all designs.

use bson::raw::{CStr, RawBsonRef};
use bson::{Document, RawDocument, RawDocumentBuf, doc};
use mongodb::Collection;
use mongodb::error::{Error as DriverError, ErrorKind};

use super::partial::Metrics;
use super::{Error, Fault};

/// The server's error code of a duplicate key.
pub(crate) const DUPLICATE_KEY: i32 = 11_000;
/// The server's error code of an existing collection.
const NAMESPACE_EXISTS: i32 = 48;

/// Creates a collection unless it exists.
pub(crate) async fn create(
    creation: impl IntoFuture<Output = Result<(), DriverError>>,
) -> Result<(), DriverError> {
    match creation.await {
        Err(error) if matches!(*error.kind, ErrorKind::Command(ref failure) if failure.code == NAMESPACE_EXISTS) => {
            Ok(())
        }
        result => result,
    }
}

/// Whether a command has failed because a document with its `_id` exists.
pub(crate) fn is_duplicate(error: &DriverError) -> bool {
    matches!(*error.kind, ErrorKind::Command(ref failure) if failure.code == DUPLICATE_KEY)
}

/// Whether a document was inserted or existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    New,
    Existed,
}

/// Inserts documents in any order.
pub(crate) async fn insert(
    into: &Collection<RawDocumentBuf>,
    documents: &[RawDocumentBuf],
) -> Result<Vec<Result<Inserted, Fault>>, Fault> {
    let mut written = vec![Ok(Inserted::New); documents.len()];
    if documents.is_empty() {
        return Ok(written);
    }
    let Err(error) = into.insert_many(documents).ordered(false).await else { return Ok(written) };
    let failure = match *error.kind {
        // Without the write concern, no part of the commit is acknowledged.
        ErrorKind::InsertMany(ref failure) if failure.write_concern_error.is_none() => failure,
        _ => return Err(error.into()),
    };
    for fault in failure.write_errors.iter().flatten() {
        if let Some(written) = written.get_mut(fault.index) {
            *written = match fault.code {
                DUPLICATE_KEY => Ok(Inserted::Existed),
                code => Err(Fault::new(format!("{} ({code})", fault.message))),
            };
        }
    }
    Ok(written)
}

/// Metrics as a document.
pub(crate) fn metrics(metrics: &Metrics) -> Result<RawDocumentBuf, bson::error::Error> {
    let mut document = RawDocumentBuf::new();
    for (name, value) in metrics {
        document.append(<&CStr>::try_from(name.as_str())?, *value);
    }
    Ok(document)
}

/// An update that adds the metrics that the field `m` of a document lacks. Existing values stay, also those that another process has
/// added meanwhile.
pub(crate) fn merge(more: &Metrics) -> Vec<Document> {
    let more: Document = more.iter().map(|(name, value)| (name.clone(), (*value).into())).collect();
    vec![doc! {"$set": {"m": {"$mergeObjects": [{"$literal": more}, "$m"]}}}]
}

/// The filter of one document.
pub(crate) fn one(key: &str) -> Document {
    doc! {"_id": key}
}

/// The command of [`merge`], for `explain`.
pub(crate) fn merge_command(collection: &str, key: &str) -> Document {
    let update = merge(&vec![("metric".to_owned(), 0.0)]);
    doc! {"findAndModify": collection, "query": one(key), "update": update}
}

/// The metrics of a stored reading, sorted by name.
pub(crate) fn pairs(metrics: &RawDocument) -> Result<Metrics, Error> {
    let pair = |metric: Result<(&CStr, RawBsonRef<'_>), _>| {
        let (name, value) = metric?;
        Ok((name.as_str().to_owned(), number(value)?))
    };
    let mut pairs = metrics.iter().map(pair).collect::<Result<Vec<_>, Error>>()?;
    pairs.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(pairs)
}

/// A number of any of BSON's usual types.
pub(crate) fn number(value: RawBsonRef<'_>) -> Result<f64, Error> {
    match value {
        RawBsonRef::Double(value) => Ok(value),
        RawBsonRef::Int32(value) => Ok(value.into()),
        // Doubles lose digits above 2⁵³, as when the reading was parsed.
        RawBsonRef::Int64(value) => Ok(value as f64),
        other => Err(Error::Foreign(format!("a number was expected, not {other:?}"))),
    }
}

/// A count: a whole number from 0.
pub(crate) fn count(value: RawBsonRef<'_>) -> Result<u64, Error> {
    let whole = match value {
        RawBsonRef::Int32(value) => value.into(),
        RawBsonRef::Int64(value) => value,
        other => return Err(Error::Foreign(format!("a count was expected, not {other:?}"))),
    };
    u64::try_from(whole).map_err(|_| Error::Foreign(format!("a count was expected, not {whole}")))
}
