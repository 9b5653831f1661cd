//! Measures the storage of given vectors: as an array of doubles, or as a BSON vector of 32-bit floats.

use std::rc::Rc;
use std::sync::Arc;

use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::{Batch, Transform, TransformError, TransformFactory};
use plimsoll_stores::document::form::Form;
use plimsoll_stores::scenario;
use plimsoll_stores::sink::vector::{By, Stored};

use crate::Failure;
use crate::canned::{Can, Canned};
use crate::consume::payload;
use crate::plan::Plan;
use crate::row::{Row, Turn};
use crate::running::{parts, run, settings};
use crate::testbed::{DB, Store, Testbed};

const COLLECTION: &str = "vectors";
const PAYLOAD_BYTES: usize = 120;
/// The number of dimensions of MiniLM-L6-v2.
const DIMENSIONS: usize = 384;
const BATCH: usize = 200;
const CANS: u64 = 1000;

pub(crate) fn row(testbed: &Testbed, plan: &Plan) -> Result<Option<Row>, Failure> {
    let (store, events) = (testbed.server()?, plan.vectors);
    let cans: Arc<[Can]> = (0..CANS).map(can).collect();
    let setup = format!(
        "{events} events of {PAYLOAD_BYTES} bytes with vectors of {DIMENSIONS} that are given, upserts of {BATCH} a batch, 4 connections"
    );
    let add = |row: Row, (name, stored): (&str, Stored)| {
        let (store, cans) = (Rc::clone(&store), Arc::clone(&cans));
        row.subject(name, move || {
            let given: Box<dyn TransformFactory> = Box::new(Given);
            write(&mut store.borrow_mut(), Canned::new(&cans, events), given, stored, events)
        })
    };
    Ok(Some(FORMS.into_iter().fold(Row::new("Vector sink, vectors given", setup), add)))
}

/// The compared storage forms of vectors, with their names.
pub(crate) const FORMS: [(&str, Stored); 2] =
    [("array of doubles", Stored::Array), ("BSON float32 vector", Stored::Float32)];

fn can(number: u64) -> Can {
    let mut bytes = Vec::new();
    payload(number, &mut bytes, PAYLOAD_BYTES);
    Can { payload: bytes, signature: None }
}

/// Writes events with the vectors of a transform.
pub(crate) fn write(
    store: &mut Store,
    source: Canned,
    vectors: Box<dyn TransformFactory>,
    stored: Stored,
    events: u64,
) -> Result<Turn, Failure> {
    store.drop_collection(COLLECTION)?;
    let typed = scenario::Vector {
        by: By::Source,
        form: Form::Full,
        stored,
        ..scenario::Vector::new(store.uri(), format!("{DB}.{COLLECTION}"))
    };
    let parts = parts(source, vec![vectors], typed.build()?);
    let turn = run(parts, settings(Guarantee::AtMostOnce, BATCH), events)?;
    Ok(Turn { stored_bytes: Some(store.document_bytes(COLLECTION)?), ..turn })
}

/// Adds a vector to every event, which follows from its offset.
struct Given;

impl TransformFactory for Given {
    fn build(&self, _: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(Self))
    }

    fn name(&self) -> &str {
        "given"
    }
}

impl Transform for Given {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        let mut vector = [0.0; DIMENSIONS];
        for index in 0..batch.events().len() {
            let offset = batch.events()[index].offset as usize;
            let all = vector.iter_mut().enumerate();
            all.for_each(|(at, value)| *value = ((offset + at) % 1000) as f32 / 20_000.0 - 0.025);
            batch.set_vector(index, &vector);
        }
        Ok(())
    }
}
