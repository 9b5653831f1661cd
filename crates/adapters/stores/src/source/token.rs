//! Where a change stream goes on, as it is kept: a resume token, and the number of the stream.
//!
//! Offsets count from where a stream began, so two streams of one collection that began apart have the same ones for other
//! changes. The number follows from the token with which a stream began, and tells their events apart.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, doc};
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::Error;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// What is kept, as far as the driver needs it.
#[derive(Deserialize)]
struct Kept {
    #[serde(rename = "_id")]
    token: ResumeToken,
}

/// The place where a stream begins.
pub fn begin(token: &ResumeToken) -> Option<Arc<[u8]>> {
    let digest = Sha256::digest(&*of_driver(token, 0)?);
    of_driver(token, u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]))
}

/// A place in a stream, as the driver has it.
pub fn of_driver(token: &ResumeToken, stream: u32) -> Option<Arc<[u8]>> {
    let token = bson::serialize_to_bson(token).ok()?;
    bson::serialize_to_vec(&doc! {"_id": token, "stream": i64::from(stream)}).ok().map(Arc::from)
}

/// The place behind a change, whose `_id` is the token.
pub fn of_change(id: RawBsonRef<'_>, stream: u32) -> Arc<[u8]> {
    let mut kept = RawDocumentBuf::new();
    kept.append(bson::cstr!("_id"), id);
    kept.append(bson::cstr!("stream"), i64::from(stream));
    Arc::from(kept.as_bytes())
}

/// What the driver needs of a place.
///
/// # Errors
/// If it is none.
pub fn to_driver(kept: &[u8]) -> Result<ResumeToken, Error> {
    let kept: Kept = bson::deserialize_from_slice(kept)?;
    Ok(kept.token)
}

/// The number of a place's stream; zero for one that was kept without.
pub fn stream(kept: &[u8]) -> u32 {
    let number = RawDocument::from_bytes(kept).ok().and_then(|kept| kept.get_i64("stream").ok());
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(data: &str) -> ResumeToken {
        let bytes = doc! {"_id": {"_data": data}}.to_vec().unwrap();
        to_driver(&bytes).unwrap()
    }

    #[test]
    fn a_place_reads_back_and_keeps_the_number_of_its_stream() {
        let begun = begin(&token("82A")).unwrap();
        assert_eq!(to_driver(&begun).unwrap(), token("82A"));
        let number = stream(&begun);
        let change = doc! {"_id": {"_data": "82B"}}.to_vec().unwrap();
        let id = RawDocument::from_bytes(&change).unwrap().get("_id").unwrap().unwrap();
        let behind = of_change(id, number);
        assert_eq!((to_driver(&behind).unwrap(), stream(&behind)), (token("82B"), number));
        assert_eq!(Some(behind), of_driver(&token("82B"), number), "whichever way it was learnt");
    }

    #[test]
    fn streams_that_began_apart_have_numbers_of_their_own() {
        let number = |data| stream(&begin(&token(data)).unwrap());
        assert_eq!(number("82A"), number("82A"));
        assert_ne!(number("82A"), number("82B"));
        assert_eq!(stream(&doc! {"_id": {"_data": "82A"}}.to_vec().unwrap()), 0);
    }
}
