//! Reads documents: a few to print, and up to a thousand for the inventory of their fields.

use bson::{Document, RawDocument, RawDocumentBuf, doc};
use plimsoll_measure::inspection::{Choice, Collection, Kind, Sample, SamplePosition};
use plimsoll_wire::Error as WireError;

use super::forbidden::{Pattern, Watch};
use super::inventory::Fields;
use super::query::{Answer, CursorLimits, End, Found, Inspector, first};
use super::{SAMPLES_MAX, json};
use crate::cursor::BATCH;
use crate::namespace::Namespace;

/// The largest number of documents in the inventory.
const INVENTORY_MAX: usize = 1000;
/// The approximate number of bytes read for the inventory.
const INVENTORY: CursorLimits = CursorLimits { documents: INVENTORY_MAX + 1, bytes: 64 << 20 };
/// The documents that were read, as the subject of a note.
pub(super) const SAMPLE: &str = "the sample of its documents";
/// The largest printed part of a document, in stored bytes.
const SHOWN_BYTES_MAX: usize = 16 * 1024;
/// The number of documents kept while reading. Two of them may repeat the first and the last document, which are read separately.
const SOME: usize = SAMPLES_MAX as usize + 2;

/// The documents read, before the summary.
#[derive(Debug)]
pub(super) struct Reading<'p> {
    /// The choice of the documents; `None` if none was read.
    pub(super) choice: Option<Choice>,
    /// Their fields.
    pub(super) fields: Fields,
    /// The forbidden fields in these documents.
    pub(super) watch: Watch<'p>,
    /// A few of the documents, spread over all read documents.
    pub(super) some: Vec<RawDocumentBuf>,
}

/// Keeps at most `most` samples: the first, the last, and some of `others` in between.
pub(super) async fn keep(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    most: u32,
    others: Vec<RawDocumentBuf>,
    seen: &mut Collection,
) -> Result<(), WireError> {
    let mut ends = [None, None];
    for (end, order) in ends.iter_mut().zip([1, -1]).take(most as usize) {
        match self::end(asker, namespace, seen.kind, order).await? {
            Ok(document) => *end = document,
            Err(refusal) => seen.notes.push(format!(
                "its {} document could not be read: {}",
                if order == 1 { "first" } else { "last" },
                refusal.reason()
            )),
        }
    }
    let [first, last] = ends;
    seen.samples = choose(first, last, others, most as usize);
    Ok(())
}

/// The samples to print, without repetitions.
fn choose(
    first: Option<RawDocumentBuf>,
    last: Option<RawDocumentBuf>,
    others: Vec<RawDocumentBuf>,
    most: usize,
) -> Vec<Sample> {
    let last = last.filter(|last| !first.as_ref().is_some_and(|first| same_id(first, last)));
    let room = most.saturating_sub(2);
    let mut between: Vec<RawDocumentBuf> = Vec::new();
    for document in others {
        let known = first.iter().chain(&last).chain(&between);
        if between.len() < room && !known.into_iter().any(|known| same_id(known, &document)) {
            between.push(document);
        }
    }
    let first = first.into_iter().map(|document| (SamplePosition::First, document));
    let between = between.into_iter().map(|document| (SamplePosition::Between, document));
    let last = last.into_iter().map(|document| (SamplePosition::Last, document));
    first.chain(between).chain(last).map(|(place, document)| sample(place, &document)).collect()
}

fn sample(place: SamplePosition, document: &RawDocument) -> Sample {
    let (shown, left_out) = json::shown(document, SHOWN_BYTES_MAX);
    Sample { place, bytes: document.as_bytes().len() as u64, document: shown, left_out }
}

fn same_id(one: &RawDocument, other: &RawDocument) -> bool {
    match (one.get("_id"), other.get("_id")) {
        (Ok(Some(one)), Ok(Some(other))) => one == other,
        _ => one.as_bytes() == other.as_bytes(),
    }
}

/// The first or last document in the order of `_id`.
async fn end(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    kind: Kind,
    order: i32,
) -> Result<Answer<Option<RawDocumentBuf>>, WireError> {
    let find = doc! {
        "find": namespace.collection.as_str(), "sort": {"_id": order}, "limit": 1, "singleBatch": true,
    };
    // Only a collection has an index on `_id`.
    let answer = match kind {
        Kind::Collection => asker.ask(&namespace.db, find).await?,
        _ => asker.scan(&namespace.db, find).await?,
    };
    Ok(answer.map(|reply| first(&reply)))
}

