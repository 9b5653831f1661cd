//! Tests filling a database before the service starts.

use std::path::Path;

use plimsoll_service::Clock;
use plimsoll_service::Reservation;
use plimsoll_telemetry::feeds::{FeedQuery, Feeds};
use plimsoll_telemetry::settings::Typed;
use plimsoll_telemetry::workload::{Fill, fill};

use crate::server;

const FILL: Fill = Fill {
    seed: 3,
    end_ms: 1_790_000_000_000,
    sensors: 4,
    ticks: 30,
    interval_ms: 10_000,
    users: 12,
    follows: 3,
    activities: 5,
    readers: 7,
};

#[tokio::test]
async fn every_design_shows_the_same_filled_feeds() {
    let mut seen = Vec::new();
    for design in ["on_read", "on_write", "hybrid"] {
        let database = server::database(server::shared(), &format!("filled_{design}")).await;
        let uri = server::uri(server::shared());
        let text =
            format!("database: {{uri: \"{uri}\", name: {}}}\nfeeds: {{design: {design}}}", database.name());
        let settings = Typed::read(&text).unwrap().build(Path::new(".")).unwrap();
        for _ in 0..2 {
            fill(&settings, &FILL, |_| ()).await.unwrap();
        }
        let stored = database.collection::<bson::Document>("readings").count_documents(bson::doc! {}).await;
        assert_eq!(stored.unwrap(), 120, "filling again changes nothing");
        let caches =
            database.collection::<bson::Document>("feed_caches").count_documents(bson::doc! {}).await;
        assert_eq!(caches.unwrap(), if design == "hybrid" { FILL.readers } else { 0 }, "{design}");
        let feeds = Feeds::open(&database, settings.feeds, Clock::start()).await.unwrap();
        let mut shown = Vec::new();
        for user in 0..FILL.users {
            let query = FeedQuery { user: format!("user-{user}"), cursor: None, limit: 50 };
            let feed = feeds.read(&query, &Reservation::unlimited()).await.unwrap();
            assert!(feed.activities.len() >= 10, "{design}: {}", feed.activities.len());
            shown.push(feed.activities);
        }
        seen.push((design, shown));
    }
    let (_, first) = &seen[0];
    for (design, shown) in &seen {
        assert_eq!(shown, first, "{design}");
    }
}
