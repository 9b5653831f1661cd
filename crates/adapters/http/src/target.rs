//! Sends a worker's operations to an HTTP service.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_ledger::{State, WorkerLedger};
use plimsoll_load::arrivals::Share;
use plimsoll_load::target::{self, Target};
use plimsoll_measure::first_error::OperationError;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Outcome, Rejection};

use crate::classify;
use crate::connect;
use crate::connection::Connection;
use crate::counts::{Answers, Counts};
use crate::document_numbers::{Block, DocumentNumbers};
use crate::fault::ExchangeError;
use crate::http1::ReadOptions;
use crate::http2::Pool;
use crate::login::{Tokens, now_ms};
use crate::prepared::Prepared;
use crate::scenario::Method;
use crate::sent_documents::SentDocuments;
use crate::setup::{Call, Login, Part, Setup, Shown};

/// The status that rejects a token.
const UNAUTHORIZED: u16 = 401;

/// One worker's view of an HTTP service.
#[derive(Debug)]
pub struct Http {
    setup: Arc<Setup>,
    share: Share,
    numbers: Mutex<DocumentNumbers>,
    /// The outcomes of the documents of each operation, if they are read back.
    ledgers: Mutex<Vec<WorkerLedger>>,
    counts: Counts,
    tokens: Tokens,
    pool: Pool,
}

/// A connection and its buffers.
#[derive(Debug)]
pub struct Lane {
    connection: Connection,
    prepared: Prepared,
    operation: usize,
    /// The prepared documents, if they are numbered.
    block: Option<Block>,
    documents: u64,
    /// Whether the engine gave up the request in flight.
    given_up: bool,
}

impl Http {
    /// A target for one worker; `share` is its position among the workers of all shards.
    pub fn new(setup: Arc<Setup>, share: Share) -> Self {
        Self {
            numbers: Mutex::new(DocumentNumbers::new(share, setup.calls.iter().map(|call| call.documents))),
            ledgers: Mutex::new(setup.calls.iter().map(|_| WorkerLedger::unjournaled()).collect()),
            counts: Counts::new(&setup),
            setup,
            share,
            tokens: Tokens::default(),
            pool: Pool::default(),
        }
    }

    /// The worker's counts since its start: for each operation its answers by status, and how often each check held. May be
    /// called while the worker runs.
    pub fn answers(&self) -> Vec<Answers> {
        self.counts.read(&self.setup)
    }

    /// The number of open HTTP/2 connections, which its lanes share.
    pub async fn shared_connections(&self) -> usize {
        self.pool.open().await
    }

    /// The documents of each operation with a read-back, and their outcomes.
    pub fn sent(&self) -> Vec<SentDocuments> {
        let (numbers, ledgers) = (self.numbers(), self.ledgers());
        let read_back = self.setup.calls.iter().enumerate().filter(|(_, call)| call.read_back.is_some());
        let sent = |(operation, call): (usize, &Arc<Call>)| {
            let reads = call.read_back.as_ref().and_then(|read| read.reads.clone());
            SentDocuments::new(operation, numbers.layout(operation), ledgers[operation].clone(), reads)
        };
        read_back.map(sent).collect()
    }

    /// The method and the path of a request.
    pub(crate) fn sample(&self, operation: usize, number: u64) -> String {
        let mut prepared = Prepared::default();
        prepared.make(&self.setup.calls[operation], number, 1, b"");
        let line = prepared.bytes().split(|byte| *byte == b'\r').next().unwrap_or_default();
        String::from_utf8_lossy(line).trim_end_matches(" HTTP/1.1").to_owned()
    }

    /// The status of the last answer, if the connection has one.
    pub(crate) fn status(lane: &Lane) -> u16 {
        lane.connection.answer().status
    }

    /// The part of a workload that the last answer shows; `None` for the documents of a template.
    pub(crate) fn shown(&self, lane: &Lane, document: u64) -> Option<Shown> {
        let reader = self.setup.calls[lane.operation].reader()?;
        Some(reader.judge(Part::of_document(document), lane.connection.answer().body))
    }

    /// Whether the check of an operation accepts a status.
    pub(crate) fn takes(&self, operation: usize, status: u16) -> bool {
        self.setup.calls[operation].checks.takes(status)
    }

    /// Notes the state of the prepared documents, if they are read back.
    fn note(&self, lane: &Lane, state: State) {
        let is_read_back = self.setup.calls[lane.operation].read_back.is_some();
        if let Some(block) = lane.block.filter(|_| is_read_back) {
            let local = self.numbers().layout(lane.operation).local(block);
            self.ledgers()[lane.operation].set(local, state);
        }
    }

