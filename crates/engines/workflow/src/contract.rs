//! Tests the promises of a store. Every store's tests run these checks, each on an empty store.

mod news;

use std::collections::BTreeSet;
use std::future::Future;

use futures_util::future::try_join_all;
use serde_json::json;

use crate::definition::{Definition, Version};
use crate::instance::{Body, DeadLetter, DeadReason, Signal, Status, TaskRow, TaskStatus};
use crate::port::{
    Commit, Committed, Deployed, Find, Inbox, Inserted, Lease, LeaseRequest, Postponed, Record, Redrive,
    SignalKey, Store, StoreError, partition_of,
};

pub use news::news_ms;

/// A promise that a store broke.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// An operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An operation had another result.
    #[error("{0}")]
    Promise(String),
}

type Checked = Result<(), Broken>;

fn same<T: PartialEq + std::fmt::Debug>(promise: &str, given: &T, wanted: &T) -> Checked {
    if given == wanted {
        return Ok(());
    }
    Err(Broken::Promise(format!("{promise}: found {given:?}, and {wanted:?} is promised")))
}

fn record(store: &impl Store, id: &str, version: u64, epoch: u64) -> Record {
    Record {
        id: id.into(),
        partition: partition_of(id, store.partitions()),
        version,
        epoch,
        status: Status::Running,
        due_ms: Some(10),
        definition: Version { name: "d".into(), hash: "h".into() },
        key: Some(format!("key of {id}")),
        note: None,
        body: vec![1, 0, 255],
        changed_ms: 5,
    }
}

fn signal(instance: &str, id: &str) -> Signal {
    Signal::named(instance, id, "go", json!({"a": 1}), 7)
}

fn key(instance: &str, id: &str) -> SignalKey {
    SignalKey { instance: instance.into(), id: id.into() }
}

fn all(store: &impl Store) -> Vec<u16> {
    (0..store.partitions()).collect()
}

/// Runs every check that needs no passing time, each on a store that `empty` makes.
///
/// # Errors
///
/// The first broken promise.
pub async fn check<S: Store, F: Future<Output = S>>(empty: impl Fn() -> F) -> Checked {
    starts_and_publishes_are_idempotent(&empty().await).await?;
    changes_are_compare_and_set(&empty().await).await?;
    forgotten_signals_are_recognised(&empty().await).await?;
    due_work_is_ordered_and_limited(&empty().await).await?;
    leases_are_exclusive(&empty().await).await?;
    dead_letters_are_kept_and_redriven(&empty().await).await?;
    newer_task_rows_win(&empty().await).await?;
    definitions_are_kept_by_version(&empty().await).await?;
    instances_are_found(&empty().await).await?;
    unreadable_bodies_keep_their_bytes(&empty().await).await
}

async fn unreadable_bodies_keep_their_bytes(store: &impl Store) -> Checked {
    let body = Body::decode(b"{\"later\": 1}");
    let unreadable = Signal { body, ..signal("a", "1") };
    let both = vec![unreadable.clone(), signal("b", "2")];
    store.start(&[record(store, "a", 1, 0)]).await?;
    store.publish(&both).await?;
    same("an unreadable signal hides no other", &store.due(&all(store), 20, 10).await?.signals, &both)?;
    let letter = DeadLetter { signal: unreadable, reason: DeadReason::Unreadable, buried_ms: 9 };
    store.bury(std::slice::from_ref(&letter)).await?;
    same("its dead letter has the bytes", &store.dead(None, 10).await?, &vec![letter])?;
    store.redrive(&[Redrive { key: key("a", "1"), by: "ann".into(), at_ms: 11 }]).await?;
    same("a redrive has the bytes", &store.signals(None, 10).await?, &both)
}

