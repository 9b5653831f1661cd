//! Drives a real worker and client on the memory store.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use futures_util::FutureExt;
use plimsoll_workflow::definition::Version;
use plimsoll_workflow::explain;
use plimsoll_workflow::file::read;
use plimsoll_workflow::instance::{Act, Body, DeadLetter, Signal, StartRequest, State, Status};
use plimsoll_workflow::memory::{Memory, Removal};
use plimsoll_workflow::port::{Clock, Find, Inserted, Record, Services, SignalKey, Store, StoreError};
use plimsoll_workflow::step::{Call, CallError, start};
use plimsoll_workflow::worker::{
    Client, ClientError, Groups, Mailbox, Registry, Settings, Watchers, Worker, drive,
};
use serde_json::{Value, json};

use super::examples::text;

/// A clock that jumps to the next awaited moment whenever nothing else can happen.
#[derive(Default)]
struct Jumping {
    now_ms: AtomicU64,
    waits: Mutex<Vec<(u64, Waker)>>,
}

impl Clock for Jumping {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn until(&self, at_ms: u64) -> impl Future<Output = ()> + Send {
        poll_fn(move |context| {
            if self.now_ms() >= at_ms {
                return Poll::Ready(());
            }
            self.waits.lock().unwrap().push((at_ms, context.waker().clone()));
            Poll::Pending
        })
    }
}

