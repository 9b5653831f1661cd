//! Tests that the page of queries shows the plan of every query that the service sends.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bson::{Bson, Document};
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};
use plimsoll_service::Clock;
use plimsoll_service::Reservation;
use plimsoll_telemetry::Plan;
use plimsoll_telemetry::feeds::{self, Feeds};
use plimsoll_telemetry::reading::Reading;
use plimsoll_telemetry::readings::{
    BucketSettings, Design, Detail, RangeQuery, Readings, Settings, StatisticsQuery, Stored,
};

use crate::server::{shared, uri};
use crate::web::feeds::{activity, all, settings};

const START_MS: i64 = 1_789_999_200_000;
const HOUR_MS: i64 = 3_600_000;
/// Commands without a query, or that continue one.
const NO_QUERIES: [&str; 9] =
    ["insert", "create", "createIndexes", "drop", "explain", "getMore", "killCursors", "endSessions", "ping"];

type Sent = Arc<Mutex<Vec<Document>>>;

/// A database of the shared server, and the commands sent to it.
async fn recorded(name: &str) -> (Database, Sent) {
    let sent = Sent::default();
    let heard = Arc::clone(&sent);
    let note = move |event: CommandEvent| {
        if let CommandEvent::Started(event) = event {
            heard.lock().unwrap().push(event.command);
        }
    };
    let mut options = ClientOptions::parse(uri(shared())).await.unwrap();
    options.command_event_handler = Some(EventHandler::callback(note));
    (Client::with_options(options).unwrap().database(name), sent)
}

/// The shape of a condition, with `_` in place of every value.
fn shape(value: &Bson) -> String {
    match value {
        Bson::Document(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, value)| format!("{name}: {}", shape(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        Bson::Array(all) => {
            let all: BTreeSet<_> = all.iter().map(shape).collect();
            format!("[{}]", all.into_iter().collect::<Vec<_>>().join(", "))
        }
        _ => "_".into(),
    }
}

/// The queries of a command: name, collection, conditions, order.
fn queries(command: &Document) -> Vec<String> {
    let (kind, value) = command.iter().next().unwrap();
    let said = |document: &Document, field: &str| document.get(field).map_or_else(String::new, shape);
    let several = |list: &str| -> Vec<String> {
        let statements = command.get_array(list).unwrap().iter().map(|one| one.as_document().unwrap());
        statements.map(|one| format!("{kind} {value} {}", said(one, "q"))).collect()
    };
    match kind.as_str() {
        "find" => {
            let order = command.get("sort").map_or_else(String::new, ToString::to_string);
            vec![format!("{kind} {value} {} {order}", said(command, "filter"))]
        }
        "findAndModify" => vec![format!("{kind} {value} {}", said(command, "query"))],
        "update" => several("updates"),
        "delete" => several("deletes"),
        other => {
            assert!(NO_QUERIES.contains(&other), "{command}");
            Vec::new()
        }
    }
}

fn hold(sent: &Sent, plans: &[Plan]) {
    let shown: BTreeSet<String> = plans.iter().flat_map(|plan| queries(&plan.command)).collect();
    let asked: BTreeSet<String> = sent.lock().unwrap().iter().flat_map(queries).collect();
    let missing: Vec<_> = asked.difference(&shown).collect();
    assert!(missing.is_empty(), "sent and not shown: {missing:#?}; shown: {shown:#?}");
    assert!(asked.len() >= 4, "{asked:#?}");
}

#[tokio::test]
async fn every_query_of_readings_is_shown_with_its_plan() {
    for design in [Design::Document, Design::Bucket, Design::TimeSeries] {
        let (database, sent) = recorded(&format!("sent_{design:?}")).await;
        // Buckets are small, so that readings go to the buckets for minutes and seconds.
        let bucket = BucketSettings { minutes: 60, readings_max: 4 };
        let settings = Settings { design, bucket, ..Settings::default() };
        let readings = Readings::open(&database, settings.clone()).await.unwrap();
        let other = Readings::open(&database, settings).await.unwrap();
        // Opening a database looks for the record of the design, and for one reading of each design.
        sent.lock().unwrap().clear();
        use_readings(&readings).await;
        assert!(other.latest("s").await.unwrap().is_some(), "found without a cached time of the sensor");
        hold(&sent, &readings.explain("s", START_MS, START_MS + HOUR_MS).await.unwrap());
    }
}

async fn use_readings(readings: &Readings) {
    let reading = |n: i64| Reading {
        sensor: "s".into(),
        at_ms: START_MS + n * 1_000,
        event: None,
        metrics: vec![("m".into(), 1.0)],
    };
    for _ in 0..2 {
        let said = readings.ingest_many((0..50).map(reading).collect()).await.unwrap();
        assert!(said.iter().all(Result::is_ok), "{said:?}");
    }
    let more = (0..50).map(|n| Reading { metrics: vec![("metric".into(), 1.0)], ..reading(n) });
    let said = readings.ingest_many(more.collect()).await.unwrap();
    assert_eq!(said, vec![Ok(Stored::Merged); 50]);
    assert!(readings.latest("s").await.unwrap().is_some());
    for detail in [Detail::Summary, Detail::Percentiles] {
        for from_ms in [START_MS, START_MS + 1_500] {
            let (sensors, to_ms) = (vec!["s".into()], START_MS + 30_000);
            let query = StatisticsQuery { sensors, from_ms, to_ms, interval_ms: None, detail };
            assert!(!readings.statistics(&query, &Reservation::unlimited()).await.unwrap().is_empty());
        }
    }
    let (from_ms, to_ms) = (START_MS, START_MS + HOUR_MS);
    let mut query = RangeQuery { sensor: "s".into(), from_ms, to_ms, after: None, limit: 20 };
    query.after = readings.range(&query).await.unwrap().next;
    assert!(query.after.is_some());
    assert_eq!(readings.range(&query).await.unwrap().readings.len(), 20);
}

#[tokio::test]
async fn every_query_of_feeds_is_shown_with_its_plan() {
    for design in feeds::Design::ALL {
        let (database, sent) = recorded(&format!("sent_{}", design.name())).await;
        let feeds = Feeds::open(&database, settings(design), Clock::start()).await.unwrap();
        use_feeds(&feeds).await;
        Feeds::open(&database, settings(design), Clock::start()).await.unwrap();
        hold(&sent, &feeds.explain().await.unwrap());
    }
}

async fn use_feeds(feeds: &Feeds) {
    let users: Vec<String> = (0..5).map(|n| format!("u{n}")).collect();
    let user = |n: i64| &users[usize::try_from(n % 5).unwrap()];
    for round in 0..2 {
        for n in 0..20 {
            feeds.post(activity(&format!("{n:02}"), user(n), n)).await.unwrap();
        }
        // The first user has so many followers that the hybrid pulls.
        for n in 1..5 {
            feeds.follow(user(n), &[user(0).clone(), user(n + 2).clone()][..1 + round]).await.unwrap();
        }
        for user in &users {
            all(feeds, user, 3).await;
        }
        feeds.unfollow(user(4), user(0)).await.unwrap();
        feeds.post(activity(&format!("later-{round}"), user(1), 50)).await.unwrap();
    }
}