/// Checks that rows of a later version hide no others. `damage` gives the instance `b` an unknown status, and
/// the dead letter of `a` an unknown reason. It makes the signal of `b`, the task `b/2` and the definition
/// `b` unreadable.
///
/// # Errors
///
/// The first broken promise.
pub async fn check_damage<S: Store, F: Future<Output = ()>>(store: &S, damage: impl Fn() -> F) -> Checked {
    store.start(&[record(store, "a", 1, 0), record(store, "b", 1, 0), record(store, "c", 1, 0)]).await?;
    store.publish(&[signal("a", "1"), signal("b", "1"), signal("c", "1")]).await?;
    store.bury(&[DeadLetter { signal: signal("a", "1"), reason: DeadReason::Ended, buried_ms: 9 }]).await?;
    store.write_tasks(&[row("a/2", 1, None), row("b/2", 1, None), row("c/2", 1, None)]).await?;
    store.deploy(&[Definition::new("b").service("f"), Definition::new("c").service("f")], 1).await?;
    damage().await;
    damaged_instances_are_quarantined(store).await?;
    let due = store.due(&all(store), 20, 10).await?;
    same("all instances are due", &due.records.len(), &3)?;
    let is_readable = |signal: &Signal| !matches!(signal.body, Body::Unreadable(_));
    let mut readable: Vec<_> =
        due.signals.iter().map(|signal| (signal.instance.as_str(), is_readable(signal))).collect();
    readable.sort_unstable();
    same("an unreadable signal is delivered", &readable, &vec![("b", false), ("c", true)])?;
    same("all signals are listed", &store.signals(None, 10).await?.len(), &2)?;
    let reasons: Vec<_> = store.dead(None, 10).await?.iter().map(|letter| letter.reason).collect();
    same("a letter with an unknown reason is listed", &reasons, &vec![DeadReason::Unreadable])?;
    let tasks = store.tasks(&Inbox { limit: 10, ..Inbox::default() }).await?;
    let titles: Vec<_> = tasks.iter().map(|task| (task.id.as_str(), task.title == "Review")).collect();
    same("all tasks are listed", &titles, &vec![("a/2", true), ("b/2", false), ("c/2", true)])?;
    let definitions = store.definitions().await?;
    let versions: Vec<_> = definitions.iter().map(|deployed| deployed.version.name.as_str()).collect();
    same("an unreadable definition keeps its version", &versions, &vec!["b", "c"])?;
    let readable: Vec<_> = definitions.into_iter().filter_map(|deployed| deployed.definition.ok()).collect();
    same("other definitions are loaded", &readable, &vec![Definition::new("c").service("f")])
}

async fn damaged_instances_are_quarantined(store: &impl Store) -> Checked {
    let ids = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
    let records: Vec<_> = store.load(&ids).await?.into_iter().flatten().collect();
    let statuses: Vec<_> = records.iter().map(|record| (record.status, record.note.is_some())).collect();
    let running = (Status::Running, false);
    same("an unknown status is quarantine", &statuses, &vec![running, (Status::Quarantined, true), running])?;
    let bodies = records.iter().all(|stored| stored.body == record(store, "a", 1, 0).body);
    same("a body stays as it is", &bodies, &true)?;
    same("all instances are found", &store.find(&Find { limit: 10, ..Find::default() }).await?, &records)
}

