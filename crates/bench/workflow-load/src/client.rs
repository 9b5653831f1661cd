//! Plays the client's part in one instance, from its start to its observed end.

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_measure::clock::{Instant, now, wall_ms};
use plimsoll_measure::first_error::FirstError;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_workflow::instance::Signal;
use plimsoll_workflow::port::{Reason, Record, Store, StoreError};
use plimsoll_workflow::worker::ClientError;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use crate::embedded::{Embedded, UnitError, done};
use crate::ledger::{Fate, Ledger, Stretch};
use crate::unit::SIGNAL;
use crate::work::{self, Part, Work};

/// One operation.
pub(crate) struct Job<'a, S> {
    /// The engine.
    pub(crate) engine: &'a Embedded<S>,
    /// The unit.
    pub(crate) work: &'a Work,
    /// The operation's index in the plan.
    pub(crate) operation: usize,
    /// The thread's promises.
    pub(crate) ledger: &'a Ledger,
    /// The index of the instance among them.
    pub(crate) index: usize,
    /// The time limit.
    pub(crate) limit: Duration,
}

/// The id of a receiver of an operation.
pub(crate) fn receiver(run: &str, operation: usize, number: u64) -> String {
    format!("{run}-receiver-{operation}-{number}")
}

impl<S: Store> Job<'_, S> {
    /// Runs the operation.
    ///
    /// # Errors
    /// When a request fails, the instance ends in another way, or the limit passes.
    pub(crate) async fn run(&self, run: &str) -> Result<(), UnitError> {
        let (id, subject) = (self.ledger.id(self.index), self.subject(run));
        let mut news = self.engine.store().listen(&subject);
        let late = |_| UnitError::Late { instance: id.clone(), limit: self.limit };
        let result = timeout(self.limit, self.once(run, &id, &mut news)).await.map_err(late);
        self.engine.store().unlisten(&subject);
        result?
    }

    async fn once(&self, run: &str, id: &str, news: &mut UnboundedReceiver<Record>) -> Result<(), UnitError> {
        if let Part::Deliver { delay_ms, .. } = self.work.part {
            return self.deliver(&self.receiver(run), delay_ms, news).await;
        }
        self.start(id).await?;
        if self.work.part == Part::Leave {
            return Ok(());
        }
        let mut last = None;
        for signal in self.work.at_once(id) {
            last = Some(now());
            self.publish(signal).await?;
        }
        self.follow(id, news, last).await
    }

    async fn start(&self, id: &str) -> Result<(), UnitError> {
        let began = now();
        // A request that is cut off may have taken effect.
        self.ledger.note(self.index, |promise| promise.start = Fate::Unknown);
        let result = self.engine.begin_instance(self.work.name(), id).await;
        self.ledger.note(self.index, |promise| promise.start = fate(&result));
        result?;
        self.ledger.record(Stretch::Start, now().since(began));
        Ok(())
    }

    async fn publish(&self, signal: Signal) -> Result<(), UnitError> {
        let began = now();
        let id = signal.id.clone();
        self.engine.publish(signal).await?;
        self.ledger.record(Stretch::Publish, now().since(began));
        self.ledger.note_signal(self.index, &id);
        Ok(())
    }

    /// Answers the waits of an instance until its end.
    async fn follow(
        &self,
        id: &str,
        news: &mut UnboundedReceiver<Record>,
        mut last: Option<Instant>,
    ) -> Result<(), UnitError> {
        let mut sent = BTreeSet::new();
        loop {
            let record = self.engine.next(news, id).await;
            if record.status.is_ended() {
                last.iter().for_each(|at| self.ledger.record(Stretch::SignalToCompletion, now().since(*at)));
                self.ledger.note_end(self.index);
                return done(&record);
            }
            for signal in self.work.answers(&record) {
                if sent.insert(signal.id.clone()) {
                    last = Some(now());
                    self.publish(signal).await?;
                }
            }
        }
    }

    /// Sends a signal to a receiver, and waits until it is applied.
    async fn deliver(
        &self,
        receiver: &str,
        delay_ms: u64,
        news: &mut UnboundedReceiver<Record>,
    ) -> Result<(), UnitError> {
        let began = now();
        let number = self.ledger.number(receiver);
        let mut guard = Sending { ledger: self.ledger, receiver, number, fate: Fate::Unknown };
        let body = work::numbered(self.ledger.prefix(), number);
        let mut signal = Signal::named(receiver, self.ledger.id(self.index), SIGNAL, body, wall_ms());
        signal.due_ms = if delay_ms > 0 { wall_ms() + delay_ms } else { 0 };
        let result = self.engine.publish(signal).await;
        guard.fate = fate(&result);
        drop(guard);
        result?;
        self.ledger.record(Stretch::Publish, now().since(began));
        // The news of an applied signal comes once. If it is lost, the limit of the operation ends this wait.
        if news.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        self.ledger.record(Stretch::SignalToCompletion, now().since(began));
        Ok(())
    }

    /// The subject of the news that the operation waits for.
    fn subject(&self, run: &str) -> String {
        let id = self.ledger.id(self.index);
        match self.work.part {
            Part::Deliver { .. } => format!("{}/{id}", self.receiver(run)),
            _ => id,
        }
    }

    fn receiver(&self, run: &str) -> String {
        let receivers = match self.work.part {
            Part::Deliver { receivers, .. } => u64::from(receivers),
            _ => 1,
        };
        receiver(run, self.operation, self.index as u64 % receivers)
    }
}