/// Asks for documents that the server chooses at random.
pub(super) fn random(namespace: &Namespace, documents: u64) -> Document {
    let documents = i64::try_from(documents).unwrap_or(i64::MAX);
    doc! {
        "aggregate": namespace.collection.as_str(),
        "pipeline": [{"$sample": {"size": documents}}],
        "cursor": {"batchSize": BATCH},
    }
}

/// Reads documents for the inventory: all if they are few, else a random sample, else the first documents.
pub(super) async fn read<'p>(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    forbidden: &'p [Pattern],
    seen: &mut Collection,
) -> Result<Reading<'p>, WireError> {
    let (fields, watch) = (Fields::default(), Watch::new(forbidden));
    let mut reading = Reading { choice: None, fields, watch, some: Vec::new() };
    let few = seen.documents.is_some_and(|documents| documents <= INVENTORY_MAX as u64);
    if !few {
        let answer = asker.scan(&namespace.db, random(namespace, INVENTORY_MAX as u64)).await?;
        match asker.rest(&namespace.db, answer, INVENTORY).await? {
            Ok(found) => {
                seen.notes.extend(found.end.note(SAMPLE));
                reading.take(&found, Choice::Random);
                return Ok(reading);
            }
            Err(refusal) => {
                seen.notes.push(format!("documents could not be chosen at random: {}", refusal.reason()));
            }
        }
    }
    let answer = asker.ask(&namespace.db, first_documents(namespace, INVENTORY_MAX)).await?;
    match asker.rest(&namespace.db, answer, INVENTORY).await? {
        Ok(found) => {
            seen.notes.extend(found.end.note(SAMPLE));
            let all = found.end == End::Complete && found.documents.len() <= INVENTORY_MAX;
            reading.take(&found, if all { Choice::All } else { Choice::First });
        }
        Err(refusal) => seen.notes.push(format!("its documents could not be read: {}", refusal.reason())),
    }
    Ok(reading)
}

impl Reading<'_> {
    fn take(&mut self, found: &Found, choice: Choice) {
        self.choice = Some(choice);
        for document in found.documents.iter().take(INVENTORY_MAX) {
            self.fields.see(document);
            self.watch.see(document);
        }
        let step = (found.documents.len() / SOME).max(1);
        self.some = found.documents.iter().skip(step / 2).step_by(step).cloned().collect();
    }
}

/// Asks for the first documents, and for one above the limit, which shows whether more exist.
pub(super) fn first_documents(namespace: &Namespace, most: usize) -> Document {
    doc! {"find": namespace.collection.as_str(), "limit": most as i64 + 1, "batchSize": BATCH}
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn check(
        first: Option<i32>,
        others: &[i32],
        last: Option<i32>,
        most: usize,
        expected: &[(SamplePosition, i32)],
    ) {
        let document = |id: i32| rawdoc! {"_id": id};
        let others = others.iter().map(|id| document(*id)).collect();
        let samples = choose(first.map(document), last.map(document), others, most);
        let shown: Vec<_> =
            samples.iter().map(|sample| (sample.place, sample.document["_id"].as_i64().unwrap())).collect();
        let expected: Vec<_> = expected.iter().map(|(place, id)| (*place, i64::from(*id))).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn every_document_is_shown_once_between_the_first_and_the_last() {
        use SamplePosition::{Between, First, Last};
        check(Some(1), &[9, 1, 5, 7], Some(9), 3, &[(First, 1), (Between, 5), (Last, 9)]);
        check(Some(1), &[5, 5, 7], Some(9), 5, &[(First, 1), (Between, 5), (Between, 7), (Last, 9)]);
        check(Some(1), &[1], Some(1), 3, &[(First, 1)]);
        check(None, &[4], None, 3, &[(Between, 4)]);
        check(Some(1), &[5], Some(9), 2, &[(First, 1), (Last, 9)]);
        check(None, &[], None, 3, &[]);
    }
}
