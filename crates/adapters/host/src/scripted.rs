//! Runs the scripted server: it answers as a test programs it, and records every command byte by byte.
//!
//! It replaces deployments that do not fit on one machine: a mongos, a replica set that lags.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bson::Document;

use crate::serve::{AnswerDelay, Listener, Request, Service, common, reply};

pub use crate::serve::Error;

/// Sections of a write command that may lie outside its body.
const SECTIONS: [&str; 3] = ["documents", "updates", "deletes"];

/// A scripted server on a free port of 127.0.0.1. Dropping it closes its connections and ends its threads.
#[derive(Debug)]
pub struct Server {
    listener: Listener<Scripted>,
}

impl Server {
    /// Starts a server. `script` returns the answer to a command. If it returns none, the server answers as
    /// any server does: the greeting, a ping, or an unknown command.
    ///
    /// # Errors
    /// [`Error`] if no port is available.
    pub fn start(
        script: impl Fn(&Document) -> Option<Document> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let service = Scripted { script: Box::new(script), commands: Mutex::default() };
        Ok(Self { listener: Listener::open(service, AnswerDelay::default())? })
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Every command so far, in order of arrival.
    pub fn commands(&self) -> Vec<Document> {
        self.listener.service().commands().clone()
    }
}

type Script = Box<dyn Fn(&Document) -> Option<Document> + Send + Sync>;

struct Scripted {
    script: Script,
    commands: Mutex<Vec<Document>>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripted {{ commands: {} }}", self.commands().len())
    }
}

impl Scripted {
    fn commands(&self) -> MutexGuard<'_, Vec<Document>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for Scripted {
    fn answer(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        let Some(command) = whole(request) else { return reply::unknown(out, request.name) };
        let answer = (self.script)(&command);
        self.commands().push(command);
        match answer.and_then(|answer| bson::RawDocumentBuf::try_from(&answer).ok()) {
            Some(answer) => reply::append(out, &answer),
            None => common::answer(request, "scripted server", out),
        }
    }
}

/// Moves the sections of a command into its body.
fn whole(request: &Request<'_>) -> Option<Document> {
    let mut command = Document::try_from(request.body).ok()?;
    for section in SECTIONS {
        let documents: Vec<_> =
            request.documents(section).map(Document::try_from).collect::<Result<_, _>>().ok()?;
        if !documents.is_empty() {
            command.insert(section, documents);
        }
    }
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::client::Client;
    use bson::{doc, rawdoc};

    #[test]
    fn the_server_answers_by_its_script_and_records_every_command() {
        let script =
            |command: &Document| command.contains_key("listShards").then(|| doc! {"shards": [], "ok": 1.0});
        let server = Server::start(script).unwrap();
        let mut client = Client::of(server.address());
        assert_eq!(client.ask(&rawdoc! {"listShards": 1, "$db": "admin"}), doc! {"shards": [], "ok": 1.0});
        assert_eq!(client.ask(&rawdoc! {"conjure": 1, "$db": "d"}).get_i32("code").unwrap(), 59);
        assert_eq!(
            server.commands(),
            [doc! {"listShards": 1, "$db": "admin"}, doc! {"conjure": 1, "$db": "d"}]
        );
    }
}
