//! Tests the position store.

use std::sync::Arc;

use plimsoll_pipeline::{Partition, Position, PositionError, PositionStore};
use plimsoll_stores::scenario::Transactional;

use crate::bench::{shared, uri};

fn store(db: &str, pipeline: &str) -> plimsoll_stores::positions::Positions {
    Transactional::new(uri(&shared()), format!("{db}.c")).positions(pipeline).unwrap()
}

#[test]
fn a_position_keeps_its_token_and_never_moves_back() {
    let (_server, at) = (shared(), Partition::new("t", 0));
    let first = store("pos_keep", "p");
    let claim = first.claim(&at).unwrap();
    assert_eq!((claim.position, claim.epoch), (None, 1));
    let here = Position { next: 7, token: Some(Arc::from(&b"token"[..])) };
    first.keep(&[(at.clone(), here.clone())]).unwrap();
    first.keep(&[(at.clone(), Position::at(3))]).unwrap();
    let claim = store("pos_keep", "p").claim(&at).unwrap();
    assert_eq!((claim.position, claim.epoch), (Some(here), 2));
    assert_eq!(store("pos_keep", "other").claim(&at).unwrap().position, None, "each pipeline has its own");
}

/// A claim raises the epoch from the value that it has read. If it incremented any value, an abandoned
/// attempt could raise the epoch again.
#[test]
fn simultaneous_claims_get_consecutive_epochs() {
    let (_server, at) = (shared(), Partition::new("t", 0));
    let stores: Vec<_> = (0..4).map(|_| store("pos_many", "p")).collect();
    let claim = &|store: &plimsoll_stores::positions::Positions| store.claim(&at).unwrap().epoch;
    let mut epochs: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = stores
            .iter()
            .map(|store| scope.spawn(move || (0..5).map(|_| claim(store)).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    epochs.sort_unstable();
    assert_eq!(epochs, (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_process_that_lost_a_partition_changes_nothing() {
    let (_server, lost, kept) = (shared(), Partition::new("t", 0), Partition::new("t", 1));
    let (first, second) = (store("pos_fence", "p"), store("pos_fence", "p"));
    for partition in [&lost, &kept] {
        first.claim(partition).unwrap();
    }
    second.claim(&lost).unwrap();
    let both = [(lost.clone(), Position::at(5)), (kept.clone(), Position::at(5))];
    let error = first.keep(&both).unwrap_err();
    assert!(matches!(&error, PositionError::Fenced { partition } if *partition == lost), "{error}");
    assert_eq!(first.look(&lost).unwrap().position, None);
    assert_eq!(first.look(&kept).unwrap().position, Some(Position::at(5)));
    second.keep(&both[..1]).unwrap();
    assert!(
        matches!(second.keep(&both), Err(PositionError::Unavailable { .. })),
        "it never claimed the other"
    );
}
