//! Encodes the position of a change stream: a resume token, and the number of the stream.
//!
//! Offsets count from the start of a stream, so two streams of one collection with different starts use the same offsets for
//! different changes. The number, a hash of the stream's first token, distinguishes their events.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, doc};
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::Error;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The part of a token that the driver needs.
#[derive(Deserialize)]
struct Kept {
    #[serde(rename = "_id")]
    token: ResumeToken,
}

/// The token of a stream's start.
pub fn begin(token: &ResumeToken) -> Option<Arc<[u8]>> {
    let digest = Sha256::digest(&*of_driver(token, 0)?);
    of_driver(token, u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]))
}

/// The token for a position of the driver.
pub fn of_driver(token: &ResumeToken, stream: u32) -> Option<Arc<[u8]>> {
    let token = bson::serialize_to_bson(token).ok()?;
    bson::serialize_to_vec(&doc! {"_id": token, "stream": i64::from(stream)}).ok().map(Arc::from)
}

/// The token after a change. The change's `_id` is the driver's token.
pub fn of_change(id: RawBsonRef<'_>, stream: u32) -> Arc<[u8]> {
    let mut kept = RawDocumentBuf::new();
    kept.append(bson::cstr!("_id"), id);
    kept.append(bson::cstr!("stream"), i64::from(stream));
    Arc::from(kept.as_bytes())
}

/// The driver's part of a token.
///
/// # Errors
/// If the token is invalid.
pub fn to_driver(kept: &[u8]) -> Result<ResumeToken, Error> {
    let kept: Kept = bson::deserialize_from_slice(kept)?;
    Ok(kept.token)
}

/// The stream number of a token; zero for tokens without one.
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
    fn a_token_reads_back_with_its_stream_number() {
        let begun = begin(&token("82A")).unwrap();
        assert_eq!(to_driver(&begun).unwrap(), token("82A"));
        let number = stream(&begun);
        let change = doc! {"_id": {"_data": "82B"}}.to_vec().unwrap();
        let id = RawDocument::from_bytes(&change).unwrap().get("_id").unwrap().unwrap();
        let behind = of_change(id, number);
        assert_eq!((to_driver(&behind).unwrap(), stream(&behind)), (token("82B"), number));
        assert_eq!(Some(behind), of_driver(&token("82B"), number), "change and driver agree");
    }

    #[test]
    fn streams_with_different_starts_have_different_numbers() {
        let number = |data| stream(&begin(&token(data)).unwrap());
        assert_eq!(number("82A"), number("82A"));
        assert_ne!(number("82A"), number("82B"));
        assert_eq!(stream(&doc! {"_id": {"_data": "82A"}}.to_vec().unwrap()), 0);
    }
}