impl Jumping {
    fn jump(&self) {
        let waits = std::mem::take(&mut *self.waits.lock().unwrap());
        let Some(next_ms) = waits.iter().map(|(at_ms, _)| *at_ms).min() else { return };
        self.now_ms.fetch_max(next_ms, Ordering::Relaxed);
        waits.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

struct Noop;

impl Services for Noop {
    async fn call(&self, call: &Call) -> Result<Value, CallError> {
        match call.target.to_string().as_str() {
            "panic" => panic!("as asked"),
            "huge" => Ok(json!("x".repeat(9 << 20))),
            _ => Ok(json!(1)),
        }
    }
}

/// Runs a worker and a client in this thread until the client is done.
fn with_worker<T>(client: impl AsyncFnOnce(&Client<Memory>, &Jumping) -> T) -> T {
    let store = Arc::new(Memory::new(8, Removal::WithCommit));
    let (registry, mailbox) = (Arc::new(Registry::default()), Mailbox::default());
    let (backlog, watchers, clock) =
        (Arc::new(AtomicUsize::new(0)), Watchers::default(), Arc::<Jumping>::default());
    let worker = Worker {
        store: store.clone(),
        services: Arc::new(Noop),
        clock: clock.clone(),
        registry: registry.clone(),
        settings: Settings::new("one"),
        mailbox: mailbox.clone(),
        backlog: backlog.clone(),
        watchers: watchers.clone(),
    };
    let requests = Client {
        store: store.clone(),
        registry,
        mailbox: mailbox.clone(),
        backlog,
        backlog_max: 100,
        watchers,
        groups: Groups::default(),
    };
    let mut worker = Box::pin(drive(worker));
    let mut client = Box::pin(client(&requests, &clock));
    let mut context = std::task::Context::from_waker(Waker::noop());
    for turn in 0..200_000 {
        if let Poll::Ready(given) = client.as_mut().poll(&mut context) {
            mailbox.close();
            assert!(worker.as_mut().poll(&mut context).is_ready());
            return given;
        }
        for _ in 0..20 {
            assert!(worker.as_mut().poll(&mut context).is_pending());
        }
        // Time passes when neither has work: the client has seen the worker's last turn.
        if turn % 2 == 1 {
            clock.jump();
        }
        store.set_clock(clock.now_ms());
    }
    panic!("the client waits for ever");
}

fn request(id: &str, definition: &str) -> StartRequest {
    let input = json!({});
    StartRequest { id: id.into(), definition: definition.into(), key: None, parent: None, depth: 0, input }
}

#[test]
fn a_client_starts_signals_and_sees_the_end() {
    let finished = with_worker(async |client, clock| {
        let now_ms = clock.now_ms();
        client.deploy(&read(text("signal-round-trip")).unwrap().0, now_ms).await.unwrap();
        let end = client.watchers.watch("i");
        assert_eq!(client.start(request("i", "signal-round-trip"), now_ms).await.unwrap(), Inserted::New);
        assert_eq!(client.start(request("i", "signal-round-trip"), now_ms).await.unwrap(), Inserted::Known);
        let signal = Signal::named("i", "s", "go", Value::Null, now_ms);
        assert_eq!(client.publish(signal).await.unwrap(), Inserted::New);
        end.await
    });
    assert_eq!(finished.status, Status::Done);
}

#[test]
fn a_repeated_signal_is_known_while_it_waits_and_after_its_instance_has_applied_it() {
    with_worker(async |client, clock| {
        let now_ms = clock.now_ms();
        client.deploy(&read(text("signal-round-trip")).unwrap().0, now_ms).await.unwrap();
        let sent = |id: &str| Signal::named("i", id, "go", Value::Null, now_ms);
        // The instance does not exist yet, so its signal waits.
        for expected in [Inserted::New, Inserted::Known] {
            assert_eq!(client.publish_unless_applied(sent("s")).await.unwrap(), expected);
        }
        let end = client.watchers.watch("i");
        client.start(request("i", "signal-round-trip"), now_ms).await.unwrap();
        assert_eq!(end.await.status, Status::Done);
        assert_eq!(client.store.signals(None, 10).await.unwrap(), []);
        assert_eq!(client.publish_unless_applied(sent("s")).await.unwrap(), Inserted::Known);
        assert_eq!(client.publish_unless_applied(sent("later")).await.unwrap(), Inserted::New);
    });
}

#[test]
fn every_watch_of_an_instance_gets_its_end_and_one_that_goes_away_disturbs_no_other() {
    with_worker(async |client, clock| {
        client.deploy(&read(text("timer")).unwrap().0, 0).await.unwrap();
        let (first, gone, second) =
            (client.watchers.watch("i"), client.watchers.watch("i"), client.watchers.watch("i"));
        client.start(request("i", "timer"), clock.now_ms()).await.unwrap();
        drop(gone);
        assert_eq!((first.await.status, second.await.status), (Status::Done, Status::Done));
    });
}

#[test]
fn an_end_in_another_process_is_seen_and_a_wait_ends_at_its_moment() {
    with_worker(async |client, clock| {
        client.deploy(&read(text("timer")).unwrap().0, 0).await.unwrap();
        // The worker of this process does not know these watchers.
        let other = elsewhere(client);
        let began_ms = clock.now_ms();
        client.start(request("i", "timer"), began_ms).await.unwrap();
        assert_eq!(other.wait_for_end("i", began_ms + 900, clock).await.unwrap(), None);
        assert_eq!(clock.now_ms(), began_ms + 900);
        let end = other.wait_for_end("i", u64::MAX, clock).await.unwrap().unwrap();
        assert_eq!((end.instance.as_str(), end.status), ("i", Status::Done));
        assert!(clock.now_ms() < began_ms + 1_000 + 2_000, "{}", clock.now_ms());
        assert_eq!(other.wait_for_end("i", 0, clock).await.unwrap(), Some(end));
    });
}

#[test]
fn every_change_of_an_instance_ends_a_wait_at_once_here_and_soon_elsewhere() {
    with_worker(async |client, clock| {
        client.deploy(&read(text("timer")).unwrap().0, 0).await.unwrap();
        // The worker of this process does not know these watchers.
        let other = elsewhere(client);
        let until_ms = clock.now_ms() + 60_000;
        assert!(client.wait_for_change("i", 0, until_ms, clock).await.unwrap().is_none());
        let began_ms = clock.now_ms();
        client.start(request("i", "timer"), began_ms).await.unwrap();
        let (mut version, mut last_ms) = (0, began_ms);
        loop {
            let record = client.wait_for_change("i", version, until_ms, clock).await.unwrap().unwrap();
            assert!(record.version > version);
            (version, last_ms) = (record.version, clock.now_ms().max(last_ms));
            if record.status.is_ended() {
                break;
            }
        }
        assert_eq!(last_ms, began_ms + 1_000, "the timer ends the last wait");
        let begun_ms = clock.now_ms();
        client.start(request("j", "timer"), begun_ms).await.unwrap();
        let found = other.wait_for_change("j", 1, until_ms, clock).await.unwrap().unwrap();
        assert_eq!(found.status, Status::Done);
        assert!((begun_ms + 1_000..=begun_ms + 3_000).contains(&clock.now_ms()), "{}", clock.now_ms());
        let end_ms = clock.now_ms() + 500;
        let same = other.wait_for_change("i", version, end_ms, clock).await.unwrap().unwrap();
        assert_eq!((same.version, clock.now_ms()), (version, end_ms), "no change comes");
    });
}

/// A client whose process has no worker.
fn elsewhere(client: &Client<Memory>) -> Client<Memory> {
    Client {
        store: client.store.clone(),
        registry: client.registry.clone(),
        mailbox: Mailbox::default(),
        backlog: Arc::default(),
        backlog_max: 100,
        watchers: Watchers::default(),
        groups: Groups::default(),
    }
}

#[test]
fn a_timer_ends_at_its_moment() {
    with_worker(async |client, clock| {
        client.deploy(&read(text("timer")).unwrap().0, 0).await.unwrap();
        let end = client.watchers.watch("i");
        let began_ms = clock.now_ms();
        client.start(request("i", "timer"), began_ms).await.unwrap();
        assert_eq!(end.await.status, Status::Done);
        assert_eq!(clock.now_ms(), began_ms + 1000);
    });
}

#[test]
fn a_function_that_panics_fails_its_instance_and_no_other() {
    with_worker(async |client, clock| {
        let (definition, _) = read("name: bad\nsteps:\n- service: {function: panic}\n").unwrap();
        client.deploy(&definition, 0).await.unwrap();
        client.deploy(&read(text("timer")).unwrap().0, 0).await.unwrap();
        let (bad, good) = (client.watchers.watch("bad"), client.watchers.watch("good"));
        client.start(request("bad", "bad"), clock.now_ms()).await.unwrap();
        client.start(request("good", "timer"), clock.now_ms()).await.unwrap();
        let bad = bad.await;
        assert_eq!(bad.status, Status::Failed);
        assert!(bad.error.unwrap().starts_with("panic failed in attempt 5: the function panicked"));
        assert_eq!(good.await.status, Status::Done);
    });
}

#[test]
fn an_instance_that_grows_too_large_is_quarantined_with_its_reason() {
    with_worker(async |client, _| {
        let (definition, _) = read("name: huge\nsteps:\n- service: {function: huge, result: r}\n").unwrap();
        client.deploy(&definition, 0).await.unwrap();
        client.start(request("i", "huge"), 0).await.unwrap();
        let quarantined = first_record(client, |record| record.status == Status::Quarantined).await;
        let state = State::decode(&quarantined.body).unwrap();
        assert!(state.error.unwrap().contains("keep large data elsewhere"));
        client.publish(Signal::named("i", "s", "go", Value::Null, 0)).await.unwrap();
        assert_eq!(first_letter(client).await.reason.name(), "quarantined");
    });
}

#[test]
fn an_instance_of_an_unknown_version_waits_with_its_reason_until_the_version_is_deployed() {
    with_worker(async |client, _| {
        let (definition, program) = read(text("timer")).unwrap();
        let state = start(&program, request("i", "timer"), 0).unwrap();
        let record = Record::of(&state, client.store.partitions(), 1, 0).unwrap();
        client.store.start(&[record]).await.unwrap();
        first_record(client, |record| record.note.is_some()).await;
        let explained = explain::of(&*client.store, None, "i").await.unwrap().unwrap();
        assert!(explained.error.unwrap().contains("is unknown: deploy it again"));
        assert_eq!(explained.owner.as_deref(), Some("one"));
        client.store.deploy(&[definition], 0).await.unwrap();
        let done = first_record(client, |record| record.status == Status::Done).await;
        assert_eq!(done.note, None);
    });
}

#[test]
fn a_definition_of_a_later_program_is_neither_replaced_by_an_earlier_version_nor_taken_for_missing() {
    with_worker(async |client, clock| {
        let (parent, _) = read("name: parent\nsteps:\n- workflow: {definition: timer}\n").unwrap();
        let (timer, _) = read(text("timer")).unwrap();
        client.deploy(&timer, 0).await.unwrap();
        client.deploy(&parent, 0).await.unwrap();
        let later = Version { name: "timer".into(), hash: "of a later program".into() };
        client.store.deploy_unreadable(later);
        clock.until(10_000).await;
        let refused = client.start(request("i", "timer"), clock.now_ms()).await.unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("the latest definition timer is unusable: this program cannot read it")
        );
        client.start(request("p", "parent"), clock.now_ms()).await.unwrap();
        clock.until(clock.now_ms() + 20_000).await;
        let explained = explain::of(&*client.store, None, "p").await.unwrap().unwrap();
        assert_eq!(explained.status, Status::Running);
        assert_eq!(explained.reasons[0].missing.as_deref(), Some("timer"));
        // A version that this program can read becomes the latest again.
        client.deploy(&timer, clock.now_ms()).await.unwrap();
        first_record(client, |record| record.id == "p" && record.status == Status::Done).await;
    });
}

/// The first instance that matches, as soon as there is one.
async fn first_record(client: &Client<Memory>, matches: impl Fn(&Record) -> bool) -> Record {
    poll_fn(|context| {
        context.waker().wake_by_ref();
        let find = Find { limit: 10, ..Find::default() };
        let records = FutureExt::now_or_never(client.store.find(&find)).unwrap().unwrap();
        records.into_iter().find(|record| matches(record)).map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// The first dead letter, as soon as there is one.
async fn first_letter(client: &Client<Memory>) -> DeadLetter {
    poll_fn(|context| {
        context.waker().wake_by_ref();
        let letters = FutureExt::now_or_never(client.store.dead(None, 10)).unwrap().unwrap();
        letters.into_iter().next().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

#[test]
fn a_schedule_starts_instances() {
    with_worker(async |client, clock| {
        let (definition, _) =
            read("name: hourly\nstart: {cron: '0 * * * *'}\nsteps:\n- service: {function: f}\n").unwrap();
        client.deploy(&definition, 0).await.unwrap();
        let find = Find { definition: Some("hourly".into()), limit: 10, ..Find::default() };
        let ended = poll_fn(|context| {
            let records = FutureExt::now_or_never(client.store.find(&find)).unwrap().unwrap();
            let ended = records.iter().filter(|record| record.status == Status::Done).count();
            context.waker().wake_by_ref();
            if ended < 3 { Poll::Pending } else { Poll::Ready(ended) }
        });
        assert_eq!(ended.await, 3);
        assert!((10_800_000..10_801_000).contains(&clock.now_ms()), "{}", clock.now_ms());
    });
}

/// The moments and versions of the ended instances of a definition, once there are enough.
async fn ended_starts(client: &Client<Memory>, definition: &str, count: usize) -> Vec<(u64, String)> {
    let find = Find { definition: Some(definition.into()), limit: 100, ..Find::default() };
    poll_fn(|context| {
        let records = FutureExt::now_or_never(client.store.find(&find)).unwrap().unwrap();
        context.waker().wake_by_ref();
        let ended = records.iter().filter(|record| record.status == Status::Done);
        let start = |record: &Record| {
            (State::decode(&record.body).unwrap().started_ms, record.definition.hash.clone())
        };
        let mut starts: Vec<_> = ended.map(start).collect();
        starts.sort();
        if starts.len() < count { Poll::Pending } else { Poll::Ready(starts) }
    })
    .await
}

#[test]
fn a_changed_schedule_replaces_the_old_one_and_an_old_version_can_come_back() {
    const HOUR_MS: u64 = 3_600_000;
    with_worker(async |client, clock| {
        let version = |minute: u32| {
            let text =
                format!("name: a\nstart: {{cron: '{minute} * * * *'}}\nsteps:\n- service: {{function: f}}\n");
            read(&text).unwrap().0
        };
        let minute = |start: &(u64, String)| start.0 % HOUR_MS / 60_000;
        let (whole, half) = (version(0), version(30));
        client.deploy(&whole, clock.now_ms()).await.unwrap();
        client.deploy(&half, clock.now_ms()).await.unwrap();
        let starts = ended_starts(client, "a", 3).await;
        assert_eq!(starts.iter().map(minute).collect::<Vec<_>>(), [30, 30, 30]);
        assert!(starts.iter().all(|start| start.1 == half.version().hash));
        // A repeated deployment changes nothing.
        client.deploy(&half, clock.now_ms()).await.unwrap();
        for (definition, wanted) in [(&whole, 0), (&half, 30)] {
            let before = ended_starts(client, "a", 0).await.len();
            client.deploy(definition, clock.now_ms()).await.unwrap();
            let starts = ended_starts(client, "a", before + 3).await.split_off(before);
            assert_eq!(starts.iter().map(minute).collect::<Vec<_>>(), [wanted; 3]);
            assert!(starts.iter().all(|start| start.1 == definition.version().hash));
        }
        let (plain, _) = read("name: a\nsteps:\n- service: {function: f}\n").unwrap();
        client.deploy(&plain, clock.now_ms()).await.unwrap();
        let find = Find { definition: Some("a.schedule".into()), limit: 100, ..Find::default() };
        poll_fn(|context| {
            context.waker().wake_by_ref();
            let schedules = FutureExt::now_or_never(client.store.find(&find)).unwrap().unwrap();
            let is_open = |record: &Record| !record.status.is_ended();
            if schedules.iter().any(is_open) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    });
}

#[test]
fn a_full_process_accepts_deployments_and_answers_repeated_requests_as_known() {
    let scheduled = |minute: u8| {
        let text =
            format!("name: a\nstart: {{cron: '{minute} * * * *'}}\nsteps:\n- service: {{function: f}}\n");
        read(&text).unwrap().0
    };
    with_worker(async |client, clock| {
        let now_ms = clock.now_ms();
        client.deploy(&read(text("signal-round-trip")).unwrap().0, now_ms).await.unwrap();
        client.deploy(&scheduled(0), now_ms).await.unwrap();
        let signal = |id: &str| Signal::named("i", id, "go", Value::Null, now_ms);
        let end = client.watchers.watch("i");
        client.start(request("i", "signal-round-trip"), now_ms).await.unwrap();
        client.publish(signal("s")).await.unwrap();
        assert_eq!(end.await.status, Status::Done);
        let full = Client {
            store: client.store.clone(),
            registry: client.registry.clone(),
            mailbox: Mailbox::default(),
            backlog: Arc::new(AtomicUsize::new(101)),
            backlog_max: 100,
            watchers: Watchers::default(),
            groups: Groups::default(),
        };
        // The later version ends the schedule of the earlier one, and begins another.
        full.deploy(&scheduled(30), now_ms).await.unwrap();
        let busy = |result: Result<Inserted, ClientError>| matches!(result, Err(ClientError::Busy(101)));
        assert_eq!(full.start(request("i", "signal-round-trip"), now_ms).await.unwrap(), Inserted::Known);
        let taken = full.start(request("i", "a"), now_ms).await;
        assert!(matches!(taken, Err(ClientError::Taken { .. })), "{taken:?}");
        assert!(busy(full.start(request("j", "signal-round-trip"), now_ms).await));
        assert!(busy(full.start(request("", "signal-round-trip"), now_ms).await));
        assert_eq!(full.publish(signal("s")).await.unwrap(), Inserted::Known);
        assert!(busy(full.publish(signal("t")).await));
    });
}

#[test]
fn a_process_without_a_worker_refuses_signals_while_too_many_wait_in_the_store() {
    let client = Client {
        store: Arc::new(Memory::new(4, Removal::WithCommit)),
        registry: Arc::default(),
        mailbox: Mailbox::default(),
        backlog: Arc::default(),
        backlog_max: 10,
        watchers: Watchers::default(),
        groups: Groups::default(),
    };
    let publish = |number: u64, now_ms| {
        let signal = Signal::named("i", number.to_string(), "go", Value::Null, now_ms);
        client.publish(signal).now_or_never().unwrap()
    };
    let sent = (0..1_000).take_while(|number| publish(*number, 100 * number).is_ok()).count();
    assert!((11..=22).contains(&sent), "{sent} signals were accepted");
    assert!(matches!(publish(2_000, 10_000), Err(ClientError::Busy(11..=22))));
    // A repetition of an accepted signal needs no room.
    assert_eq!(publish(0, 10_000).unwrap(), Inserted::Known);
    // The flood can be ended: other signals have more room.
    for body in [Body::Cancel { reason: "flood".into() }, Body::Retry] {
        let signal = Signal::new("i", format!("{body:?}"), body, 10_000);
        assert_eq!(client.publish(signal).now_or_never().unwrap().unwrap(), Inserted::New);
    }
    let retry = |number: u64| {
        let signal = Signal::new("i", format!("retry {number}"), Body::Retry, 20_000 + 100 * number);
        client.publish(signal).now_or_never().unwrap()
    };
    let sent = (0..1_000).take_while(|number| retry(*number).is_ok()).count();
    assert!((70..=100).contains(&sent), "{sent} retries were accepted");
    assert!(matches!(retry(2_000), Err(ClientError::Busy(101))));
    // The store is empty again.
    let waiting = client.store.signals(None, 1_000).now_or_never().unwrap().unwrap();
    let keys: Vec<_> = waiting.iter().map(SignalKey::of).collect();
    client.store.remove(&keys).now_or_never().unwrap().unwrap();
    assert_eq!(publish(3_000, 300_000).unwrap(), Inserted::New);
}

#[test]
fn the_id_of_an_instance_of_another_definition_or_key_is_refused() {
    with_worker(async |client, _| {
        for name in ["timer", "three-steps"] {
            client.deploy(&read(text(name)).unwrap().0, 0).await.unwrap();
        }
        let keyed = |key: &str| StartRequest { key: Some(key.into()), ..request("i", "timer") };
        assert_eq!(client.start(keyed("k"), 0).await.unwrap(), Inserted::New);
        assert_eq!(client.start(keyed("k"), 0).await.unwrap(), Inserted::Known);
        for other in [keyed("l"), request("i", "timer"), request("i", "three-steps")] {
            let refused = client.start(other, 0).await.unwrap_err().to_string();
            assert!(refused.contains("belongs to an instance of timer with the key k: choose another id"));
        }
    });
}

#[test]
fn a_refused_start_fails_alone() {
    with_worker(async |client, _| {
        client.deploy(&read(text("timer")).unwrap().0, 0).await.unwrap();
        client.store.refuse("forbidden");
        let starts = ["a", "forbidden", "c", "d", "e"].map(|id| client.start(request(id, "timer"), 0));
        let results = futures_util::future::join_all(starts).await;
        let is_new: Vec<_> = results.iter().map(|result| matches!(result, Ok(Inserted::New))).collect();
        assert_eq!(is_new, [true, false, true, true, true], "{results:?}");
        assert!(matches!(results[1], Err(ClientError::Store(StoreError::Refused(_)))));
    });
}

#[test]
fn bad_requests_name_their_remedy() {
    with_worker(async |client, _| {
        let words = |error: ClientError| error.to_string();
        let unknown = client.start(request("i", "none"), 0).await.unwrap_err();
        assert_eq!(words(unknown), "no definition is named none: deploy it first");
        client.deploy(&read(text("timer")).unwrap().0, 0).await.unwrap();
        let unnamed = client.start(request("", "timer"), 0).await.unwrap_err();
        assert!(words(unnamed).contains("the id is invalid"));
        let keyed = StartRequest { key: Some("k".repeat(600)), ..request("i", "timer") };
        assert!(words(client.start(keyed, 0).await.unwrap_err()).contains("the business key is invalid"));
        let act = Act::Assign { to: "x".repeat(600) };
        let body = Body::Act { visit: 1, by: "a".into(), roles: Vec::new(), act };
        let assigned = client.publish(Signal::new("i", "s", body, 0)).await.unwrap_err();
        assert!(words(assigned).contains("the assignee is invalid"));
        let listed = StartRequest { input: json!([1]), ..request("i", "timer") };
        assert!(words(client.start(listed, 0).await.unwrap_err()).contains("must be an object"));
        let large = Signal::named("i", "s", "go", json!("x".repeat(2 << 20)), 0);
        assert!(words(client.publish(large).await.unwrap_err()).contains("keep large data elsewhere"));
        for id in ["ended:i/2", "cancel:i/2"] {
            let internal = client.publish(Signal::named("i", id, "go", Value::Null, 0)).await.unwrap_err();
            assert!(words(internal).contains("the engine's own"));
        }
        let (literal, _) =
            read("name: b\nsteps:\n- http: {url: 'http://h/', headers: {authorization: x}}\n").unwrap();
        assert!(words(client.deploy(&literal, 0).await.unwrap_err()).contains("holds a literal secret"));
        let (named, _) = read("name: b.schedule\nsteps:\n- wait: {signal: go}\n").unwrap();
        assert!(words(client.deploy(&named, 0).await.unwrap_err()).contains("names that end in `.schedule`"));
        let schedule = format!("timer.schedule/{}", "0".repeat(64));
        for id in ["i/2", "a/b/17", &schedule] {
            assert!(
                words(client.start(request(id, "timer"), 0).await.unwrap_err()).contains("the engine's own")
            );
        }
        for id in ["i-2", "i/2a", "2", "a/"] {
            assert_eq!(client.start(request(id, "timer"), 0).await.unwrap(), Inserted::New, "{id}");
        }
        client.backlog.store(101, Ordering::Relaxed);
        let busy = client.publish(Signal::named("i", "s", "go", Value::Null, 0)).await.unwrap_err();
        assert!(words(busy).contains("send it again later"));
    });
}

#[test]
fn a_signal_that_is_sent_again_with_another_body_changes_nothing() {
    let (data, now_ms) = with_worker(async |client, clock| {
        let definition = "name: kept\nsteps:\n- wait: {name: go, signal: go, result: given}\n";
        client.deploy(&read(definition).unwrap().0, 0).await.unwrap();
        let end = client.watchers.watch("i");
        client.start(request("i", "kept"), 0).await.unwrap();
        let signal = |body: u32, due_ms| Signal { due_ms, ..Signal::named("i", "s", "go", json!(body), 0) };
        assert_eq!(client.publish(signal(1, 5_000)).await.unwrap(), Inserted::New);
        assert_eq!(client.publish(signal(2, 0)).await.unwrap(), Inserted::Known);
        end.await;
        let record = client.store.load(&["i".into()]).await.unwrap().remove(0).unwrap();
        (State::decode(&record.body).unwrap().data, clock.now_ms())
    });
    assert_eq!(data["given"], 1);
    assert!(now_ms >= 5_000, "{now_ms}");
}

#[test]
fn a_signal_without_an_instance_becomes_a_dead_letter_after_a_while() {
    with_worker(async |client, clock| {
        client.publish(Signal::named("nobody", "s", "go", Value::Null, 0)).await.unwrap();
        let buried = first_letter(client).await;
        assert_eq!(buried.reason.name(), "unknown_instance");
        assert!(clock.now_ms() > 15_000, "{}", clock.now_ms());
    });
}

#[test]
fn a_client_refuses_requests_after_its_worker_has_died() {
    let (mailbox, store) = (Mailbox::default(), Arc::new(Memory::new(1, Removal::WithCommit)));
    let registry = Arc::new(Registry::default());
    let client = Client {
        store: store.clone(),
        registry: registry.clone(),
        mailbox: mailbox.clone(),
        backlog: Arc::default(),
        backlog_max: 100,
        watchers: Watchers::default(),
        groups: Groups::default(),
    };
    client.deploy(&read(text("timer")).unwrap().0, 0).now_or_never().unwrap().unwrap();
    let worker = Worker {
        store,
        services: Arc::new(Noop),
        clock: Arc::new(Broken),
        registry,
        settings: Settings::new("one"),
        mailbox: mailbox.clone(),
        backlog: Arc::default(),
        watchers: Watchers::default(),
    };
    let died = catch_unwind(AssertUnwindSafe(|| drive(worker).now_or_never()));
    assert!(died.is_err() && mailbox.is_dead());
    let started = client.start(request("i", "timer"), 0).now_or_never().unwrap();
    let sent = client.publish(Signal::named("i", "s", "go", Value::Null, 0)).now_or_never().unwrap();
    for error in [started.unwrap_err(), sent.unwrap_err()] {
        assert!(error.to_string().contains("has died: restart the process"), "{error}");
    }
    let stored = client.store.load(&["i".into()]).now_or_never().unwrap().unwrap();
    assert_eq!(stored, [None]);
}

/// A clock that makes its worker panic.
struct Broken;

impl Clock for Broken {
    fn now_ms(&self) -> u64 {
        panic!("the clock is broken")
    }

    async fn until(&self, _: u64) {}
}

#[test]
fn delayed_signals_to_a_missing_instance_are_bounded_in_number_and_age() {
    const DAY_MS: u64 = 24 * 3_600_000;
    with_worker(async |client, _| {
        client.deploy(&read(text("signal-round-trip")).unwrap().0, 0).await.unwrap();
        let send = |id: String, due_ms| {
            client.publish(Signal { due_ms, ..Signal::named("later", id, "go", Value::Null, 0) })
        };
        let words = |error: ClientError| error.to_string();
        let far = send("far".into(), DAY_MS + 1).await.unwrap_err();
        assert!(words(far).contains("start the instance first"));
        for number in 0..64 {
            assert_eq!(send(format!("s{number:02}"), DAY_MS).await.unwrap(), Inserted::New);
        }
        assert!(words(send("one-more".into(), DAY_MS).await.unwrap_err()).contains("64 signals wait"));
        assert_eq!(send("s07".into(), DAY_MS).await.unwrap(), Inserted::Known);
        client.start(request("later", "signal-round-trip"), 0).await.unwrap();
        assert_eq!(send("far".into(), DAY_MS + 1).await.unwrap(), Inserted::New);
        let farther = send("farther".into(), 367 * DAY_MS).await.unwrap_err();
        assert!(words(farther).contains("send it later"));
    });
}