async fn starts_and_publishes_are_idempotent(store: &impl Store) -> Checked {
    let first = record(store, "a", 1, 0);
    let other = Record { body: vec![9], ..first.clone() };
    let started = store.start(&[first.clone(), record(store, "b", 1, 0), other]).await?;
    same("a second start of an id is known", &started, &vec![Inserted::New, Inserted::New, Inserted::Known])?;
    let ids = ["b".to_owned(), "none".to_owned(), "a".to_owned()];
    let loaded = store.load(&ids).await?;
    same("load keeps the order of ids", &loaded, &vec![Some(record(store, "b", 1, 0)), None, Some(first)])?;

    let changed = Signal { due_ms: 3, ..signal("a", "1") };
    let published = store.publish(&[signal("a", "1"), changed, signal("b", "1")]).await?;
    same(
        "a second signal of an id is known",
        &published,
        &vec![Inserted::New, Inserted::Known, Inserted::New],
    )?;
    same(
        "a repeated signal is the first",
        &store.signals(None, 10).await?,
        &vec![signal("a", "1"), signal("b", "1")],
    )?;
    same(
        "signals are listed after a key",
        &store.signals(Some(&key("a", "1")), 10).await?,
        &vec![signal("b", "1")],
    )?;
    store.remove(&[key("a", "1"), key("a", "none")]).await?;
    same("a removed signal is gone", &store.signals(None, 10).await?, &vec![signal("b", "1")])?;
    same("an empty batch is fine", &store.publish(&[]).await?, &Vec::new())
}

async fn changes_are_compare_and_set(store: &impl Store) -> Checked {
    store.start(&[record(store, "a", 1, 0), record(store, "b", 1, 0)]).await?;
    store.publish(&[signal("a", "1"), signal("b", "1")]).await?;
    let change = |id: &str, version, epoch| Commit {
        record: Record { due_ms: None, ..record(store, id, version, epoch) },
        consumed: vec!["1".into()],
        forgotten: Vec::new(),
    };
    let given = store.commit(&[change("a", 2, 5), change("b", 3, 5), change("none", 2, 5)]).await?;
    same("only the next version wins", &given, &vec![Committed::Won, Committed::Lost, Committed::Lost])?;
    let given = store.commit(&[change("a", 2, 5), change("a", 3, 4), change("b", 2, 5)]).await?;
    same(
        "a repeated change and an older epoch lose",
        &given,
        &vec![Committed::Lost, Committed::Lost, Committed::Won],
    )?;
    let with = |consumed: &[&str]| Commit {
        consumed: consumed.iter().map(ToString::to_string).collect(),
        ..change("a", 3, 6)
    };
    store.publish(&[signal("a", "2")]).await?;
    let given = store.commit(&[with(&["2", "gone"]), change("none", 2, 5)]).await?;
    same("a change loses without its signal", &given, &vec![Committed::Lost; 2])?;
    let given = store.commit(&[with(&["2"])]).await?;
    same("a newer epoch wins", &given, &vec![Committed::Won])?;
    let stored = store.load(&["a".to_owned()]).await?;
    same("the store has the change", &stored, &vec![Some(with(&[]).record)])?;
    let left = store.signals(None, 10).await?.len();
    same("consumed signals are removed", &left, &0)
}

