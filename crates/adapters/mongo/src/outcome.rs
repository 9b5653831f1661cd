//! Translates the lean client's outcomes into those of the measurement and the ledger.

use bson::RawDocument;
use plimsoll_deployment::Error as Unopened;
use plimsoll_ledger::State;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_wire::{Cause, Class, Error, Outcome as Wire, RetryAdvice, ServerError, WriteReply};

/// The class of a refusal.
pub const fn rejection(class: Class) -> Rejection {
    match class {
        Class::DuplicateKey | Class::DuplicateId => Rejection::DuplicateKey,
        Class::Validation => Rejection::Validation,
        Class::TooLarge => Rejection::TooLarge,
        Class::Unauthorized => Rejection::Unauthorized,
        Class::NotPrimary => Rejection::NotPrimary,
        Class::Overload => Rejection::Overload,
        Class::BadCommand => Rejection::BadCommand,
        Class::Other => Rejection::Other,
    }
}

const fn doubt(cause: Cause) -> Doubt {
    match cause {
        Cause::Timeout => Doubt::Timeout,
        Cause::ConnectionLost => Doubt::ConnectionLost,
        Cause::WriteConcern => Doubt::WriteConcern,
        Cause::Interrupted | Cause::Miscounted => Doubt::Interrupted,
        Cause::Unacknowledged => Doubt::Unacknowledged,
    }
}

/// The outcome of a document sent over the lean client.
pub const fn outcome(wire: Wire) -> Outcome {
    match wire {
        Wire::Acknowledged => Outcome::Acknowledged,
        Wire::Rejected(class) => Outcome::Rejected(rejection(class)),
        Wire::Unknown(cause) => Outcome::Unknown(doubt(cause)),
        Wire::NotSent => Outcome::Rejected(Rejection::NotTried),
    }
}

/// The ledger's state for an outcome.
pub const fn state(outcome: Outcome) -> State {
    match outcome {
        Outcome::Acknowledged => State::Acknowledged,
        Outcome::Rejected(Rejection::NotTried | Rejection::NoLocalPort) => State::NotSent,
        Outcome::Rejected(_) => State::Rejected,
        Outcome::Unknown(_) => State::Unknown,
    }
}

/// The outcome of an operation that was not sent, because no connection could be opened.
pub fn of_unopened(error: &Unopened) -> Outcome {
    Outcome::Rejected(match error {
        Unopened::Wire(Error::NoLocalPort { .. }) => Rejection::NoLocalPort,
        Unopened::Wire(Error::Authentication { .. }) => Rejection::Unauthorized,
        _ => Rejection::NotTried,
    })
}

/// The outcome of an operation that failed with an error.
pub fn of_error(error: &Error) -> Outcome {
    match error {
        Error::Server(server) => outcome(Wire::Rejected(Class::of_code(server.code))),
        Error::TooLarge(_) => Outcome::Rejected(Rejection::TooLarge),
        Error::Timeout { .. } => Outcome::Unknown(Doubt::Timeout),
        Error::Encode(_) => Outcome::Rejected(Rejection::BadCommand),
        _ => Outcome::Unknown(Doubt::ConnectionLost),
    }
}

/// The outcome of a write command that failed with an error.
pub fn of_write_error(error: &Error) -> Outcome {
    match error {
        Error::Server(server) => outcome(Wire::of_labelled_error(server.code, RetryAdvice::of_write(error))),
        other => of_error(other),
    }
}

/// The outcome of a write whose write concern failed. With the server's label, an election ended the wait,
/// and a retry confirms the write.
pub fn of_unconfirmed(body: &RawDocument) -> Outcome {
    let is_retryable = RetryAdvice::of_body(body).is_retryable;
    Outcome::Unknown(if is_retryable { Doubt::Interrupted } else { Doubt::WriteConcern })
}

/// The outcome of a transaction whose commit failed with an error. The server's labels decide: one says that the commit may have
/// been done, the other that the transaction was aborted.
pub fn of_commit(error: &Error) -> Outcome {
    match error {
        Error::Server(server) if has(server, "UnknownTransactionCommitResult") => {
            Outcome::Unknown(Doubt::Interrupted)
        }
        Error::Server(server) if has(server, "TransientTransactionError") => {
            Outcome::Rejected(rejection(Class::of_code(server.code)))
        }
        other => of_write_error(other),
    }
}

fn has(error: &ServerError, label: &str) -> bool {
    error.labels.iter().any(|known| known == label)
}

/// An empty reply with the bytes of a write.
pub fn answered(written: &WriteReply) -> Reply {
    Reply { bytes_sent: written.bytes_sent, bytes_received: written.bytes_received, ..Reply::acknowledged(0) }
}

/// Sums up a write: the first failure decides the operation's outcome.
pub fn of_write(written: &WriteReply) -> Reply {
    let mut reply = answered(written);
    for span in written.spans() {
        add(&mut reply, outcome(span.outcome), u64::from(span.count));
    }
    reply
}

/// Adds documents of one outcome to an operation.
pub fn add(reply: &mut Reply, outcome: Outcome, documents: u64) {
    if documents == 0 {
        return;
    }
    if matches!(outcome, Outcome::Acknowledged | Outcome::Unknown(Doubt::Unacknowledged)) {
        reply.documents += documents;
    }
    reply.failed.add(outcome, documents);
    if reply.outcome == Outcome::Acknowledged {
        reply.outcome = outcome;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_of_no_documents_leaves_the_operation_unchanged() {
        let mut reply = Reply::acknowledged(0);
        add(&mut reply, Outcome::Acknowledged, 5);
        add(&mut reply, Outcome::Rejected(Rejection::TooLarge), 0);
        assert_eq!(reply, Reply::acknowledged(5));
    }

    #[test]
    fn an_operation_without_a_connection_was_not_sent() {
        let address: plimsoll_wire::Address = "h:1".parse().unwrap();
        let of = |error: Error| of_unopened(&error.into());
        let no_port = of(Error::NoLocalPort { address: address.clone() });
        assert_eq!(no_port, Outcome::Rejected(Rejection::NoLocalPort));
        assert_eq!(of(Error::Refused { address }), Outcome::Rejected(Rejection::NotTried));
        assert_eq!(state(no_port), State::NotSent);
    }

    #[test]
    fn a_commit_is_unknown_or_aborted_as_the_servers_labels_say() {
        let error = |code, label: &str| {
            Error::Server(ServerError { code, labels: vec![label.to_owned()], ..ServerError::default() })
        };
        let unknown = Outcome::Unknown(Doubt::Interrupted);
        assert_eq!(of_commit(&error(64, "UnknownTransactionCommitResult")), unknown);
        let gone = Outcome::Rejected(Rejection::Other);
        assert_eq!(of_commit(&error(251, "TransientTransactionError")), gone);
        assert_eq!(of_commit(&error(91, "")), unknown);
        assert_eq!(of_commit(&error(112, "")), Outcome::Rejected(Rejection::Overload));
    }

    #[test]
    fn the_first_failure_decides_the_operations_outcome() {
        let mut reply = Reply::acknowledged(0);
        add(&mut reply, Outcome::Rejected(Rejection::DuplicateKey), 1);
        add(&mut reply, Outcome::Unknown(Doubt::Timeout), 2);
        assert_eq!(reply.outcome, Outcome::Rejected(Rejection::DuplicateKey));
        assert_eq!((reply.failed.rejected(), reply.failed.unknown()), (1, 2));
    }
}
