//! Names the wait of a change stream for a server: how long it lasts, and which option limits it.
//!
//! The driver resumes a stream by itself. It looks for a server as long as its limit allows, and says nothing meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mongodb::Client;
use mongodb::ServerType;
use mongodb::error::{Error, ErrorKind};
use mongodb::event::EventHandler;
use mongodb::event::sdam::{SdamEvent, TopologyDescriptionChangedEvent};
use mongodb::options::SelectionCriteria;
use plimsoll_deployment::{
    COMMAND_TIMEOUT, Deployment, Error as DeploymentError, driver_message, driver_options, selection_limit,
};
use plimsoll_measure::clock::{self, Instant, SECOND_NS};

/// The driver's limit if the URI sets none. The search begins again afterwards.
const DEFAULT: Duration = Duration::from_secs(2);
/// The longest silence about a search.
const SILENCE_NS: u64 = SECOND_NS;

/// The search of a stream for a server.
#[derive(Clone, Debug)]
pub(super) struct ServerWait {
    uri: String,
    /// The addresses of the URI, and the time since which the driver knows no server that fits the stream.
    missing: Arc<Mutex<(String, Option<Instant>)>>,
}

impl ServerWait {
    /// A search for a server of `uri`.
    pub(super) fn of(uri: &str) -> Self {
        Self { uri: uri.to_owned(), missing: Arc::default() }
    }

    /// The driver's client, which records here whether it knows a server.
    ///
    /// # Errors
    /// If the URI is unusable.
    pub(super) async fn connect(&self) -> Result<Client, Error> {
        let mut options = driver_options(&self.uri).await.map_err(ours)?;
        options.server_selection_timeout = Some(self.limit());
        let hosts: Vec<_> = options.hosts.iter().map(ToString::to_string).collect();
        *self.missing() = (hosts.join(", "), None);
        let (recorder, criteria) = (self.clone(), options.selection_criteria.clone());
        options.sdam_event_handler = Some(EventHandler::callback(move |event| {
            if let SdamEvent::TopologyDescriptionChanged(change) = event {
                recorder.record(has_server(&change, criteria.as_ref()), clock::now());
            }
        }));
        Client::with_options(options)
    }

    fn record(&self, has_server: bool, now: Instant) {
        let since = &mut self.missing().1;
        *since = if has_server { None } else { since.or(Some(now)) };
    }

    /// The line about a search that lasts for longer than a second.
    pub(super) fn line(&self, now: Instant) -> Option<String> {
        let (hosts, since) = &*self.missing();
        since.filter(|since| now.since(*since) >= SILENCE_NS)?;
        Some(format!("waiting for {hosts}: no answer yet, up to {}", self.limit_in_words()))
    }

    /// The error of an ended search with its wait and its cause, as the lean client names it: the driver only says that it found no
    /// server. Another error stays the same. The lean client asks the servers once, because the search has already waited.
    pub(super) async fn explained(&self, error: Error) -> Error {
        if !matches!(*error.kind, ErrorKind::ServerSelection { .. }) {
            return error;
        }
        let cause = match Deployment::new(&self.uri, COMMAND_TIMEOUT).await {
            Ok(deployment) => deployment.try_connect_to_read().await.err(),
            Err(cause) => Some(cause),
        };
        let cause = cause.map_or_else(|| driver_message(&error), |cause| cause.to_string());
        Error::custom(format!("after a wait of {}: {cause}", self.limit_in_words()))
    }

    fn limit(&self) -> Duration {
        selection_limit(&self.uri).unwrap_or(DEFAULT)
    }

    fn limit_in_words(&self) -> String {
        let default = if selection_limit(&self.uri).is_some() { "" } else { "the default of " };
        format!("{} s ({default}serverSelectionTimeoutMS)", self.limit().as_secs_f64())
    }