async fn forgotten_signals_are_recognised(store: &impl Store) -> Checked {
    store.start(&[record(store, "a", 1, 0)]).await?;
    let change = |version, consumed: &[&str], forgotten: &[&str]| Commit {
        consumed: consumed.iter().map(ToString::to_string).collect(),
        forgotten: forgotten.iter().map(ToString::to_string).collect(),
        ..Commit::of(record(store, "a", version, 1))
    };
    let publish = |id: &'static str| async move { store.publish(&[signal("a", id)]).await };
    let is_known = |inserted: &[Inserted]| inserted == [Inserted::Known];
    publish("1").await?;
    // A repetition of a signal that the instance is about to forget waits.
    publish("0").await?;
    let given = store.commit(&[change(2, &["1"], &["0"])]).await?;
    same("a change may forget signals", &given, &vec![Committed::Won])?;
    same("a waiting repetition is gone", &store.due(&all(store), 1_000_000, 10).await?.signals, &Vec::new())?;
    same("no forgotten signal is listed", &store.signals(None, 10).await?, &Vec::new())?;
    publish("7").await?;
    let given = store.known(&[key("a", "7"), key("b", "7"), key("a", "0"), key("a", "1")]).await?;
    same("waiting and forgotten signals are known", &given, &vec![true, false, true, false])?;
    store.remove(&[key("a", "7")]).await?;
    same("a forgotten signal is known", &is_known(&publish("0").await?), &true)?;
    let given = store.commit(&[change(3, &["0"], &[])]).await?;
    same("a forgotten signal cannot be applied", &given, &vec![Committed::Lost])?;
    let given = store.commit(&[change(9, &[], &["9"])]).await?;
    same("a late change loses", &given, &vec![Committed::Lost])?;
    same("a change that lost forgets nothing", &is_known(&publish("9").await?), &false)?;
    store.postpone(&[Postponed { key: key("a", "0"), due_ms: 1, attempts: 1 }]).await?;
    store.remove(&[key("a", "0")]).await?;
    same("it is neither postponed nor removed", &is_known(&publish("0").await?), &true)?;
    let waiting = store.signals_of("a", 10).await?;
    same("the waiting signals of an instance are listed", &waiting, &vec![signal("a", "9")])?;
    same("another instance has none", &store.signals_of("b", 10).await?, &Vec::new())?;
    let changed_ms = record(store, "a", 1, 0).changed_ms;
    store.forget(&all(store), changed_ms).await?;
    same("it is known for its time", &is_known(&publish("0").await?), &true)?;
    store.forget(&all(store), changed_ms + 1).await?;
    same("its time ends", &is_known(&publish("0").await?), &false)?;
    store.remove(&[key("a", "0"), key("a", "9")]).await?;
    // A dead letter can be sent again.
    store.commit(&[change(3, &[], &["2"])]).await?;
    let letter = DeadLetter { signal: signal("a", "2"), reason: DeadReason::Unused, buried_ms: 9 };
    store.bury(&[letter]).await?;
    store.redrive(&[Redrive { key: key("a", "2"), by: "ann".into(), at_ms: 11 }]).await?;
    same("a redriven signal waits", &store.signals_of("a", 10).await?, &vec![signal("a", "2")])
}

async fn due_work_is_ordered_and_limited(store: &impl Store) -> Checked {
    let at = |id: &str, due_ms| Record { due_ms, ..record(store, id, 1, 0) };
    store.start(&[at("a", Some(30)), at("b", Some(10)), at("c", None), at("d", Some(20))]).await?;
    let send = |id: &str, due_ms, sent_ms| Signal { due_ms, sent_ms, ..signal("x", id) };
    store.publish(&[send("1", 5, 1), send("2", 0, 3), send("3", 0, 2), send("4", 50, 0)]).await?;
    let due = store.due(&all(store), 20, 10).await?;
    let records =
        |due: &crate::port::Due| due.records.iter().map(|record| record.id.clone()).collect::<Vec<_>>();
    let signals =
        |due: &crate::port::Due| due.signals.iter().map(|signal| signal.id.clone()).collect::<Vec<_>>();
    same("due instances come in order", &records(&due), &vec!["b".to_owned(), "d".to_owned()])?;
    same("due signals come in order", &signals(&due), &vec!["3".to_owned(), "2".into(), "1".into()])?;
    let due = store.due(&all(store), 20, 1).await?;
    same("the earliest come first", &(records(&due), signals(&due)), &(vec!["b".into()], vec!["3".into()]))?;
    let others: Vec<_> =
        all(store).into_iter().filter(|at| *at != partition_of("x", store.partitions())).collect();
    same("other partitions have no such signal", &signals(&store.due(&others, 99, 10).await?), &Vec::new())?;
    same("due signals are counted", &store.backlog(20, 10).await?, &3)?;
    same("they are counted up to a limit", &store.backlog(20, 2).await?, &2)?;
    store.postpone(&[Postponed { key: key("x", "3"), due_ms: 40, attempts: 2 }]).await?;
    let due = store.due(&all(store), 40, 10).await?;
    same("a postponed signal is due later", &signals(&due), &vec!["2".to_owned(), "1".into(), "3".into()])?;
    same("its attempts are kept", &due.signals.last().map(|signal| signal.attempts), &Some(2))
}

