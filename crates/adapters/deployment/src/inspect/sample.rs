//! Hands documents of one collection to a fold: all if they are few, else a random sample, else the first documents.

use bson::{RawDocument, RawDocumentBuf};
use plimsoll_measure::inspection::{Choice, Collection};
use plimsoll_wire::Connection;

use super::query::{CursorLimits, End, Inspector};
use super::samples::{SAMPLE, first_documents, random};
use super::{Error, Wanted, catalogue, collection, databases};
use crate::namespace::Namespace;

/// The approximate number of bytes read.
const BYTES_MAX: usize = 256 << 20;

/// The collection, without its documents.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    /// Its options, indexes and sizes, with notes about omissions.
    pub collection: Collection,
    /// The choice of the documents. `None` if none could be read.
    pub choice: Option<Choice>,
}

/// Hands at most `most` documents of a collection to `see`. They are never held all at once.
///
/// # Errors
/// [`Error`] if the collection does not exist, or the connection is lost.
pub async fn sample(
    connection: &mut Connection,
    namespace: &Namespace,
    most: u32,
    see: &mut (dyn FnMut(&RawDocument) + Send),
) -> Result<Sampled, Error> {
    let mut asker = Inspector::new(connection);
    let names = databases::names(&mut asker).await?;
    let wanted = Wanted { collections: vec![namespace.clone()], ..Wanted::default() };
    let (chosen, _) = catalogue::choose(&mut asker, &wanted, &names).await?;
    let Some((namespace, entry)) = chosen.first() else { return Ok(Sampled::default()) };
    let mut seen = collection::outside(&mut asker, namespace, entry).await?;
    let choice = read(&mut asker, namespace, most as usize, &mut seen, see).await?;
    Ok(Sampled { collection: seen, choice })
}

async fn read(
    asker: &mut Inspector<'_>,
    namespace: &Namespace,
    most: usize,
    seen: &mut Collection,
    see: &mut (dyn FnMut(&RawDocument) + Send),
) -> Result<Option<Choice>, Error> {
    let limits = CursorLimits { documents: most, bytes: BYTES_MAX };
    let mut left = most;
    let mut take = |document: RawDocumentBuf| {
        if left > 0 {
            left -= 1;
            see(&document);
        }
    };
    if seen.documents.is_none_or(|documents| documents > most as u64) {
        let answer = asker.scan(&namespace.db, random(namespace, most as u64)).await?;
        match asker.each(&namespace.db, answer, limits, &mut take).await? {
            Ok(end) => {
                seen.notes.extend(end.note(SAMPLE));
                return Ok(Some(Choice::Random));
            }
            Err(refusal) => {
                seen.notes.push(format!("documents could not be chosen at random: {}", refusal.reason()));
            }
        }
    }
    let limits = CursorLimits { documents: most + 1, ..limits };
    let mut read = 0;
    let answer = asker.ask(&namespace.db, first_documents(namespace, most)).await?;
    let mut count = |document| {
        read += 1;
        take(document);
    };
    match asker.each(&namespace.db, answer, limits, &mut count).await? {
        Ok(end) => {
            seen.notes.extend(end.note(SAMPLE));
            let all = end == End::Complete && read <= most;
            Ok(Some(if all { Choice::All } else { Choice::First }))
        }
        Err(refusal) => {
            seen.notes.push(format!("its documents could not be read: {}", refusal.reason()));
            Ok(None)
        }
    }
}
