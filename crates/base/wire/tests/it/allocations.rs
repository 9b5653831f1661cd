//! Tests that the hot paths allocate no memory once their buffers have grown.
//!
//! Allocations of zstd's C code are not counted. Its contexts are created once per connection, and its one-step calls work in
//! them and in our buffers.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bson::rawdoc;
use plimsoll_wire::{
    Connection, FindReply, FindRequest, FindSpec, WriteBatch, WriteKind, WriteReply, WriteSpec,
};

use crate::client::{WAYS, connect_by, run};
use crate::server::Server;

/// The system's allocator, with a count for each thread.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count_one() {
    // A thread that ends has no counter, and no test needs its count.
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

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

async fn write(connection: &mut Connection, batch: &mut WriteBatch, reply: &mut WriteReply, documents: u32) {
    batch.clear();
    for _ in 0..documents {
        // `{x: 1}`; the server assigns its `_id`.
        batch.push(|out| out.extend_from_slice(b"\x0c\0\0\0\x10x\0\x01\0\0\0\0")).unwrap();
    }
    connection.write(batch, reply).await;
    assert!(reply.is_acknowledged());
}

#[test]
fn a_write_allocates_nothing_after_the_first_of_its_size() {
    let server = Server::shared();
    run(async {
        for way in WAYS {
            let mut connection = connect_by(server.address(), way).await;
            let spec = WriteSpec::new(WriteKind::Insert, "a_write", "c");
            let mut batch = WriteBatch::new(&spec, &connection.limits()).unwrap();
            let mut reply = WriteReply::new();
            write(&mut connection, &mut batch, &mut reply, 1000).await;
            let before = allocations();
            for documents in [1, 10, 1000, 1, 500] {
                write(&mut connection, &mut batch, &mut reply, documents).await;
            }
            assert_eq!(allocations() - before, 0, "{way:?}");
            assert!(before > 0, "the allocator counts");
        }
    });
}

#[test]
fn a_find_allocates_nothing_after_the_first_of_its_size() {
    let server = Server::shared();
    run(async {
        for (way, db) in WAYS.into_iter().zip(["a_find_0", "a_find_1", "a_find_2"]) {
            let mut connection = connect_by(server.address(), way).await;
            let spec = WriteSpec::new(WriteKind::Insert, db, "c");
            let mut batch = WriteBatch::new(&spec, &connection.limits()).unwrap();
            write(&mut connection, &mut batch, &mut WriteReply::new(), 100).await;
            assert_eq!(find_four_times(&mut connection, db).await, (0, 400), "{way:?}");
        }
    });
}

/// Finds all documents in batches of 60, four times. Returns the allocations of the last two rounds, and the number of
/// documents found.
async fn find_four_times(connection: &mut Connection, db: &str) -> (u64, usize) {
    let spec = FindSpec { batch_size: Some(60), ..FindSpec::new(db, "c") };
    let mut request = FindRequest::new(&spec, &connection.limits()).unwrap();
    let (mut reply, filter) = (FindReply::new(), rawdoc! {"x": 1});
    let (mut before, mut found) = (0, 0);
    for round in 0..4 {
        // Two buffers alternate: the connection's and the reply's.
        before = if round < 2 { allocations() } else { before };
        request.filter(|out| out.extend_from_slice(filter.as_bytes())).unwrap();
        connection.find(&mut request, &mut reply).await.unwrap();
        found += reply.documents().count();
        connection.get_more(&mut request, reply.cursor_id(), &mut reply).await.unwrap();
        found += reply.documents().count();
    }
    (allocations() - before, found)
}