async fn leases_are_exclusive(store: &impl Store) -> Checked {
    let request = |owner: &str, want, release: &[u16]| LeaseRequest {
        owner: owner.into(),
        ttl_ms: 60_000,
        want,
        release: release.to_vec(),
    };
    let partitions = usize::from(store.partitions());
    let first = store.lease(&request("a", partitions, &[])).await?;
    same("a lone owner gets all partitions", &(first.held.len(), first.owners), &(partitions, 1))?;
    same("a held partition is not free", &first.free, &0)?;
    let second = store.lease(&request("b", partitions, &[])).await?;
    same("a held partition is not claimed", &(second.held.len(), second.owners), &(0, 2))?;
    let again = store.lease(&request("a", partitions, &[])).await?;
    same("a renewal keeps the epochs", &again.held, &first.held)?;
    let kept = store.lease(&request("a", partitions - 1, &[0])).await?;
    same("a released partition is not held", &kept.held.iter().any(|lease| lease.partition == 0), &false)?;
    same("a released partition is free", &kept.free, &1)?;
    let taken = store.lease(&request("b", 1, &[])).await?;
    let before = first.held.iter().find(|lease| lease.partition == 0).map_or(0, |lease| lease.epoch);
    let grown = matches!(taken.held[..], [Lease { partition: 0, epoch }] if epoch > before);
    same("a claimed partition has a greater epoch", &grown, &true)?;
    same("a claimed partition is not free", &taken.free, &0)?;
    let holders = store.holders().await?;
    let owners: Vec<_> = holders.iter().map(|holder| holder.owner.as_str()).collect();
    let wanted: Vec<_> = (0..partitions).map(|at| if at == 0 { "b" } else { "a" }).collect();
    same("holders names the owner of each partition", &owners, &wanted)?;
    let fresh = holders.iter().all(|holder| (1..=60_000).contains(&holder.lease_ms));
    same("a lease has time left", &fresh, &true)
}

async fn dead_letters_are_kept_and_redriven(store: &impl Store) -> Checked {
    let letter = |id: &str| DeadLetter { signal: signal("a", id), reason: DeadReason::Ended, buried_ms: 9 };
    store.publish(&[signal("a", "1"), signal("a", "2")]).await?;
    store.bury(&[letter("1"), letter("2")]).await?;
    store.bury(&[DeadLetter { buried_ms: 99, ..letter("1") }]).await?;
    same("a dead letter is kept once", &store.dead(None, 10).await?, &vec![letter("1"), letter("2")])?;
    same(
        "dead letters are listed after a key",
        &store.dead(Some(&key("a", "1")), 10).await?,
        &vec![letter("2")],
    )?;
    same("its signal is gone", &store.signals(None, 10).await?, &Vec::new())?;
    let redrive = |id: &str| Redrive { key: key("a", id), by: "ann".into(), at_ms: 11 };
    let count = store.redrive(&[redrive("1"), redrive("none")]).await?;
    same("only existing letters are redriven", &count, &1)?;
    same("a redriven letter is a signal again", &store.signals(None, 10).await?, &vec![signal("a", "1")])?;
    same("a redriven letter is gone", &store.dead(None, 10).await?, &vec![letter("2")])?;
    same("a redrive is recorded", &store.redriven(10).await?, &vec![redrive("1")])
}

fn row(id: &str, version: u64, assignee: Option<&str>) -> TaskRow {
    TaskRow {
        id: id.into(),
        version,
        instance: "a".into(),
        key: None,
        visit: 2,
        title: "Review".into(),
        roles: vec!["clerk".into()],
        payload: json!({"a": [1, null]}),
        status: TaskStatus::Open,
        assignee: assignee.map(str::to_owned),
        refused: None,
        due_ms: None,
        changed_ms: 3,
    }
}