/// Records the outcome of a signal to a receiver, also if the request is cut off.
struct Sending<'a> {
    ledger: &'a Ledger,
    receiver: &'a str,
    number: u64,
    fate: Fate,
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.ledger.note_sent(self.receiver, self.number, self.fate);
    }
}

/// The outcome of a request.
fn fate<T>(result: &Result<T, ClientError>) -> Fate {
    match result {
        Ok(_) => Fate::Acknowledged,
        Err(ClientError::Store(StoreError::Unavailable(_))) => Fate::Unknown,
        Err(_) => Fate::Refused,
    }
}

/// The outcome of a failed operation.
pub(crate) const fn outcome(error: &UnitError) -> Outcome {
    match error {
        UnitError::Client(ClientError::Store(StoreError::Unavailable(_))) => {
            Outcome::Unknown(Doubt::ConnectionLost)
        }
        UnitError::Client(ClientError::Store(StoreError::Refused(_))) => Outcome::Rejected(Rejection::Other),
        UnitError::Client(ClientError::Busy(_)) => Outcome::Rejected(Rejection::Overload),
        UnitError::Client(_) => Outcome::Rejected(Rejection::BadCommand),
        UnitError::Late { .. } => Outcome::Unknown(Doubt::Timeout),
        UnitError::Ended { .. } => Outcome::Rejected(Rejection::Unexpected),
    }
}

/// The words of a failed operation, with the code and the name of the store's server.
pub(crate) fn first_error(error: &UnitError) -> FirstError {
    match error {
        UnitError::Client(ClientError::Store(store)) if store.reason().is_of_server() => {
            let Reason { code, name, message } = store.reason();
            FirstError::new(*code, name, message)
        }
        error => FirstError::new(0, "", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_has_the_code_and_the_name_of_the_server() {
        let shown = |error| first_error(&UnitError::Client(ClientError::Store(error))).to_string();
        let reason = |code, name: &str| Reason { code, name: name.into(), message: "no".into() };
        let found = [
            StoreError::Unavailable(reason(91, "ShutdownInProgress")),
            StoreError::Refused(reason(0, "SQLSTATE 23505")),
            StoreError::Unavailable("gone".into()),
        ];
        assert_eq!(
            found.map(shown),
            ["91 ShutdownInProgress: no", "SQLSTATE 23505: no", "the store is unavailable: gone"]
        );
    }

    #[test]
    fn a_store_that_does_not_answer_leaves_the_outcome_open_and_a_refusal_does_not() {
        let failed = |error| Err::<(), _>(ClientError::Store(error));
        assert_eq!(fate(&failed(StoreError::Unavailable("gone".into()))), Fate::Unknown);
        assert_eq!(fate(&failed(StoreError::Refused("no".into()))), Fate::Refused);
        assert_eq!(fate(&Ok(())), Fate::Acknowledged);
        let error = UnitError::Client(ClientError::Store(StoreError::Unavailable("gone".into())));
        assert_eq!(outcome(&error), Outcome::Unknown(Doubt::ConnectionLost));
        let late = UnitError::Late { instance: "i".into(), limit: Duration::ZERO };
        assert_eq!(outcome(&late), Outcome::Unknown(Doubt::Timeout));
    }
}
