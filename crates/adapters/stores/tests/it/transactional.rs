//! Tests the transactional sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::doc;
use plimsoll_host::Server;
use plimsoll_measure::clock;
use plimsoll_pipeline::{Control, Ended, FailureClass, Partition, Verdict};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::scenario::Transactional;

use crate::bench::{LIMIT, ask, batch, count, documents, shared, sink, start, unique, uri, write};
use crate::numbers::{self, Numbers};
use crate::revoked_source::{Change, RevokedSource};

fn typed(server: &Server, db: &str) -> Transactional {
    let mut typed = Transactional { form: Form::Bson, ..Transactional::new(uri(server), format!("{db}.c")) };
    typed.gather_wait = "50ms".parse().unwrap();
    typed
}

fn run(
    server: &Server,
    db: &str,
    numbers: Numbers,
    control: &Arc<Control>,
) -> Result<Ended, plimsoll_pipeline::Error> {
    let typed = typed(server, db);
    numbers::run(numbers, typed.build("p").unwrap(), typed.positions("p").unwrap(), control)
}

/// Checks that every number from 0 to `end` exists once.
fn check_numbers(server: &Server, db: &str, end: i64) {
    let mut found: Vec<_> =
        documents(server, db, "c").iter().map(|found| found.get_i64("n").unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found.len() as i64, end);
    assert_eq!(found, (0..end).collect::<Vec<_>>());
}

fn next(server: &Server, db: &str, partition: u32) -> Option<u64> {
    let kept = typed(server, db).positions("p").unwrap().look(&Partition::new("t", partition)).unwrap();
    kept.position.map(|position| position.next)
}

#[test]
fn events_and_positions_are_written_together() {
    let server = shared();
    let ended = run(&server, "tx_all", Numbers::new(3, 3000, 250), &Arc::new(Control::default())).unwrap();
    assert_eq!(ended, Ended::Exhausted);
    check_numbers(&server, "tx_all", 9000);
    assert_eq!([0, 1, 2].map(|partition| next(&server, "tx_all", partition)), [Some(3000); 3]);
    // A restarted pipeline continues at the end, and writes nothing more.
    run(&server, "tx_all", Numbers::new(3, 3010, 250), &Arc::new(Control::default())).unwrap();
    check_numbers(&server, "tx_all", 9030);
}

#[test]
fn an_unclaimed_partition_is_not_written() {
    let server = shared();
    let factory = typed(&server, "tx_bare").build("p").unwrap();
    let Verdict::Failed(failure) = write(&mut *sink(&factory), batch("t", 0, 0, 5)) else {
        panic!("it was written")
    };
    assert_eq!(failure.class, FailureClass::Final);
    assert!(failure.reason.contains("`positions`"), "{failure:?}");
}

#[test]
fn a_refused_record_is_dead_lettered_in_the_same_transaction() {
    let server = shared();
    unique(&server, "tx_refused_event", "c", "n");
    let taken: Vec<_> =
        [3_i64, 700, 701].iter().map(|n| doc! {"_id": format!("other {n}"), "n": *n}).collect();
    ask(&server, "tx_refused_event", doc! {"insert": "c", "documents": taken});
    run(&server, "tx_refused_event", Numbers::new(1, 1000, 100), &Arc::new(Control::default())).unwrap();
    assert_eq!(count(&server, "tx_refused_event", "c"), 1000, "997 documents of the pipeline and 3 others");
    let letters = documents(&server, "tx_refused_event", "c_dead_letters");
    assert_eq!(letters.len(), 3);
    let payloads: Vec<_> =
        letters.iter().map(|letter| letter.get_binary_generic("payload").unwrap().clone()).collect();
    assert_eq!(payloads, [3, 700, 701].map(crate::bench::payload));
    let text = letters[0].to_string();
    assert!(text.contains("plimsoll-cause") && text.contains("plimsoll-offset"), "{text}");
    assert_eq!(next(&server, "tx_refused_event", 0), Some(1000));
}

#[test]
fn a_process_that_lost_the_partition_writes_no_more() {
    let server = shared();
    let control = Arc::new(Control::default());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| run(&server, "tx_fence", Numbers::new(1, 1_000_000_000, 100), &control));
        wait_for(|| next(&server, "tx_fence", 0).is_some_and(|next| next > 500));
        let seen = next(&server, "tx_fence", 0).unwrap();
        // The second process takes the partition over while the first is running.
        let second =
            run(&server, "tx_fence", Numbers::new(1, seen + 4000, 100), &Arc::new(Control::default()));
        assert_eq!(second.unwrap(), Ended::Exhausted);
        let error = first.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("another process took over t/0"), "{error}");
    });
    let end = next(&server, "tx_fence", 0).unwrap();
    check_numbers(&server, "tx_fence", end as i64);
}

