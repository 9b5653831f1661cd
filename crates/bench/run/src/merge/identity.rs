//! Derives the run ID that all shards share.

use plimsoll_ledger::Run as RunId;
use sha2::{Digest, Sha256};

/// The run ID that all shards of one load share. `start_ms` is the load's start, in milliseconds since 1970. The ID hashes every
/// input that distributes document numbers over shards. So shards with different inputs, whose numbers could collide, get
/// different IDs.
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
    fn shards_of_one_plan_share_an_id_and_other_plans_have_others() {
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