    fn ledgers(&self) -> MutexGuard<'_, Vec<WorkerLedger>> {
        self.ledgers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn numbers(&self) -> MutexGuard<'_, DocumentNumbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection and logs in if there is no token yet.
    async fn dial(&self) -> Result<Connection, connect::Error> {
        let endpoint = &self.setup.endpoint;
        let mut connection = Connection::open(endpoint, &self.pool).await?;
        if let Some(login) = &self.setup.login
            && self.tokens.current().generation == 0
        {
            self.tokens.later_than(0, login, &mut connection, self.share.index, endpoint).await?;
            if connection.is_broken() {
                connection = Connection::open(endpoint, &self.pool).await?;
            }
        }
        Ok(connection)
    }

    /// Sends the prepared request and classifies its answer. Returns the status too, 0 for no answer.
    async fn attempt(&self, lane: &mut Lane) -> (u16, Reply) {
        let call = &*self.setup.calls[lane.operation];
        let mut done = self.exchange(lane).await;
        let mut before = (0, 0);
        if matches!(done, Err(ExchangeError::Leaving)) {
            before = lane.connection.bytes();
            // A future is as large as its largest part, so the rare part is boxed.
            done = Box::pin(self.exchange_elsewhere(lane)).await;
        }
        let (status, outcome) = self.classify(call, lane, done);
        let mut reply = match outcome {
            Outcome::Acknowledged => Reply::acknowledged(lane.documents),
            failure => Reply::failed(failure, lane.documents),
        };
        let (sent, received) = lane.connection.bytes();
        (reply.bytes_sent, reply.bytes_received) = (before.0 + sent, before.1 + received);
        (status, reply)
    }

    /// Sends the prepared request and collects its answer.
    async fn exchange(&self, lane: &mut Lane) -> Result<(), ExchangeError> {
        let call = &*self.setup.calls[lane.operation];
        let options = ReadOptions { is_head: call.method == Method::Head, keep_body: call.needs_body() };
        let prepared = &lane.prepared;
        lane.connection.exchange(prepared.bytes(), prepared.head_len(), options).await
    }

    /// Sends the request on a new connection, because the server closes this connection and did not take the
    /// request. If no connection can be opened, the request was not tried.
    async fn exchange_elsewhere(&self, lane: &mut Lane) -> Result<(), ExchangeError> {
        lane.connection = self.dial().await.map_err(|error| ExchangeError::NotConnected(Box::new(error)))?;
        self.exchange(lane).await
    }

    fn classify(&self, call: &Call, lane: &Lane, done: Result<(), ExchangeError>) -> (u16, Outcome) {
        match done {
            Ok(()) => {
                let answer = lane.connection.answer();
                let outcome = classify::answered(call, lane.operation, &answer, &self.counts);
                (answer.status, if self.setup.takes_any { Outcome::Acknowledged } else { outcome })
            }
            Err(fault) => (0, classify::unanswered(call, lane.operation, &fault, &self.counts)),
        }
    }

    /// Replaces a connection that closed while it was idle; the operation waits for the new one. If no
    /// connection can be opened, the request was not tried.
    async fn reopen(&self, lane: &mut Lane) -> Result<(), Reply> {
        match self.dial().await {
            Ok(connection) => {
                lane.connection = connection;
                Ok(())
            }
            Err(error) => {
                let call = &self.setup.calls[lane.operation];
                let fault = ExchangeError::NotConnected(Box::new(error));
                let outcome = classify::unanswered(call, lane.operation, &fault, &self.counts);
                Err(Reply::failed(outcome, lane.documents))
            }
        }
    }

    /// Gets a later token and sends the same request once more; `None` without a token.
    async fn renew(&self, login: &Login, lane: &mut Lane) -> Option<Reply> {
        if !self.tokens.may_renew(lane.prepared.generation) {
            return None;
        }
        if lane.connection.is_broken() {
            lane.connection = self.dial().await.ok()?;
        }
        let endpoint = &self.setup.endpoint;
        let (generation, worker) = (lane.prepared.generation, self.share.index);
        let token =
            self.tokens.later_than(generation, login, &mut lane.connection, worker, endpoint).await.ok()?;
        if lane.connection.is_broken() {
            lane.connection = Connection::open(endpoint, &self.pool).await.ok()?;
        }
        lane.prepared.set_token(&token.text, token.generation);
        let (status, reply) = self.attempt(lane).await;
        if status != UNAUTHORIZED {
            self.tokens.set_accepted();
        }
        Some(reply)
    }