/// Batches of an ended assignment are still buffered when batches of the next assignment arrive.
#[test]
fn a_reassigned_partition_with_buffered_batches_is_written_once() {
    let server = shared();
    let typed = Transactional { gather_wait: "200ms".parse().unwrap(), ..typed(&server, "tx_again") };
    let source = RevokedSource::new(3000, Change::Again { batches: 13, times: 6 });
    let control = Arc::new(Control::default());
    let ended = numbers::run(source, typed.build("p").unwrap(), typed.positions("p").unwrap(), &control);
    assert_eq!(ended.unwrap(), Ended::Exhausted);
    check_numbers(&server, "tx_again", 3000);
    assert_eq!(next(&server, "tx_again", 0), Some(3000));
}

#[test]
fn a_process_notified_of_the_loss_in_time_continues() {
    let server = shared();
    let lost = Arc::new(AtomicBool::new(false));
    let source = RevokedSource::new(u64::MAX, Change::Lost(Arc::clone(&lost)));
    let typed = typed(&server, "tx_lost");
    let control = Arc::new(Control::default());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            numbers::run(source, typed.build("p").unwrap(), typed.positions("p").unwrap(), &control)
        });
        wait_for(|| next(&server, "tx_lost", 0).is_some_and(|next| next > 100));
        let seen = next(&server, "tx_lost", 0).unwrap();
        let second =
            run(&server, "tx_lost", Numbers::new(1, seen + 4000, 100), &Arc::new(Control::default()));
        assert_eq!(second.unwrap(), Ended::Exhausted);
        // The process is fenced now, but not notified yet.
        std::thread::sleep(Duration::from_secs(2));
        assert!(!first.is_finished(), "the first process did not wait for the notification");
        lost.store(true, Ordering::Relaxed);
        assert_eq!(first.join().unwrap().unwrap(), Ended::Exhausted);
    });
    let end = next(&server, "tx_lost", 0).unwrap();
    check_numbers(&server, "tx_lost", end as i64);
}

#[test]
fn killed_servers_and_aborts_neither_lose_nor_duplicate_events() {
    let mut server = start();
    let seed = clock::wall_ms();
    println!("seed {seed}");
    // The collections must exist before the first kill: a kill during their creation can leave an incomplete collection on the
    // embedded server.
    let warm = Transactional { form: Form::Bson, ..Transactional::new(uri(&server), "d.c") };
    let control = Arc::new(Control::default());
    numbers::run(Numbers::new(2, 10, 10), warm.build("p").unwrap(), warm.positions("p").unwrap(), &control)
        .unwrap();
    for round in 0..3_u64 {
        let control = Arc::new(Control::default());
        // The kill happens at some moment after the start.
        let (at, deployment) = (1 + (seed >> (4 * round)) % 4000, uri(&server));
        let before = next(&server, "d", 0).unwrap();
        let typed =
            Transactional { form: Form::Bson, gather_events: 200, ..Transactional::new(deployment, "d.c") };
        std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let numbers = Numbers::new(2, 20_000 * (round + 1), 100);
                numbers::run(numbers, typed.build("p").unwrap(), typed.positions("p").unwrap(), &control)
            });
            wait_for(|| running.is_finished() || next(&server, "d", 0).unwrap() >= before + at);
            assert!(!running.is_finished(), "the pipeline ended before the server could be killed");
            server.kill().unwrap();
            server.restart().unwrap();
            std::thread::sleep(Duration::from_millis(at % 100));
            if round == 1 {
                control.abort();
            }
            let ended = running.join().unwrap().unwrap();
            assert!(ended == Ended::Exhausted || round == 1, "{ended:?}");
        });
    }
    check_numbers(&server, "d", 120_000);
    assert_eq!([0, 1].map(|partition| next(&server, "d", partition)), [Some(60_000); 2]);
}

fn wait_for(holds: impl Fn() -> bool) {
    let start = clock::now();
    while !holds() {
        assert!(u128::from(clock::now().since(start)) < LIMIT.as_nanos(), "the condition never holds");
        std::thread::sleep(Duration::from_millis(20));
    }
}
