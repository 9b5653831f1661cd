//! Tests that an HTTP/1.1 request allocates nothing once the buffers have grown, checks included; under TLS only rustls
//! allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use plimsoll_load::target::Target;
use plimsoll_measure::outcome::Outcome;

use crate::client::{run, send, target};
use crate::service::{Service, Way, echo};

/// The system's allocator with a counter for each thread.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count_one() {
    // A thread that is ending has lost its counter, and runs no test.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes unchanged to the system's allocator; counting touches none of the caller's memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promise is the same that the system's allocator requires.
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

const READING: &str = "post: /{sensor}?at={at}\n\
    with: {sensor: {$family: {prefix: s-, count: 10000}}, at: {$now: {as: millis}}}\nheaders: {x-id: '{sensor}'}\n\
    body: {n: {$number: {}}, d: {$double: {min: 0, max: 1}}, at: {$now: {}}, id: {$uuid: {}}, b: {$bytes: {size: 32}},\n  \
      m: {$decimal: {min: 0, max: 9}}, o: {$object_id: {}}, t: {$text: {min: 5, max: 50}}, w: {$date: {start: -1h}}}\n\
    check: {status: 2xx, headers: {content-type: {contains: json}}, json: {method: POST, body.n: {min: 0},\n  \
      headers: {exists: true}, body.gone: {exists: false}}, body: {max: 10KB, contains: sensor}}";
const BATCH: &str = "post: /sensor\nbody: {batch: {documents: 20, document: {n: {$number: {}}, sensor: x}, form: ndjson}}\n\
    check: {body: {contains: sensor}}";

#[test]
fn later_requests_of_the_same_size_allocate_nothing() {
    for way in [Way::Http1, Way::Http1Tls] {
        let service = Service::start(way, echo);
        let requests = [
            ("reading", READING.replace("contains: sensor", "contains: method")),
            ("batch", BATCH.to_owned()),
        ];
        let requests = requests.each_ref().map(|(name, yaml)| (*name, yaml.as_str()));
        let target = target(&service.section(), &requests);
        run(async {
            let mut lane = target.open().await.unwrap();
            for number in 0..50 {
                send(&target, &mut lane, number as usize % 2, number).await;
            }
            let before = allocations();
            for number in 50..250 {
                let reply = send(&target, &mut lane, number as usize % 2, number).await;
                assert_eq!(reply.outcome, Outcome::Acknowledged, "{:?}", target.answers());
            }
            let made = allocations() - before;
            // rustls allocates a vector for each record in either direction.
            let allowed = if way == Way::Http1 { 0 } else { 200 * 2 };
            assert!(made <= allowed, "{way:?}: {made}");
            assert!(before > 0, "the allocator counts");
        });
    }
}
