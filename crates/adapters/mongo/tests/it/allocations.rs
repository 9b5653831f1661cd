//! Tests that an operation over kept connections allocates nothing once its buffers have grown.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use plimsoll_host::null;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_mongo::lean::Lean;

use crate::scripts::{deployment, ledger, plan, run};

/// The system's allocator, with a count for each thread.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count_one() {
    // A thread that is ending has no counter, and no test needs its count.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting does not touch the caller's memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller fulfils the contract of the system's allocator, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; `pointer` came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// The allocations of `operations` operations of each kind, and those before, in as many operations for the buffers to grow.
async fn allocations(
    target: &Lean,
    lane: &mut <Lean as Target>::Lane,
    kinds: usize,
    operations: u64,
) -> (u64, u64) {
    let mut before = 0;
    for number in 0..2 * operations {
        if number == operations {
            before = ALLOCATIONS.with(Cell::get);
        }
        for kind in 0..kinds {
            assert_eq!(target.prepare(lane, kind, number), Prepared::Ready);
            target.send(lane).await;
        }
    }
    (ALLOCATIONS.with(Cell::get) - before, before)
}

#[test]
fn operations_over_kept_connections_allocate_nothing() {
    let server = null::Server::start(null::Options::default()).unwrap();
    let operations = [
        ("find", r#"{"find": {}}"#),
        (
            "update",
            r#"{"update": {"filter": {"a": 1}, "update": {"$set": {"b": 1}}, "write_concern": {"w": 1}}}"#,
        ),
        ("read", r#"{"find": {"filter": {}, "read_concern": "majority", "read_preference": "secondary"}}"#),
    ];
    let setup = Arc::new(plan("{}", &operations));
    let mut ledger = ledger(&setup);
    ledger.pretend(1000);
    let target = Lean::new(setup, deployment(server.address().port()), ledger);
    run(async {
        let mut lane = target.open().await.unwrap();
        let (made, before) = allocations(&target, &mut lane, operations.len(), 100).await;
        assert_eq!(made, 0);
        assert!(before > 0, "the count counts");
    });
}
