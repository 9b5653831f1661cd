//! Reads the documents of a load back by their keys, and compares them with the ledger.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_load::arrivals::Share;
use plimsoll_load::target::Target;
use plimsoll_measure::clock;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use tokio::task::{JoinSet, LocalSet};

use crate::connect::Error;
use crate::preflight;
use crate::sent_documents::Document;
use crate::setup::{Setup, Shown};
use crate::target::{Http, Lane};

pub use crate::sent_documents::SentDocuments;

/// Requests at a time.
const LANES: usize = 16;
/// Attempts to read one document.
const ATTEMPTS: u32 = 3;
/// The number of consecutive documents without an answer about their existence, after which the rest stays
/// unread.
const SILENT_MAX: u32 = 64;
/// The pause before a further attempt, and between two attempts to reach the service.
const PAUSE: Duration = Duration::from_millis(200);
/// The interval of the progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// The largest number of examples of each kind.
const EXAMPLES_MAX: u64 = 5;

/// The answer about a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The service has it, and its answer passes the check.
    Present,
    /// The service has it, but its answer fails the check.
    Altered,
    /// The service does not have it: 404 or 410.
    Absent,
    /// The service did not say whether it has the document, with the status; 0 for no answer.
    Unread(u16),
}

/// The findings of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Acknowledged documents that exist.
    pub found: u64,
    /// Acknowledged documents that are missing.
    pub lost: u64,
    /// Documents whose answer failed the check.
    pub altered: u64,
    /// Documents of unknown outcome that exist.
    pub unknown_present: u64,
    /// Documents of unknown outcome that are missing.
    pub unknown_absent: u64,
    /// Documents whose existence the service neither confirmed nor denied.
    pub unread: u64,
    /// The last status that did not say whether a document exists; 0 for a missing answer.
    pub unread_status: Option<u16>,
    /// Examples of lost and altered documents: the kind, the operation and the request.
    pub examples: Vec<String>,
}

impl Findings {
    fn add(&mut self, document: Document, answer: Answer, sample: impl FnOnce() -> String) {
        match (answer, document.acknowledged) {
            (Answer::Present, true) => self.found += 1,
            (Answer::Present, false) => self.unknown_present += 1,
            (Answer::Absent, false) => self.unknown_absent += 1,
            (Answer::Absent, true) => {
                self.lost += 1;
                if self.lost <= EXAMPLES_MAX {
                    self.examples.push(format!("lost: {}", sample()));
                }
            }
            (Answer::Altered, acknowledged) => {
                self.found += u64::from(acknowledged);
                self.unknown_present += u64::from(!acknowledged);
                self.altered += 1;
                if self.altered <= EXAMPLES_MAX {
                    self.examples.push(format!("corrupted: {}", sample()));
                }
            }
            (Answer::Unread(status), _) => {
                self.unread += 1;
                self.unread_status = Some(status);
            }
        }
    }

    fn seen(&self) -> u64 {
        // Altered documents are among those that exist.
        self.found + self.lost + self.unknown_present + self.unknown_absent + self.unread
    }
}

