//! Derives the run ID that all shards share.

use plimsoll_ledger::Run as RunId;
use sha2::{Digest, Sha256};

/// The identity that every shard of a plan has that begins at one moment, in milliseconds since 1970. It follows from what
/// decides which documents are whose, so that shards that would send the same numbers are different runs.
pub fn identity(hash: &str, shards: u64, workers: usize, start_ms: u64) -> RunId {
    let text = format!("{hash} {shards} {workers} {start_ms}");
    let digest = Sha256::digest(text.as_bytes());
    let time_s = u32::try_from(start_ms / 1000).unwrap_or(u32::MAX);
    RunId { time_s, tag: [digest[0], digest[1], digest[2]] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_agree_on_who_they_are_and_other_plans_are_others() {
        let own = identity("abc", 3, 2, 1_795_285_800_000);
        assert_eq!(own, identity("abc", 3, 2, 1_795_285_800_000));
        assert_eq!(own.time_s, 1_795_285_800);
        for other in [
            identity("abd", 3, 2, 1_795_285_800_000),
            identity("abc", 4, 2, 1_795_285_800_000),
            identity("abc", 3, 4, 1_795_285_800_000),
            identity("abc", 3, 2, 1_795_285_800_001),
        ] {
            assert_ne!(own, other);
        }
    }
}