    fn missing(&self) -> MutexGuard<'_, (String, Option<Instant>)> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the driver knows a server that answers and fits the stream.
fn has_server(change: &TopologyDescriptionChangedEvent, criteria: Option<&SelectionCriteria>) -> bool {
    let known = &change.new_description;
    let answers = known.servers().values().any(|server| server.server_type() != ServerType::Unknown);
    answers && known.has_readable_server(criteria.cloned())
}

/// Our error in the driver's form.
fn ours(error: DeploymentError) -> Error {
    Error::custom(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::sync::{Arc, OnceLock};

    use bson::{Document, doc};
    use plimsoll_host::scripted::Server;

    use super::*;

    /// Two addresses that refuse connections.
    fn closed() -> [SocketAddr; 2] {
        // Both are bound at once, so they differ.
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        listeners.map(|listener| listener.local_addr().unwrap())
    }

    /// The only member of the replica set `rs`.
    fn member() -> Server {
        let address = Arc::new(OnceLock::new());
        let known = Arc::clone(&address);
        let server = Server::start(move |command: &Document| {
            let is_greeting = ["hello", "isMaster", "ismaster"].iter().any(|name| command.contains_key(name));
            is_greeting.then(|| {
                doc! {
                    "ok": 1.0, "helloOk": true, "isWritablePrimary": true, "ismaster": true, "setName": "rs", "setVersion": 1,
                    "hosts": [known.get().cloned().unwrap_or_default()], "minWireVersion": 0, "maxWireVersion": 21,
                    "maxBsonObjectSize": 16 << 20, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
                }
            })
        });
        let server = server.unwrap();
        address.set(server.address().to_string()).unwrap();
        server
    }

    #[test]
    fn the_cause_of_an_ended_search_is_found_without_a_second_search() {
        let ([first, second], member) = (closed(), member());
        let port = member.address().port();
        for (hosts, set, cause) in [
            (format!("{first},{second}"), "", "no member answers".to_owned()),
            (first.to_string(), "", format!("{first} refused the connection")),
            (
                format!("localhost:{port},127.0.0.1:{port}"),
                "&replicaSet=wrong",
                "correct replicaSet".to_owned(),
            ),
            (format!("{first},127.0.0.1:{port}"), "&replicaSet=wrong", "correct replicaSet".to_owned()),
        ] {
            let wait = ServerWait::of(&format!("mongodb://{hosts}/?serverSelectionTimeoutMS=3000{set}"));
            let (error, took_ns) = plimsoll_deployment::runtime().unwrap().block_on(async {
                let client = wait.connect().await.unwrap();
                let error = client.database("d").run_command(bson::doc! {"ping": 1}).await.unwrap_err();
                let began = clock::now();
                (wait.explained(error).await, clock::now().since(began))
            });
            let text = driver_message(&error);
            assert!(text.contains("after a wait of 3 s (serverSelectionTimeoutMS): "), "{text}");
            assert!(text.contains(&cause), "{text}");
            assert!(took_ns < 2 * SECOND_NS, "{took_ns} ns");
        }
    }

    #[test]
    fn a_search_of_more_than_a_second_is_named_with_its_limit_until_a_server_is_found() {
        for (options, limit) in [
            ("?serverSelectionTimeoutMS=8500", "8.5 s (serverSelectionTimeoutMS)"),
            ("", "2 s (the default of serverSelectionTimeoutMS)"),
        ] {
            let wait = ServerWait::of(&format!("mongodb://h:1/{options}"));
            wait.missing().0 = "h:1".to_owned();
            let at = |ns| Instant::from_ns(ns);
            assert_eq!(wait.line(at(9 * SECOND_NS)), None);
            wait.record(false, at(10));
            wait.record(false, at(20));
            assert_eq!(wait.line(at(SECOND_NS)), None);
            let expected = format!("waiting for h:1: no answer yet, up to {limit}");
            assert_eq!(wait.line(at(10 + SECOND_NS)), Some(expected));
            wait.record(true, at(30 + SECOND_NS));
            assert_eq!(wait.line(at(9 * SECOND_NS)), None);
        }
    }
}
