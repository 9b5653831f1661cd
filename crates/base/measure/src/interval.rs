//! Counts the operations of a stretch of time in counters and histograms that add up.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Instant;
use crate::histogram::Histogram;
use crate::outcome::{Doubt, Failures, Outcome};

/// The four instants of one operation, `due ≤ awake ≤ sent ≤ done`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// When the schedule wanted the operation sent.
    pub due: Instant,
    /// When the tool noticed the due operation.
    pub awake: Instant,
    /// When a connection took the operation.
    pub sent: Instant,
    /// When the answer was read.
    pub done: Instant,
}

impl Instants {
    /// Nanoseconds from due to done: the wait of a user of the service.
    pub const fn response_ns(&self) -> u64 {
        self.done.since(self.due)
    }

    /// Nanoseconds from sent to done: the time of the server and the network.
    pub const fn service_ns(&self) -> u64 {
        self.done.since(self.sent)
    }

    /// Nanoseconds from due to awake: the tool's own delay.
    pub const fn wake_ns(&self) -> u64 {
        self.awake.since(self.due)
    }

    /// Nanoseconds from awake to sent: no connection was free.
    pub const fn wait_ns(&self) -> u64 {
        self.sent.since(self.awake)
    }
}

/// The report of a finished operation, without its instants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reply {
    /// The outcome of the whole operation; the first failure decides.
    pub outcome: Outcome,
    /// Documents acknowledged (or handed over, where no acknowledgement was asked for).
    pub documents: u64,
    /// Documents that failed, by class.
    pub failed: Failures,
    /// Bytes handed to the connection.
    pub bytes_sent: u64,
    /// Bytes read from it.
    pub bytes_received: u64,
    /// Whether the operation was given up because its load ended before the answer.
    pub given_up: bool,
}

impl Reply {
    /// An acknowledged operation of `documents` documents.
    pub fn acknowledged(documents: u64) -> Self {
        Self {
            outcome: Outcome::Acknowledged,
            documents,
            failed: Failures::default(),
            bytes_sent: 0,
            bytes_received: 0,
            given_up: false,
        }
    }

    /// An operation of `documents` documents that ended in `outcome` as a whole.
    pub fn failed(outcome: Outcome, documents: u64) -> Self {
        let mut failed = Failures::default();
        failed.add(outcome, documents);
        Self { outcome, documents: 0, failed, bytes_sent: 0, bytes_received: 0, given_up: false }
    }
}

/// Counters and histograms of one operation. Parts add up to the whole, field by field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Operations that became due.
    pub due: u64,
    /// Operations that were acknowledged.
    pub count: u64,
    /// Documents that were acknowledged.
    pub documents: u64,
    /// Operations that were overdue and given up, as the scenario allows.
    pub skipped: u64,
    /// Further attempts at operations that had failed.
    pub retries: u64,
    /// Operations given up when their load ended; they are among the errors.
    #[serde(default)]
    pub given_up: u64,
    /// Operations that failed, by class.
    pub errors: Failures,
    /// Failed operations, by each class of their documents besides the one in `errors`: an operation may count several times.
    #[serde(default, skip_serializing_if = "Failures::is_empty")]
    pub further_errors: Failures,
    /// Documents that failed, by class.
    pub document_errors: Failures,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Response time of acknowledged operations.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub response: Histogram,
    /// Service time of acknowledged operations.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub service: Histogram,
    /// Wake error of every operation sent.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub wake: Histogram,
    /// Waiting for a connection, of every operation sent.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub wait: Histogram,
    /// Response time of operations that failed.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub failed_response: Histogram,
}

impl Tally {
    /// Counts one finished operation.
    pub fn record(&mut self, at: &Instants, reply: &Reply) {
        self.wake.record(at.wake_ns());
        self.wait.record(at.wait_ns());
        self.documents += reply.documents;
        self.document_errors.merge(&reply.failed);
        self.given_up += u64::from(reply.given_up);
        self.bytes_sent += reply.bytes_sent;
        self.bytes_received += reply.bytes_received;
        match reply.outcome {
            Outcome::Acknowledged | Outcome::Unknown(Doubt::Unacknowledged) => self.succeed(at),
            failure => self.fail(at, failure, &reply.failed),
        }
    }

    fn succeed(&mut self, at: &Instants) {
        self.count += 1;
        self.response.record(at.response_ns());
        self.service.record(at.service_ns());
    }

    fn fail(&mut self, at: &Instants, outcome: Outcome, documents: &Failures) {
        self.errors.add(outcome, 1);
        documents
            .outcomes()
            .filter(|other| *other != outcome)
            .for_each(|other| self.further_errors.add(other, 1));
        self.failed_response.record(at.response_ns());
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.due += other.due;
        self.count += other.count;
        self.documents += other.documents;
        self.skipped += other.skipped;
        self.retries += other.retries;
        self.given_up += other.given_up;
        self.errors.merge(&other.errors);
        self.further_errors.merge(&other.further_errors);
        self.document_errors.merge(&other.document_errors);
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.wake.merge(&other.wake);
        self.wait.merge(&other.wait);
        self.failed_response.merge(&other.failed_response);
    }

    /// Operations that failed with this class, or that contain a document that failed with it. Documents that
    /// an ordered batch did not try count only if nothing else failed.
    pub fn errors_of_class(&self, class: &str) -> u64 {
        self.errors.of_class(class) + self.further_errors.of_class(class)
    }

