//! Tests the epoch: the writes of a process that has not noticed its takeover.
//!
//! Two processes of one pipeline read a collection that changes in between, so one number is a different document for each. The
//! first writes after the second took the partition over, like a process that was suspended meanwhile.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use bson::doc;
use plimsoll_host::Server;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::{
    Assignments, Batch, Claim, Control, Executor, Identity, Intake, Last, Order, Partition, Parts, Pipeline,
    Position, PositionError, PositionStore, Promise, Read, Replay, Settings, Settled, Sink, SinkError,
    SinkFactory, Source, SourceError, Verdict,
};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::positions::Positions;
use plimsoll_stores::scenario::{self, Transactional};
use plimsoll_stores::source::scan::Scan;

use crate::bench::{LIMIT, ask, documents, shared, sink, uri, write};

/// Whether a takeover raises the epoch.
#[derive(Clone, Copy)]
enum Epochs {
    Raised,
    Constant,
}

impl Epochs {
    fn of(self, positions: Positions) -> Arc<dyn PositionStore> {
        match self {
            Self::Raised => Arc::new(positions),
            Self::Constant => Arc::new(ConstantEpochs(positions)),
        }
    }
}

/// Positions in which every claim returns the first epoch.
struct ConstantEpochs(Positions);

impl PositionStore for ConstantEpochs {
    fn claim(&self, partition: &Partition) -> Result<Claim, PositionError> {
        let kept = self.0.look(partition)?;
        match kept.epoch {
            0 => self.0.claim(partition),
            epoch => Ok(Claim { position: kept.position, epoch }),
        }
    }

    fn keep(&self, positions: &[(Partition, Position)]) -> Result<(), PositionError> {
        self.0.keep(positions)
    }
}

/// A scan that exposes its assignments.
struct Scanned {
    scan: Scan,
    held: Sender<Arc<Assignments>>,
}

impl Source for Scanned {
    fn replay(&self) -> Replay {
        self.scan.replay()
    }

    fn stable(&self) -> bool {
        self.scan.stable()
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        self.held.send(Arc::clone(assignments)).unwrap();
        self.scan.open(assignments)
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        self.scan.read(intake)
    }

    fn commit(&mut self, reached: &[(Partition, Position)], last: Last) -> Result<(), SourceError> {
        self.scan.commit(reached, last)
    }
}

/// Captures its batches instead of writing them.
struct Catch(Sender<Batch>);

impl SinkFactory for Catch {
    fn promise(&self) -> Promise {
        Promise {
            durable: true,
            identity: Identity::Transaction,
            order: Order::Kept,
            writes_dead_letters: true,
        }
    }

    fn build(&self, _: usize) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl Sink for Catch {
    fn capacity(&self) -> usize {
        1
    }

    fn submit(&mut self, batch: Batch) {
        self.0.send(batch).unwrap();
    }

    fn settle(&mut self, wait: Duration) -> Option<Settled> {
        std::thread::sleep(wait);
        None
    }
}

/// Reads a batch under a new claim without writing it; returns it with its assignments.
fn read(server: &Server, db: &str, positions: Arc<dyn PositionStore>) -> (Batch, Arc<Assignments>) {
    let ((batches, caught), (held, assignments)) = (channel(), channel());
    let typed = format!(r#"{{"uri": "{}", "collection": "{db}.c"}}"#, uri(server));
    let scan = serde_json::from_str::<scenario::Scan>(&typed).unwrap().build().unwrap();
    let parts = Parts {
        sources: vec![Box::new(Scanned { scan, held })],
        transforms: vec![],
        sink: Box::new(Catch(batches)),
        dead_letters: None,
        positions: Some(positions),
    };
    let (guarantee, executor) = (Guarantee::EffectivelyOnce, Executor::Pool(1));
    let settings = Settings { guarantee, executor, ..Settings::default() };
    let control = Arc::new(Control::default());
    let pipeline = Pipeline::build(parts, settings, Arc::clone(&control)).unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| pipeline.run());
        let batch = caught.recv_timeout(LIMIT);
        control.abort();
        running.join().unwrap().unwrap();
        (batch.unwrap(), assignments.recv().unwrap())
    })
}

/// The verdict on the batch of the fenced process, and the `_id`s after both wrote.
fn taken_over(db: &str, epochs: Epochs) -> (Verdict, Vec<i32>) {
    let server = shared();
    let typed = Transactional { form: Form::Bson, ..Transactional::new(uri(&server), format!("{db}.out")) };
    let positions = || epochs.of(typed.positions("p").unwrap());
    let write = |batch| write(&mut *sink(&typed.build("p").unwrap()), batch);
    let insert = |ids: &[i32]| {
        let documents: Vec<_> = ids.iter().map(|id| doc! {"_id": *id}).collect();
        ask(&server, db, doc! {"insert": "c", "documents": documents});
    };
    insert(&[10, 20, 30]);
    let (stale, assignments) = read(&server, db, positions());
    insert(&[15]);
    let (fresh, _) = read(&server, db, positions());
    // The sink checks the assignments only after it was fenced, so it does not wait for the notification here.
    assignments.lose(std::slice::from_ref(stale.partition()));
    let verdict = write(stale);
    assert!(matches!(write(fresh), Verdict::Written { .. }), "the current holder of the partition writes");
    let found = documents(&server, db, "out");
    let mut ids: Vec<_> = found.iter().map(|found| found.get_i32("_payload_id").unwrap()).collect();
    ids.sort_unstable();
    (verdict, ids)
}

#[test]
fn a_fenced_process_writes_nothing_and_the_epoch_is_necessary() {
    assert_eq!(taken_over("epochs_raised", Epochs::Raised), (Verdict::Revoked, vec![10, 15, 20, 30]));
    // Without epochs the first process writes its numbers 0 to 2, and the second only its number 3: the
    // document 15 is lost, and 30 exists twice.
    assert_eq!(taken_over("epochs_constant", Epochs::Constant), (Verdict::WRITTEN, vec![10, 20, 30, 30]));
}
