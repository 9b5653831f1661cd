//! Tests sinks with transactions: they write whole batches, or none.

use std::sync::Arc;

use plimsoll_pipeline::engine::{Exhausted, Retry};
use plimsoll_pipeline::{
    Claim, Ended, Error, FailureClass, Identity, Order, Partition, Parts, Pipeline, Position, PositionError,
    PositionStore, Settings, TransformFactory, Verdict,
};

use crate::outcome::{Denies, RETRY, settings};
use crate::scripted::{Counting, Scripted};

/// The position store of a transactional sink.
struct InTransactions;

impl PositionStore for InTransactions {
    fn claim(&self, _partition: &Partition) -> Result<Claim, PositionError> {
        Ok(Claim::default())
    }

    fn keep(&self, _positions: &[(Partition, Position)]) -> Result<(), PositionError> {
        panic!("only the sink keeps positions")
    }
}

fn transactional(
    mut sink: Scripted,
    transforms: Vec<Box<dyn TransformFactory>>,
    retry: Retry,
) -> Result<Ended, Error> {
    sink.promise.identity = Identity::Transaction;
    sink.promise.order = Order::Kept;
    let parts = Parts {
        sources: vec![Box::new(Counting::new(1000, 10))],
        transforms,
        sink: Box::new(sink),
        dead_letters: None,
        positions: Some(Arc::new(InTransactions)),
    };
    Pipeline::build(parts, Settings { retry, ..settings() }, Arc::default())?.run()
}

#[test]
fn a_transaction_refuses_rejected_events_without_a_dead_letter_sink() {
    let sink = Scripted::writing();
    let ended = transactional(sink.clone(), vec![Box::new(Denies)], RETRY);
    assert!(matches!(ended, Err(Error::NoDeadLetters { offset: 555, .. })));
    assert!(!sink.written().iter().any(|offset| (550..560).contains(offset)));
    let mut sink = Scripted::writing();
    sink.promise.writes_dead_letters = true;
    assert_eq!(transactional(sink.clone(), vec![Box::new(Denies)], RETRY).unwrap(), Ended::Exhausted);
    assert_eq!(sink.written().len(), 999);
}

#[test]
fn a_transaction_is_never_split_or_dead_lettered_afterwards() {
    let refused_event = Scripted::new(|_| Verdict::failed(FailureClass::RefusedEvent, "something"));
    assert!(matches!(transactional(refused_event, Vec::new(), RETRY), Err(Error::Final(_))));
    let retry = Retry { attempts_max: Some(1), then: Exhausted::DeadLetters, ..RETRY };
    assert!(matches!(transactional(Scripted::writing(), Vec::new(), retry), Err(Error::Settings(_))));
}
