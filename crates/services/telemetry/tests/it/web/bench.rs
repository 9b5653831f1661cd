//! Starts services for tests, each on its own database of the shared server.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use mongodb::Database;
use mongodb::bson::{Document, doc};
use plimsoll_host::Server;
use plimsoll_telemetry::serve::{self, Running};
use plimsoll_telemetry::settings::Typed;
use serde_json::{Value, json};

use super::client::Client;
use crate::server;

/// Starts a service with these settings, in addition to the address and the database.
pub async fn start(name: &str, settings: &str) -> Running {
    start_in(name, settings, Path::new(".")).await
}

/// Starts a service with files of the settings relative to `base`.
pub async fn start_in(name: &str, settings: &str, base: &Path) -> Running {
    start_before(server::shared(), name, settings, base).await
}

/// Starts a service on a given server.
pub async fn start_on(server: &Server, settings: &str) -> Running {
    start_before(server, "own", settings, Path::new(".")).await
}

async fn start_before(server: &Server, name: &str, settings: &str, base: &Path) -> Running {
    let mut typed = Typed::read(settings).unwrap();
    typed.listen = "127.0.0.1:0".parse().unwrap();
    typed.database.uri = Some(server::uri(server));
    typed.database.name = format!("web_{name}");
    serve::start(typed.build(base).unwrap()).await.unwrap()
}

/// A service with default settings, and a connection to it.
pub async fn served(name: &str) -> (Running, Client) {
    let service = start(name, "").await;
    let client = Client::connect(service.address()).await;
    (service, client)
}

/// The database of a service.
pub async fn database(name: &str) -> Database {
    server::database(server::shared(), &format!("web_{name}")).await
}

/// The number of documents in a service's database, without the records of its designs.
pub async fn stored(name: &str) -> u64 {
    let database = database(name).await;
    let mut all = 0;
    for collection in database.list_collection_names().await.unwrap() {
        let is_record = ["feed_design", "reading_design"].contains(&collection.as_str());
        let kept = !collection.starts_with("system.") && !is_record;
        if kept {
            let collection = database.collection::<Document>(&collection);
            all += collection.count_documents(doc! {}).await.unwrap();
        }
    }
    all
}

/// Now, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "readings of a test are of today")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// A reading with one metric.
pub fn reading(sensor: &str, at_ms: i64, value: f64) -> Value {
    json!({"sensorId": sensor, "timestamp": at_ms, "temperature": value})
}
