//! Tests the server's plan of every query of every design: it uses an index and equals the page in the docs.

use std::fmt::Write as _;

use bson::{Bson, Document};
use plimsoll_telemetry::reading::Reading;
use plimsoll_telemetry::readings::{self, Readings};
use plimsoll_telemetry::{Plan, feeds};

use crate::server::{database, shared};
use crate::web::feeds::{activity, ids, open};

const START_MS: i64 = 1_789_999_200_000;
const HOUR_MS: i64 = 3_600_000;
/// The environment variable that rewrites the page instead of comparing it.
const UPDATE: &str = "PLIMSOLL_UPDATE_DOCS";
const PAGE: &str = "docs/reference/telemetry-queries.md";
const HEAD: &str = "\
# Queries of the telemetry service

This page shows every query (find, update, delete) that the service sends in each of its designs, with the plan of the embedded
server (`explain`: the winning plan, the outermost stage first). Inserts need no plan. No plan sorts. No plan scans a collection,
with two exceptions: when it starts, `on_write` asks two collections whether they hold any document. These two queries end at the
first document (`limit` 1). One test generates this page, and another compares it with the commands that the service sends. A
query for statistics, a range or the latest reading reads one sensor. The names and moments are examples.
";

/// Checks that a plan sorts nothing and scans no collection. Only a query for any one document, at the start,
/// may scan.
fn check(plan: &Plan) {
    let stages = plan.stages();
    assert!(!stages.iter().any(|stage| stage == "SORT"), "{}: {}", plan.name, plan.explained);
    if takes_any(&plan.command) {
        return assert!(plan.name.ends_with("at the start"), "{}: {}", plan.name, plan.explained);
    }
    let indexed = |stage: &String| {
        ["IXSCAN", "IDHACK"].iter().any(|it| stage.contains(it)) || stage.starts_with("EXPRESS")
    };
    assert!(stages.iter().any(indexed), "{}: {}", plan.name, plan.explained);
    assert!(!stages.iter().any(|stage| stage == "COLLSCAN"), "{}: {}", plan.name, plan.explained);
}

/// Whether a command finds any one document: it ends at the first.
fn takes_any(command: &Document) -> bool {
    let any = command.get_document("filter").is_ok_and(Document::is_empty);
    any && command.get_i64("limit").is_ok_and(|limit| limit == 1)
}

fn tell(page: &mut String, title: &str, plans: &[Plan]) {
    write!(page, "\n## {title}\n\n| for | command | plan | index |\n| --- | --- | --- | --- |\n").unwrap();
    for plan in plans {
        let command = Bson::Document(plan.command.clone()).into_relaxed_extjson();
        let (stages, mut indexes) = (plan.stages().join(" ← "), plan.indexes());
        indexes.dedup();
        let indexes = match indexes[..] {
            [] if takes_any(&plan.command) => "none is needed".to_owned(),
            [] => "`_id`".to_owned(),
            _ => format!("`{}`", indexes.join("`, `")),
        };
        writeln!(page, "| {} | `{command}` | {stages} | {indexes} |", plan.name).unwrap();
    }
}

async fn of_readings(design: readings::Design) -> Vec<Plan> {
    let database = database(shared(), &format!("plans_{design:?}")).await;
    let readings =
        Readings::open(&database, readings::Settings { design, ..Default::default() }).await.unwrap();
    let reading = |n: i64| Reading {
        sensor: format!("sensor-{}", n % 5),
        at_ms: START_MS + n * 1000,
        event: None,
        metrics: vec![("temperature".into(), 20.0)],
    };
    let stored = readings.ingest_many((0..200).map(reading).collect()).await.unwrap();
    assert!(stored.iter().all(Result::is_ok));
    readings.explain("sensor-1", START_MS, START_MS + HOUR_MS).await.unwrap()
}

async fn of_feeds(design: feeds::Design) -> Vec<Plan> {
    let (_, feeds) = open(design, "plans").await;
    for n in 0..30 {
        feeds.post(activity(&format!("{n:02}"), &format!("u{}", n % 5), n)).await.unwrap();
        feeds.follow(&format!("u{}", n % 5), &[format!("u{}", (n + 1) % 5), "all".into()]).await.unwrap();
        // The hybrid design creates its caches on read.
        assert!(!ids(&feeds, &format!("u{}", n % 5)).await.is_empty());
    }
    feeds.explain().await.unwrap()
}

#[tokio::test]
async fn every_query_of_every_design_uses_an_index_and_is_in_the_docs() {
    let mut page = HEAD.to_owned();
    let designs = [
        ("document", readings::Design::Document),
        ("bucket", readings::Design::Bucket),
        ("time_series", readings::Design::TimeSeries),
    ];
    for (name, design) in designs {
        let plans = of_readings(design).await;
        assert!(plans.len() >= 3, "{design:?}");
        plans.iter().for_each(check);
        tell(&mut page, &format!("Readings, design `{name}`"), &plans);
    }
    for design in feeds::Design::ALL {
        let plans = of_feeds(design).await;
        assert!(plans.len() >= 8, "{design:?}");
        plans.iter().for_each(check);
        tell(&mut page, &format!("Feeds, design `{}`", design.name()), &plans);
    }
    hold(&page);
}

fn hold(page: &str) {
    let path = format!("{}/../../../{PAGE}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "{PAGE} is out of date: run the tests once with {UPDATE}=1");
}