    /// Operations that ended, well or badly.
    pub fn completed(&self) -> u64 {
        self.count + self.errors.total()
    }

    /// Forgets every count and keeps the memory.
    pub fn reset(&mut self) {
        for histogram in
            [&mut self.response, &mut self.service, &mut self.wake, &mut self.wait, &mut self.failed_response]
        {
            histogram.reset();
        }
        (self.due, self.count, self.documents, self.skipped, self.retries) = (0, 0, 0, 0, 0);
        self.given_up = 0;
        (self.bytes_sent, self.bytes_received) = (0, 0);
        (self.errors, self.document_errors) = (Failures::default(), Failures::default());
        self.further_errors = Failures::default();
    }

    /// The numbers that an interval line shows.
    pub fn line(&self) -> IntervalLine {
        IntervalLine {
            due: self.due,
            count: self.count,
            documents: self.documents,
            skipped: self.skipped,
            errors: self.errors.by_class().map(|(name, count)| (name.to_owned(), count)).collect(),
            response: Spread::of(&self.response),
            service: Spread::of(&self.service),
        }
    }
}

/// One operation in one second, for the live view and the run directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalLine {
    /// Operations that became due.
    pub due: u64,
    /// Operations acknowledged.
    pub count: u64,
    /// Documents acknowledged.
    pub documents: u64,
    /// Operations skipped.
    pub skipped: u64,
    /// Operations that failed, by class.
    pub errors: BTreeMap<String, u64>,
    /// Response time in nanoseconds.
    pub response: Spread,
    /// Service time in nanoseconds.
    pub service: Spread,
}

/// Three numbers of a latency distribution, in nanoseconds; absent if nothing was measured. The percentiles of one second may
/// have too few values behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Median.
    pub p50: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// Largest value.
    pub max: Option<u64>,
}

impl Spread {
    /// The spread of `histogram`.
    pub fn of(histogram: &Histogram) -> Self {
        if histogram.count() == 0 {
            return Self::default();
        }
        Self { p50: Some(histogram.at(50.0)), p99: Some(histogram.at(99.0)), max: Some(histogram.max()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Rejection;

    fn instants(due: u64, awake: u64, sent: u64, done: u64) -> Instants {
        let at = Instant::from_ns;
        Instants { due: at(due), awake: at(awake), sent: at(sent), done: at(done) }
    }

    #[test]
    fn the_four_instants_split_the_response_time() {
        let at = instants(10, 15, 35, 135);
        assert_eq!(at.wake_ns() + at.wait_ns() + at.service_ns(), at.response_ns());
    }

    #[test]
    fn errors_never_enter_the_success_histogram() {
        let mut tally = Tally::default();
        tally.record(&instants(0, 0, 0, 5), &Reply::failed(Outcome::Rejected(Rejection::Overload), 10));
        assert_eq!((tally.response.count(), tally.failed_response.count()), (0, 1));
        assert_eq!((tally.errors.total(), tally.document_errors.total()), (1, 10));
    }

    #[test]
    fn an_operation_counts_under_each_class_of_its_documents_and_once_in_the_total() {
        let mut reply = Reply::failed(Outcome::Rejected(Rejection::DuplicateKey), 2);
        reply.failed.add(Outcome::Rejected(Rejection::Validation), 3);
        reply.failed.add(Outcome::Rejected(Rejection::NotTried), 4);
        let mut tally = Tally::default();
        tally.record(&instants(0, 0, 0, 5), &reply);
        tally.record(&instants(0, 0, 0, 5), &Reply::failed(Outcome::Rejected(Rejection::DuplicateKey), 1));
        let classes = ["duplicate_key", "validation", "not_tried", "timeout"];
        assert_eq!(classes.map(|class| tally.errors_of_class(class)), [2, 1, 0, 0]);
        assert_eq!((tally.errors.total(), tally.completed(), tally.document_errors.total()), (2, 2, 10));
    }

    #[test]
    fn merged_parts_equal_the_whole_for_every_counter() {
        let mut whole = Tally::default();
        let mut parts = [Tally::default(), Tally::default()];
        for number in 0..1000 {
            let at = instants(number, number + 1, number + 3, number * 7 + 10);
            let reply = match number % 5 {
                0 => Reply::failed(Outcome::Unknown(Doubt::Timeout), 3),
                1 => {
                    let mut reply = Reply::failed(Outcome::Rejected(Rejection::Validation), 1);
                    reply.failed.add(Outcome::Rejected(Rejection::DuplicateKey), 2);
                    reply
                }
                _ => Reply { bytes_sent: 9, bytes_received: 4, ..Reply::acknowledged(3) },
            };
            for tally in [&mut whole, &mut parts[number as usize % 2]] {
                tally.due += 1;
                tally.skipped += number % 3;
                tally.retries += number % 4;
                tally.record(&at, &reply);
            }
        }
        let mut merged = Tally::default();
        parts.iter().for_each(|part| merged.merge(part));
        assert_eq!(merged, whole);
        let text = serde_json::to_string(&whole).unwrap();
        assert_eq!(
            serde_json::from_str::<Tally>(&text).unwrap(),
            whole,
            "and read back as they were written"
        );
        merged.reset();
        assert_eq!(merged, Tally::default());
    }
}