async fn newer_task_rows_win(store: &impl Store) -> Checked {
    store.write_tasks(&[row("a/2", 2, Some("ann")), row("a/2", 1, None), row("a/3", 3, None)]).await?;
    let find = |inbox: Inbox| async move { store.tasks(&Inbox { limit: 10, ..inbox }).await };
    let ids = |rows: Vec<TaskRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    let ann = Inbox { assignee: Some("ann".into()), ..Inbox::default() };
    same("an older row does not replace a newer one", &find(ann).await?, &vec![row("a/2", 2, Some("ann"))])?;
    let clerks = Inbox { roles: vec!["clerk".into(), "x".into()], ..Inbox::default() };
    same("a role finds its tasks", &ids(find(clerks).await?), &vec!["a/2".to_owned(), "a/3".into()])?;
    let others = Inbox { roles: vec!["x".into()], ..Inbox::default() };
    same("another role finds none", &ids(find(others).await?), &Vec::new())?;
    store.write_tasks(&[TaskRow { status: TaskStatus::Completed, ..row("a/3", 4, None) }]).await?;
    let open = Inbox { status: Some(TaskStatus::Open), ..Inbox::default() };
    same("a completed task is not open", &ids(find(open).await?), &vec!["a/2".to_owned()])
}

async fn definitions_are_kept_by_version(store: &impl Store) -> Checked {
    let (one, two) = (Definition::new("d").service("f"), Definition::new("d").service("g"));
    store.deploy(&[one.clone(), two.clone()], 1).await?;
    store.deploy(std::slice::from_ref(&one), 2).await?;
    let first_again = vec![two, one.clone()];
    let known = |definitions: &[Definition]| -> Vec<_> {
        let deployed = |definition: &Definition| Deployed {
            version: definition.version(),
            definition: Ok(definition.clone()),
        };
        definitions.iter().map(deployed).collect()
    };
    same(
        "a version that is deployed again is the latest again",
        &store.definitions().await?,
        &known(&first_again),
    )?;
    let deployed = store.deployed().await?;
    store.deploy(std::slice::from_ref(&one), 3).await?;
    same("a repeated deployment changes nothing", &store.deployed().await?, &deployed)?;
    store.deploy(&first_again[..1], 4).await?;
    same("every change of the order shows", &(store.deployed().await? == deployed), &false)?;
    same(
        "versions are kept in order of deployment",
        &store.definitions().await?,
        &known(&[one, first_again[0].clone()]),
    )
}

async fn instances_are_found(store: &impl Store) -> Checked {
    let ended = Record { status: Status::Done, ..record(store, "b", 1, 0) };
    store.start(&[record(store, "a", 1, 0), ended, record(store, "c", 1, 0)]).await?;
    let find = |find: Find| async move { store.find(&Find { limit: 2, ..find }).await };
    let ids = |records: Vec<Record>| records.into_iter().map(|record| record.id).collect::<Vec<_>>();
    same(
        "instances come in order of ids",
        &ids(find(Find::default()).await?),
        &vec!["a".to_owned(), "b".into()],
    )?;
    let after = Find { after: Some("b".into()), ..Find::default() };
    same("instances after an id are found", &ids(find(after).await?), &vec!["c".to_owned()])?;
    let done = Find { status: Some(Status::Done), definition: Some("d".into()), ..Find::default() };
    same("a status is found", &ids(find(done).await?), &vec!["b".to_owned()])?;
    let key = Find { key: Some("key of c".into()), ..Find::default() };
    same("a business key is found", &ids(find(key).await?), &vec!["c".to_owned()])?;
    let listed = store.list(&Find { limit: 2, ..Find::default() }).await?;
    let empty = listed.iter().all(|record| record.body.is_empty() && record.definition.name == "d");
    same("a list has no states", &(listed.len(), empty), &(2, true))?;
    let nothing = Find { definition: Some("x".into()), ..Find::default() };
    same("another definition is not found", &ids(find(nothing).await?), &Vec::new())?;
    let empty = signal("none", "1");
    same("a signal may come before its instance", &store.publish(&[empty]).await?, &vec![Inserted::New])
}