    /// Sends the prepared request, on a new connection if need be, and with a new token if the service rejects the old one.
    async fn send_noted(&self, lane: &mut Lane) -> Reply {
        if lane.prepared.needs_timestamp() {
            lane.prepared.stamp(now_ms());
        }
        if lane.connection.is_stale().await
            && let Err(reply) = Box::pin(self.reopen(lane)).await
        {
            return reply;
        }
        let (status, reply) = self.attempt(lane).await;
        match &self.setup.login {
            None => reply,
            Some(login) => self.check_token(login, lane, status, reply).await,
        }
    }

    /// Notes that the token was accepted, or renews it and retries.
    async fn check_token(&self, login: &Login, lane: &mut Lane, status: u16, reply: Reply) -> Reply {
        if status == UNAUTHORIZED && reply.outcome == Outcome::Rejected(Rejection::Unauthorized) {
            // A future is as large as its largest part and is copied when it is made, so the rare part is
            // boxed.
            let Some(renewed) = Box::pin(self.renew(login, lane)).await else { return reply };
            return Reply {
                bytes_sent: reply.bytes_sent + renewed.bytes_sent,
                bytes_received: reply.bytes_received + renewed.bytes_received,
                ..renewed
            };
        }
        if status != 0 && lane.prepared.generation == self.tokens.current().generation {
            self.tokens.set_accepted();
        }
        reply
    }
}

impl Target for Http {
    type Lane = Lane;

    const GIVES_UP: bool = true;

    fn begin(&self, documents: Option<u64>) {
        self.numbers().limit(documents);
    }

    async fn open(&self) -> Result<Lane, Box<dyn Error + Send + Sync>> {
        let connection = self.dial().await?;
        Ok(Lane {
            connection,
            prepared: Prepared::default(),
            operation: 0,
            block: None,
            documents: 0,
            given_up: false,
        })
    }

    fn prepare(&self, lane: &mut Lane, operation: usize, number: u64) -> target::Prepared {
        let call = &*self.setup.calls[operation];
        (lane.operation, lane.block) = (operation, None);
        if call.makes {
            lane.block = self.numbers().take(operation);
            if lane.block.is_none() {
                return target::Prepared::Exhausted;
            }
        }
        let Block { first, count } = lane.block.unwrap_or(Block { first: number, count: 1 });
        lane.documents = count;
        if self.setup.login.is_some() {
            let token = self.tokens.current();
            lane.prepared.make(call, first, count, &token.text);
            lane.prepared.generation = token.generation;
        } else {
            lane.prepared.make(call, first, count, b"");
        }
        target::Prepared::Ready
    }

    async fn send(&self, lane: &mut Lane) -> Reply {
        self.note(lane, State::Unknown);
        let reply = self.send_noted(lane).await;
        match reply.outcome {
            Outcome::Acknowledged => self.note(lane, State::Acknowledged),
            Outcome::Rejected(_) => self.note(lane, State::Rejected),
            Outcome::Unknown(_) => {}
        }
        reply
    }

    fn discard(&self, lane: &mut Lane) {
        if let Some(block) = lane.block.take() {
            self.numbers().give_back(lane.operation, block);
        }
    }

    fn carry(&self, lost: &mut Lane, fresh: &mut Lane) -> bool {
        std::mem::swap(&mut lost.prepared, &mut fresh.prepared);
        (fresh.operation, fresh.block, fresh.documents) = (lost.operation, lost.block.take(), lost.documents);
        true
    }

    /// The request may have arrived, and its answer may still arrive.
    fn give_up(&self, lane: &mut Lane) -> Reply {
        lane.given_up = true;
        let call = &self.setup.calls[lane.operation];
        let outcome = classify::unanswered(call, lane.operation, &ExchangeError::Timeout, &self.counts);
        let mut reply = Reply::failed(outcome, lane.documents);
        (reply.bytes_sent, reply.bytes_received) = lane.connection.bytes();
        reply
    }

    /// Does nothing: the counters are read in place.
    fn tick(&self) {}

    fn first_errors(&self) -> Vec<OperationError> {
        self.counts.first_errors.take()
    }

    fn is_broken(&self, lane: &Lane) -> bool {
        lane.given_up || lane.connection.is_broken()
    }

    /// Does nothing: every request was answered or given up.
    async fn settle(&self, _lane: &mut Lane) {}
}
