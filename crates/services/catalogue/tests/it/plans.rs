//! Tests the server's plan of every query that the storage sends: none scans a collection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bson::{Bson, Document, doc};
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};
use plimsoll_catalogue::access::{Caller, Roles, Rules, User};
use plimsoll_catalogue::documents::block;
use plimsoll_catalogue::documents::dataset::Patch;
use plimsoll_catalogue::query::page::Cursor;
use plimsoll_catalogue::query::{Dialect, Find, facets, filter, full};
use plimsoll_catalogue::storage::{Store, Transactions};

use crate::samples::{NOW_MS, add, any, at, create};
use crate::server;

/// The commands that have a plan.
const PLANNED: [&str; 4] = ["find", "aggregate", "update", "delete"];

/// A database whose commands are recorded.
async fn noted(name: &str) -> (Database, Arc<Mutex<Vec<Document>>>) {
    let commands: Arc<Mutex<Vec<Document>>> = Arc::default();
    let note = commands.clone();
    let mut options = ClientOptions::parse(server::uri(server::shared())).await.unwrap();
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if let CommandEvent::Started(started) = event {
            note.lock().unwrap().push(started.command);
        }
    }));
    (Client::with_options(options).unwrap().database(name), commands)
}

/// The largest number of commands at once that a database has sent.
#[derive(Default)]
struct AtOnce {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A database that counts its commands at once, with a large pool of connections.
async fn counting(name: &str) -> (Database, Arc<AtOnce>) {
    let at_once: Arc<AtOnce> = Arc::default();
    let counted = at_once.clone();
    let mut options = ClientOptions::parse(server::uri(server::shared())).await.unwrap();
    options.max_pool_size = Some(100);
    options.command_event_handler = Some(EventHandler::callback(move |event| match event {
        CommandEvent::Started(_) => {
            let now = counted.now.fetch_add(1, Ordering::SeqCst) + 1;
            counted.most.fetch_max(now, Ordering::SeqCst);
        }
        _ => drop(counted.now.fetch_sub(1, Ordering::SeqCst)),
    }));
    (Client::with_options(options).unwrap().database(name), at_once)
}

#[tokio::test]
async fn a_list_of_a_user_with_many_groups_sends_few_queries_at_once() {
    let (database, at_once) = counting("many_groups").await;
    let store = Store::open(&database).await.unwrap();
    for number in 0..40 {
        create(&store, &format!("q/{number}"), number).await;
    }
    let groups = (0..30).map(|group| format!("g{group}")).collect();
    let caller = Caller::User(User { groups, email: "ann@x.org".into(), ..User::default() });
    let access = Rules::default().read_filter(&caller);
    let newest = find("{}");
    at_once.most.store(0, Ordering::SeqCst);
    let listing = store.list(&access, &newest, None, &|| NOW_MS, &any).await.unwrap();
    assert_eq!(listing.documents.len(), 10);
    let most = at_once.most.swap(0, Ordering::SeqCst);
    assert!((2..=8).contains(&most), "{most}");
    let all = (0..20).map(|_| store.list(&access, &newest, None, &|| NOW_MS, &any));
    futures_util::future::try_join_all(all).await.unwrap();
    let most = at_once.most.load(Ordering::SeqCst);
    assert!((9..=32 + 20).contains(&most), "{most}: each request also reads its page");
}

/// A command without the parts that `explain` refuses.
fn explainable(command: &Document) -> Option<Document> {
    let name = command.keys().next().filter(|name| PLANNED.contains(&name.as_str()))?;
    let mut bare = command.clone();
    for part in [
        "lsid",
        "$db",
        "$clusterTime",
        "txnNumber",
        "startTransaction",
        "autocommit",
        "writeConcern",
        "readConcern",
        "maxTimeMS",
        "ordered",
        "$readPreference",
    ] {
        bare.remove(part);
    }
    if matches!(name.as_str(), "update" | "delete") {
        let list = if name == "update" { "updates" } else { "deletes" };
        bare.get_array_mut(list).unwrap().truncate(1);
    }
    Some(bare)
}

fn stages(explained: &Bson, found: &mut Vec<String>) {
    match explained {
        Bson::Document(document) => {
            for (name, value) in document.iter().filter(|(name, _)| *name != "rejectedPlans") {
                match value {
                    Bson::String(stage) if name == "stage" => found.push(stage.clone()),
                    other => stages(other, found),
                }
            }
        }
        Bson::Array(all) => all.iter().for_each(|one| stages(one, found)),
        _ => (),
    }
}

fn find(text: &str) -> Find {
    filter::translate(Some(text), Dialect::V4).unwrap()
}

/// Sends every query of the storage.
async fn send_all(store: &Store) {
    let dataset = create(store, "p/1", 1).await;
    add(store, &dataset, "1", 3).await.unwrap();
    store.blocks("p/1", &any).await.unwrap();
    store.verify("p/1").await.unwrap();
    store.repair(at(0)).await.unwrap();
    store.sweep(at(9_000_000)).await.unwrap();
    store.history(&dataset, &any).await.unwrap();
    for filter in [doc! {"subsystem": "Dataset"}, doc! {"subsystem": "Dataset", "documentId": "p/1"}] {
        let own = store.own_changes(&dataset, filter.clone()).await.unwrap();
        for filter in [filter, own] {
            store.changes(&filter, 0, 10, &any).await.unwrap();
            store.count_changes(&filter).await.unwrap();
        }
    }
    store.attachments("p/1", &any).await.unwrap();
    store.attachment(Some("p/1"), "x", &any).await.unwrap();
    store.attachment(None, "x", &any).await.unwrap();
    store.thumbnail("p/1", &any).await.unwrap();
    store.collect_keys(at(60_000)).await.unwrap();
    create(store, "p/2", 2).await;
    store.collect_keys(at(60_000)).await.unwrap();
    let groups = vec!["g1".to_owned(), "h2".to_owned()];
    store.metadata_keys(Some(&groups), "a", 10).await.unwrap();
    store.metadata_keys(None, "a", 10).await.unwrap();
    let user = User { username: "ann".into(), email: "ann@x.org".into(), groups, ..User::default() };
    let rules = Rules::new(Roles { admin_groups: vec!["admin".into()], ..Roles::default() });
    for caller in [Caller::Anonymous, Caller::User(user)] {
        lists(store, &rules.read_filter(&caller)).await;
    }
    store.count(&doc! {}, &doc! {}, None, &|| NOW_MS).await.unwrap();
    searches(store, &doc! {}).await;
    store.index_texts(at(60_000)).await.unwrap();
    let of_all =
        facets::translate(None, Some(r#"["type","ownerGroup","creationTime","isPublished","owner"]"#));
    store.facets(&doc! {}, &of_all.unwrap(), &|| NOW_MS, &any).await.unwrap();
    store.block(Some("p/1"), "1", &any).await.unwrap();
    store.block(None, "1", &any).await.unwrap();
    store.files("p/1", 0, 10, &any).await.unwrap();
    store.count_blocks("p/1").await.unwrap();
    store.count_attachments("p/1").await.unwrap();
    let change = Patch { set: doc! {"ownerGroup": "x"}, unset: vec![] };
    let changed = store.update(&dataset, &change, "ann", at(50)).await.unwrap();
    let head = store.blocks("p/1", &any).await.unwrap().remove(0);
    let larger = block::Patch { size: Some(9), checksum: None, files: None };
    let head = store.update_block(&head, larger, "ann", at(60)).await.unwrap();
    store.delete_block(&head, at(70)).await.unwrap();
    store.delete(&changed, "ann", at(99)).await.unwrap();
}

async fn lists(store: &Store, access: &Document) {
    for query in [
        "{}",
        r#"{"where": {"pid": "p/1"}}"#,
        r#"{"where": {"ownerGroup": "g1"}, "limits": {"sort": {"creationTime": "desc"}}}"#,
        r#"{"where": {"sourceFolder": "/data"}, "limits": {"limit": 1}}"#,
    ] {
        let listing = store.list(access, &find(query), None, &|| NOW_MS, &any).await.unwrap();
        if let Some(next) = listing.next {
            store.list(access, &find("{}"), Some(&next), &|| NOW_MS, &any).await.unwrap();
        }
    }
    let published = r#"{"mode":{},"pid":"p/1"}"#;
    let limits = r#"{"skip":0,"limit":25,"order":"creationTime:desc"}"#;
    store
        .list(access, &full::translate(Some(published), Some(limits)).unwrap(), None, &|| NOW_MS, &any)
        .await
        .unwrap();
    searches(store, access).await;
    store.count(access, &doc! {}, Some(10_000), &|| NOW_MS).await.unwrap();
    let facets =
        facets::translate(Some(r#"{"type":["raw"]}"#), Some(r#"["type","keywords","creationTime"]"#))
            .unwrap();
    store.facets(access, &facets, &|| NOW_MS, &any).await.unwrap();
}

/// A text search, in any order and by date, and its total.
async fn searches(store: &Store, access: &Document) {
    for limits in ["{}", r#"{"limit":25,"order":"creationTime:desc"}"#] {
        let search = full::translate(Some(r#"{"text":"can 0012"}"#), Some(limits)).unwrap();
        store.list(access, &search, None, &|| NOW_MS, &any).await.unwrap();
        store.count(access, &search.filter, None, &|| NOW_MS).await.unwrap();
    }
}

#[tokio::test]
async fn no_query_scans_a_collection() {
    let (database, commands) = noted("plans").await;
    let store = Store::open(&database).await.unwrap();
    for number in 0..40 {
        create(&store, &format!("q/{number}"), number).await;
    }
    commands.lock().unwrap().clear();
    send_all(&store).await;
    let sent: Vec<Document> = commands.lock().unwrap().iter().filter_map(explainable).collect();
    assert!(sent.len() >= 40, "{} commands were noted", sent.len());
    for command in sent {
        let explain = doc! {"explain": &command, "verbosity": "queryPlanner"};
        let explained =
            database.run_command(explain).await.unwrap_or_else(|error| panic!("{command}: {error}"));
        let mut found = Vec::new();
        stages(&explained.clone().into(), &mut found);
        assert!(!found.is_empty(), "{command}: {explained}");
        assert!(!found.iter().any(|stage| stage == "COLLSCAN"), "{command}: {found:?}");
    }
}

/// The plans of a list by date, for a caller.
async fn plans_of_list(
    database: &Database,
    commands: &Mutex<Vec<Document>>,
    caller: &Caller,
    after: Option<&Cursor>,
) -> Vec<Vec<String>> {
    let store = Store::of(database, Transactions::Used);
    let rules = Rules::new(Roles { admin_groups: vec!["admin".into()], ..Roles::default() });
    let limits = r#"{"skip":0,"limit":25,"order":"creationTime:desc"}"#;
    commands.lock().unwrap().clear();
    store
        .list(
            &rules.read_filter(caller),
            &full::translate(Some("{}"), Some(limits)).unwrap(),
            after,
            &|| NOW_MS,
            &any,
        )
        .await
        .unwrap();
    let sent: Vec<Document> = commands.lock().unwrap().iter().filter_map(explainable).collect();
    let mut plans = Vec::new();
    for command in sent {
        let explain = doc! {"explain": command, "verbosity": "queryPlanner"};
        let mut found = Vec::new();
        stages(&database.run_command(explain).await.unwrap().into(), &mut found);
        plans.push(found);
    }
    plans
}

#[tokio::test]
async fn a_list_by_date_reads_its_index_in_order_for_every_caller() {
    let (database, commands) = noted("plans_of_lists").await;
    let store = Store::open(&database).await.unwrap();
    for number in 0..40 {
        create(&store, &format!("q/{number}"), number).await;
    }
    let user = |groups: &[&str]| {
        let groups = groups.iter().map(|&group| group.into()).collect();
        Caller::User(User { groups, email: "ann@x.org".into(), ..User::default() })
    };
    let after = store
        .list(
            &doc! {},
            &find(r#"{"limits": {"limit": 3, "sort": {"creationTime": "desc"}}}"#),
            None,
            &|| NOW_MS,
            &any,
        )
        .await;
    let after = after.unwrap().next;
    for (caller, lists) in [(Caller::Anonymous, 1), (user(&["admin"]), 1), (user(&["g1", "g2"]), 7)] {
        let mut plans = plans_of_list(&database, &commands, &caller, None).await;
        plans.extend(plans_of_list(&database, &commands, &caller, after.as_ref()).await);
        assert_eq!(plans.len(), 2 * lists, "{caller:?}");
        for plan in plans {
            let scans = plan.iter().filter(|stage| stage.contains("IXSCAN")).count();
            assert!(scans == 1 && !plan.iter().any(|stage| stage == "SORT"), "{caller:?}: {plan:?}");
        }
    }
}