/// Fills a store with instances, signals, tasks and dead letters.
///
/// # Errors
///
/// If the store fails.
pub async fn fill(store: &impl Store, count: usize) -> Checked {
    let ids: Vec<_> = (0..count).map(|number| format!("f{number}")).collect();
    let records: Vec<_> = ids.iter().map(|id| record(store, id, 1, 0)).collect();
    store.start(&records).await?;
    let signals: Vec<_> = ids.iter().map(|id| signal(id, "1")).collect();
    store.publish(&signals).await?;
    let letters = ids.iter().map(|id| DeadLetter {
        signal: signal(id, "dead"),
        reason: DeadReason::Ended,
        buried_ms: 9,
    });
    store.bury(&letters.collect::<Vec<_>>()).await?;
    let rows: Vec<_> = ids.iter().map(|id| row(&format!("{id}/2"), 1, Some("ann"))).collect();
    Ok(store.write_tasks(&rows).await?)
}

/// Runs each routine operation of workers, clients and inboxes once, on a store that [`fill`] filled.
///
/// # Errors
///
/// If the store fails.
pub async fn steady(store: &impl Store) -> Checked {
    let due = store.due(&all(store), 20, 10).await?;
    same("work is due", &(due.signals.len(), due.records.len()), &(10, 10))?;
    store.load(&["f1".to_owned(), "f2".to_owned()]).await?;
    store.start(&[record(store, "new", 1, 0)]).await?;
    store.publish(&[signal("new", "1")]).await?;
    store.commit(&[Commit { consumed: vec!["1".into()], ..Commit::of(record(store, "f1", 2, 1)) }]).await?;
    store.remove(&[key("f2", "1")]).await?;
    store.postpone(&[Postponed { key: key("f3", "1"), due_ms: 40, attempts: 2 }]).await?;
    store.bury(&[DeadLetter { signal: signal("f4", "1"), reason: DeadReason::Ended, buried_ms: 9 }]).await?;
    store.redrive(&[Redrive { key: key("f5", "dead"), by: "ann".into(), at_ms: 11 }]).await?;
    store.dead(Some(&key("f1", "dead")), 10).await?;
    store.signals(Some(&key("f1", "1")), 10).await?;
    store.write_tasks(&[row("f6/2", 2, Some("bob"))]).await?;
    store.tasks(&Inbox { status: Some(TaskStatus::Open), limit: 10, ..Inbox::default() }).await?;
    store.tasks(&Inbox { assignee: Some("ann".into()), limit: 10, ..Inbox::default() }).await?;
    store.tasks(&Inbox { instance: Some("f7".into()), limit: 10, ..Inbox::default() }).await?;
    store.find(&Find { status: Some(Status::Parked), limit: 10, ..Find::default() }).await?;
    store.find(&Find { key: Some("key of f8".into()), limit: 10, ..Find::default() }).await?;
    store.find(&Find { definition: Some("none".into()), limit: 10, ..Find::default() }).await?;
    store.signals_of("f9", 10).await?;
    store.known(&[key("f9", "1"), key("f9", "none")]).await?;
    store.backlog(20, 10).await?;
    Ok(store.forget(&all(store), 1).await?)
}

/// Requests at the same time in a check of concurrency.
const CALLERS: usize = 8;