/// Reads every document that exists or may exist. Waits up to `patience` for the service's first answer;
/// without an answer all documents are unread. Must be called on a current-thread runtime with IO and time
/// enabled. `progress` gets the documents read and those to read.
pub async fn read(
    setup: &Setup,
    sent: Vec<SentDocuments>,
    patience: Duration,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Findings {
    let Some(reading) = setup.reading_back() else { return Findings::default() };
    let counts = sent.iter().map(SentDocuments::counts);
    let total = counts.map(|counts| counts.acknowledged + counts.unknown).sum();
    progress(0, total);
    if !await_service(setup, patience, &mut || progress(0, total)).await {
        return Findings { unread: total, ..Findings::default() };
    }
    let documents: Box<dyn Iterator<Item = Document>> =
        Box::new(sent.into_iter().flat_map(SentDocuments::expected));
    let work = Rc::new(Work {
        http: Http::new(Arc::new(reading), Share::WHOLE),
        documents: RefCell::new(documents),
        findings: RefCell::default(),
        silent: Cell::new(0),
    });
    LocalSet::new().run_until(work_through(&work, total, progress)).await;
    work.findings.take()
}

/// Runs all lanes to the last document.
async fn work_through(work: &Rc<Work>, total: u64, progress: &mut (dyn FnMut(u64, u64) + Send)) {
    let mut lanes = JoinSet::new();
    (0..LANES).for_each(|_| drop(lanes.spawn_local(Rc::clone(work).run())));
    while !lanes.is_empty() {
        let _ = tokio::time::timeout(PROGRESS_EVERY, lanes.join_next()).await;
        progress(work.findings.borrow().seen(), total);
    }
    // No document remains, unless the service fell silent or a lane panicked.
    let mut findings = work.findings.borrow_mut();
    findings.unread += total.saturating_sub(findings.seen());
    progress(findings.seen(), total);
}

/// Waits until the service answers any request, for example after a restart. Returns whether it did.
async fn await_service(setup: &Setup, patience: Duration, waiting: &mut dyn FnMut()) -> bool {
    let began = clock::now();
    while !is_answered(&preflight::check(setup).await) {
        waiting();
        if u128::from(clock::now().since(began)) >= patience.as_nanos() {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
    }
    true
}

/// Whether the service answered; a refusal counts.
const fn is_answered(reached: &Result<preflight::Reachable, Error>) -> bool {
    matches!(reached, Ok(_) | Err(Error::Credentials { .. }))
}

/// The work that all lanes share.
struct Work {
    http: Http,
    documents: RefCell<Box<dyn Iterator<Item = Document>>>,
    findings: RefCell<Findings>,
    /// Unread documents since the last one that was read.
    silent: Cell<u32>,
}

impl Work {
    async fn run(self: Rc<Self>) {
        let mut lane = None;
        loop {
            let Some(document) = self.next() else { return };
            let answer = self.ask(&mut lane, document).await;
            let is_unread = matches!(answer, Answer::Unread(_));
            self.silent.set(if is_unread { self.silent.get() + 1 } else { 0 });
            let sample = || self.http.sample(document.operation, document.number);
            self.findings.borrow_mut().add(document, answer, sample);
        }
    }

    /// The next document; `None` at the end, or when the service fell silent.
    fn next(&self) -> Option<Document> {
        if self.silent.get() >= SILENT_MAX {
            return None;
        }
        self.documents.borrow_mut().next()
    }

    /// Asks for a document until the service says whether it exists, a few times at most.
    async fn ask(&self, lane: &mut Option<Lane>, document: Document) -> Answer {
        let mut answer = Answer::Unread(0);
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            if lane.is_none() {
                *lane = self.http.open().await.ok();
            }
            let Some(open) = lane.as_mut() else { continue };
            self.http.prepare(open, document.operation, document.number);
            let reply = self.http.send(open).await;
            let status = Http::status(open);
            answer = judge(reply.outcome, status, self.http.takes(document.operation, status));
            if answer == Answer::Present {
                answer =
                    self.http.shown(open, document.number).map_or(answer, |shown| of_part(shown, status));
            }
            lane.take_if(|lane| self.http.is_broken(lane));
            if !matches!(answer, Answer::Unread(_)) {
                break;
            }
        }
        answer
    }
}

/// Judges an answer; `takes`: whether the check accepts its status.
const fn judge(outcome: Outcome, status: u16, takes: bool) -> Answer {
    match (outcome, status) {
        (Outcome::Acknowledged, _) => Answer::Present,
        (Outcome::Rejected(Rejection::Unexpected), _) if takes => Answer::Altered,
        (Outcome::Rejected(Rejection::BadCommand), 404 | 410) => Answer::Absent,
        // Only a status shows that the work may have been interrupted.
        (Outcome::Unknown(Doubt::Interrupted), status) => Answer::Unread(status),
        (Outcome::Rejected(Rejection::NotTried | Rejection::NoLocalPort) | Outcome::Unknown(_), _) => {
            Answer::Unread(0)
        }
        (Outcome::Rejected(_), status) => Answer::Unread(status),
    }
}

const fn of_part(shown: Shown, status: u16) -> Answer {
    match shown {
        Shown::Intact => Answer::Present,
        Shown::Altered => Answer::Altered,
        Shown::Absent => Answer::Absent,
        Shown::Unclear => Answer::Unread(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_answer_says_that_a_document_is_gone() {
        use Rejection::{AnswerTooLarge, BadCommand, NotTried, Overload, Unexpected};
        for (outcome, status, answer) in [
            (Outcome::Acknowledged, 200, Answer::Present),
            (Outcome::Rejected(Unexpected), 200, Answer::Altered),
            (Outcome::Rejected(BadCommand), 404, Answer::Absent),
            (Outcome::Rejected(BadCommand), 410, Answer::Absent),
            (Outcome::Rejected(BadCommand), 405, Answer::Unread(405)),
            (Outcome::Rejected(Overload), 429, Answer::Unread(429)),
            (Outcome::Rejected(Unexpected), 302, Answer::Unread(302)),
            (Outcome::Rejected(AnswerTooLarge), 200, Answer::Unread(200)),
            (Outcome::Unknown(Doubt::Interrupted), 503, Answer::Unread(503)),
            (Outcome::Unknown(Doubt::ConnectionLost), 404, Answer::Unread(0)),
            (Outcome::Rejected(NotTried), 404, Answer::Unread(0)),
        ] {
            assert_eq!(judge(outcome, status, status == 200), answer, "{outcome:?} {status}");
        }
    }

    #[test]
    fn parts_add_up_to_the_documents_read() {
        let mut findings = Findings::default();
        let answers = [Answer::Present, Answer::Altered, Answer::Absent, Answer::Unread(503)];
        for acknowledged in [true, false] {
            for answer in answers {
                let document = Document { operation: 0, number: 1, acknowledged };
                findings.add(document, answer, || "GET /1".to_owned());
            }
        }
        assert_eq!((findings.found, findings.lost, findings.altered, findings.unread), (2, 1, 2, 2));
        assert_eq!((findings.unknown_present, findings.unknown_absent), (2, 1));
        assert_eq!(findings.seen(), 8);
        assert_eq!(findings.examples, ["corrupted: GET /1", "lost: GET /1", "corrupted: GET /1"]);
    }
}
