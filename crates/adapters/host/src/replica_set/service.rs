//! Answers the commands of one member.

use std::sync::{Arc, MutexGuard};

use bson::{Document, RawDocument, RawDocumentBuf, doc};

use super::hello;
use super::member::retryable;
use super::shared::Shared;
use super::state::State;
use super::write_concern::{WriteConcern, milliseconds};
use crate::faulty::commands;
use crate::faulty::transaction;
use crate::serve::{Request, Service, common, reply};

/// An error code of MongoDB with its name.
type Code = (i32, &'static str);

const WRITE_CONCERN_TIMEOUT: Code = (64, "WriteConcernTimeout");
const NOT_PRIMARY: Code = (10107, "NotWritablePrimary");
const NO_SECONDARY_OK: Code = (13435, "NotPrimaryNoSecondaryOk");
const NO_SUCH_TRANSACTION: Code = (251, "NoSuchTransaction");
const INTERRUPTED: Code = (11602, "InterruptedDueToReplStateChange");

/// The service of one member.
#[derive(Clone, Debug)]
pub(crate) struct MemberService {
    pub shared: Arc<Shared>,
    pub index: usize,
}

impl Service for MemberService {
    fn answer(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        match request.name {
            "hello" | "isMaster" | "ismaster" => append(out, &self.hello(request.body)),
            "insert" | "update" | "create" | "drop" | "commitTransaction" | "abortTransaction" => {
                self.write(request, out);
            }
            "find" | "count" | "listCollections" | "listIndexes" => self.read(request, out),
            "getMore" | "killCursors" => self.execute(&mut self.shared.state(), request, out),
            "replSetStepDown" => self.step_down(request, out),
            _ => common::answer(request, "simulated replica set", out),
        }
    }
}

impl MemberService {
    /// Describes the member. With `maxAwaitTimeMS`, waits until the description differs from the known one.
    fn hello(&self, body: &RawDocument) -> Document {
        let mut state = self.shared.state();
        let known = body.get_document("topologyVersion").and_then(|version| version.get_i64("counter"));
        if let (Ok(known), Some(limit)) = (known, milliseconds(body, "maxAwaitTimeMS")) {
            let is_new = |state: &mut State| state.members[self.index].view != known || state.is_closing;
            state = self.shared.wait(state, limit, is_new).0;
        } else {
            state.greet(self.index);
        }
        hello::description(&self.shared, &state, self.index)
    }

    fn step_down(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        if self.shared.state().primary() != Some(self.index) {
            return self.refuse(request, NOT_PRIMARY, out);
        }
        self.shared.change(State::step_down);
        reply::ok(out);
    }

    /// Executes a write once, even if it arrives several times, and waits for its write concern.
    fn write(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        let mut state = self.shared.state();
        let Some(term) = state.members[self.index].leads else {
            drop(state);
            return self.refuse(request, NOT_PRIMARY, out);
        };
        if state.members[self.index].lacks_transaction(request) {
            drop(state);
            return self.refuse(request, NO_SUCH_TRANSACTION, out);
        }
        let answer = state.write(self.index, request);
        let concern = concern(request, state.majority());
        match self.confirm(state, term, &concern) {
            Ok(_) => out.extend_from_slice(&answer),
            Err(error) => append(out, &in_doubt(request, &answer, error)),
        }
    }

    /// Reads from this member. A read at majority from the primary first waits for a majority.
    fn read(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        let state = self.shared.state();
        let confirmed = match state.members[self.index].leads {
            None if !allows_secondary(request.body) => {
                drop(state);
                Err(NO_SECONDARY_OK)
            }
            Some(term) if is_at_majority(request.body) => {
                let concern = WriteConcern::majority(state.majority());
                self.confirm(state, term, &concern)
            }
            _ => Ok(state),
        };
        match confirmed {
            Ok(mut state) => self.execute(&mut state, request, out),
            Err(error) => self.refuse(request, error, out),
        }
    }

    fn execute(&self, state: &mut State, request: &Request<'_>, out: &mut Vec<u8>) {
        commands::answer(&mut state.members[self.index].store, request, out);
    }

    /// Waits until enough members for the write concern have all entries of this member.
    fn confirm<'a>(
        &self,
        state: MutexGuard<'a, State>,
        term: u64,
        concern: &WriteConcern,
    ) -> Result<MutexGuard<'a, State>, Code> {
        let (index, position) = (self.index, state.members[self.index].len());
        let leads = |state: &State| state.members[index].leads == Some(term) && !state.is_closing;
        let is_copied = |state: &mut State| {
            concern.members <= 1 || {
                state.replicate(index, position);
                state.copies(index, position) >= concern.members
            }
        };
        let over = |state: &mut State| !leads(state) || is_copied(state);
        let (state, in_time) = self.shared.wait(state, concern.limit, over);
        match (in_time, leads(&state)) {
            (true, true) => Ok(state),
            (true, false) => Err(INTERRUPTED),
            (false, _) => Err(WRITE_CONCERN_TIMEOUT),
        }
    }

    fn refuse(&self, request: &Request<'_>, (code, name): Code, out: &mut Vec<u8>) {
        let view = self.shared.state().members[self.index].view;
        let mut answer = doc! {
            "ok": 0.0, "code": code, "codeName": name, "errmsg": format!("{} is not possible here", request.name),
            "topologyVersion": hello::version(self.index, view),
        };
        label(request, &mut answer);
        append(out, &answer);
    }
}

/// The write concern of a command. The commit confirms the writes of a transaction.
fn concern(request: &Request<'_>, majority: usize) -> WriteConcern {
    if is_open_part(request) { WriteConcern::alone() } else { WriteConcern::of(request.body, majority) }
}

/// Whether a command belongs to a transaction and does not commit it.
fn is_open_part(request: &Request<'_>) -> bool {
    transaction::is_part(request) && request.name != "commitTransaction"
}

/// The answer to a write that was executed, but not confirmed by enough members.
fn in_doubt(request: &Request<'_>, answer: &[u8], (code, name): Code) -> Document {
    let mut answer = Document::from_reader(answer).unwrap_or_default();
    let message = "waiting for replication ended early";
    answer.insert("writeConcernError", doc! {"code": code, "codeName": name, "errmsg": message});
    if code == INTERRUPTED.0 {
        label(request, &mut answer);
    }
    answer
}

/// Marks an error as retryable, if the write has a number. A failed part of a transaction ends the transaction.
fn label(request: &Request<'_>, answer: &mut Document) {
    let code = answer.get_i32("code").unwrap_or(0);
    if is_open_part(request) || code == NO_SUCH_TRANSACTION.0 {
        answer.insert("errorLabels", ["TransientTransactionError"]);
        return;
    }
    if retryable(request).is_some() {
        answer.insert("errorLabels", ["RetryableWriteError"]);
    }
}

fn allows_secondary(body: &RawDocument) -> bool {
    let mode = body.get_document("$readPreference").and_then(|preference| preference.get_str("mode"));
    mode.is_ok_and(|mode| mode != "primary")
}

fn is_at_majority(body: &RawDocument) -> bool {
    let level = body.get_document("readConcern").and_then(|concern| concern.get_str("level"));
    level.is_ok_and(|level| level == "majority")
}

pub(crate) fn append(out: &mut Vec<u8>, answer: &Document) {
    match RawDocumentBuf::try_from(answer) {
        Ok(answer) => reply::append(out, &answer),
        Err(error) => reply::error(out, 1, "InternalError", &error.to_string()),
    }
}
