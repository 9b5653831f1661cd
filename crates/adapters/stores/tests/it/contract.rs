//! Checks the contract of every sink in this crate.

use plimsoll_host::Server;
use plimsoll_pipeline::{FailureClass, Identity, SinkError, SinkFactory, Verdict};

use crate::bench::{batch, settled, sink, write};

/// Checks that every submitted batch is returned once, unchanged, and that a repeated event has the effect that the sink
/// promises. `found` counts the written events.
pub fn check(factory: &dyn SinkFactory, found: impl Fn() -> u64) {
    let mut sink = sink(factory);
    assert!(sink.settle(std::time::Duration::ZERO).is_none(), "the sink holds no batch");
    let (mut submitted, mut back) = (0, Vec::new());
    while submitted < 12 {
        let most = 12.min(submitted + sink.capacity());
        while submitted < most {
            sink.submit(batch("t", 0, submitted as u64 * 50, submitted as u64 * 50 + 50));
            submitted += 1;
        }
        sink.flush();
        while back.len() < submitted {
            let (batch, verdict) = settled(&mut *sink);
            assert_eq!(verdict, Verdict::WRITTEN);
            assert_eq!((batch.events().len(), batch.partition().topic.as_ref()), (50, "t"));
            back.push(batch.events()[0].offset / 50);
        }
    }
    back.sort_unstable();
    assert_eq!(back, (0..12).collect::<Vec<_>>(), "each batch was returned once");
    assert_eq!(found(), 600);
    assert!(sink.settle(std::time::Duration::ZERO).is_none(), "the sink holds no batch any more");

    let (again, expected) = (write(&mut *sink, batch("t", 0, 0, 50)), factory.promise().identity);
    let replayed = if expected == Identity::Copies { 0 } else { 50 };
    assert_eq!(again, Verdict::Written { replayed, refused: vec![] });
    assert_eq!(found(), 650 - u64::from(replayed));
    assert_eq!(write(&mut *sink, batch("t", 0, 7, 7)), Verdict::WRITTEN, "a batch without events");
}

/// Checks that a lost server fails a batch transiently, and that a missing server fails the build of the sink.
pub fn check_absence(server: &mut Server, factory: &dyn SinkFactory) {
    let mut sink = sink(factory);
    server.kill().unwrap();
    let Verdict::Failed(failure) = write(&mut *sink, batch("t", 0, 0, 5)) else { panic!("no server runs") };
    assert_eq!(failure.class, FailureClass::Transient, "{failure:?}");
    assert!(matches!(factory.build(1).map(drop), Err(SinkError::Unreachable(_))));
    server.restart().unwrap();
    assert_eq!(write(&mut *sink, batch("t", 0, 0, 5)), Verdict::WRITTEN);
}