/// Checks that operations at the same time exclude each other, and that none fails because of another. The store is empty.
///
/// # Errors
///
/// The first broken promise.
pub async fn check_concurrency(store: &impl Store) -> Checked {
    let records = [record(store, "a", 1, 0), record(store, "b", 1, 0)];
    let starts = try_join_all((0..CALLERS).map(|_| store.start(&records))).await?;
    same("one start of an id is new", &count(&starts, Inserted::New), &2)?;
    let signals = [signal("a", "1"), signal("b", "1")];
    let published = try_join_all((0..CALLERS).map(|_| store.publish(&signals))).await?;
    same("one signal of an id is new", &count(&published, Inserted::New), &2)?;
    let change = |id: &str| Commit::of(record(store, id, 2, 1));
    let orders = [[change("a"), change("b")], [change("b"), change("a")]];
    let commits = try_join_all((0..CALLERS).map(|at| store.commit(&orders[at % 2]))).await?;
    same("one change of a version wins", &count(&commits, Committed::Won), &2)?;
    leases_exclude_each_other(store).await
}

fn count<T: PartialEq>(results: &[Vec<T>], wanted: T) -> usize {
    results.iter().flatten().filter(|result| **result == wanted).count()
}

async fn leases_exclude_each_other(store: &impl Store) -> Checked {
    let request = |at: usize, ttl_ms, want| LeaseRequest {
        owner: format!("owner {at}"),
        ttl_ms,
        want,
        release: Vec::new(),
    };
    // Leases that end at once: all owners claim the same partitions, and remove each other's leases.
    for _ in 0..CALLERS {
        let all = usize::from(store.partitions());
        let requests: Vec<_> = (0..CALLERS).map(|at| request(at, 1, all)).collect();
        try_join_all(requests.iter().map(|request| store.lease(request))).await?;
    }
    let requests: Vec<_> = (0..CALLERS).map(|at| request(at + CALLERS, 60_000, 2)).collect();
    let leases = try_join_all(requests.iter().map(|request| store.lease(request))).await?;
    let held: Vec<_> = leases.iter().flat_map(|leases| &leases.held).map(|lease| lease.partition).collect();
    let partitions: BTreeSet<_> = held.iter().copied().collect();
    same("no partition has two owners", &partitions.len(), &held.len())
}

/// Checks that a lease ends: `pass` lets the store's time pass by a lease's length.
///
/// # Errors
///
/// The first broken promise.
pub async fn check_expiry<S: Store, F: Future<Output = ()>>(
    store: &S,
    ttl_ms: u64,
    pass: impl Fn() -> F,
) -> Checked {
    let request = |owner: &str| LeaseRequest { owner: owner.into(), ttl_ms, want: 1, release: Vec::new() };
    let before = store.lease(&request("a")).await?;
    pass().await;
    let after = store.lease(&LeaseRequest { want: usize::from(store.partitions()), ..request("b") }).await?;
    same("an ended lease is free", &after.held.len(), &usize::from(store.partitions()))?;
    let Some(old) = before.held.first() else {
        return Err(Broken::Promise("no partition was claimed".into()));
    };
    let new = after.held.iter().find(|lease| lease.partition == old.partition);
    same("a new owner has a greater epoch", &new.is_some_and(|new| new.epoch > old.epoch), &true)?;
    let zombie = store.lease(&request("a")).await?;
    same("an old owner holds nothing", &zombie.held, &Vec::new())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::memory::{Memory, Removal};

    #[test]
    fn the_memory_store_keeps_every_promise() {
        for removal in [Removal::WithCommit, Removal::AfterCommit] {
            let checked = check(|| async { Memory::new(8, removal) }).now_or_never();
            checked.unwrap().unwrap();
            let store = Memory::new(8, removal);
            let concurrent = check_concurrency(&store).now_or_never();
            concurrent.unwrap().unwrap();
            let store = Memory::new(8, removal);
            fill(&store, 50).now_or_never().unwrap().unwrap();
            steady(&store).now_or_never().unwrap().unwrap();
            let store = Memory::new(8, removal);
            let expired = check_expiry(&store, 100, || async { store.set_clock(1000) }).now_or_never();
            expired.unwrap().unwrap();
        }
    }
}
