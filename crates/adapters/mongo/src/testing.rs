//! What the unit tests of this room have in common.

use std::path::Path;
use std::sync::Arc;

use plimsoll_ledger::{Deal, Run, State};

use crate::books::Books;
use crate::claim::Claim;
use crate::keys::Keys;
use crate::maker::Maker;
use crate::scenario::{Operation, Section};
use crate::setup::{Context, Error, Purpose, Setup};

/// The setup of a section and its operations, both as JSON.
pub fn setup(section: &str, operations: &[(&str, &str)]) -> Result<Setup, Error> {
    let section: Section = serde_json::from_str(section).unwrap();
    let operation = |(name, typed): &(&str, &str)| {
        ((*name).to_owned(), serde_json::from_str::<Operation>(typed).unwrap())
    };
    let operations: Vec<_> = operations.iter().map(operation).collect();
    let context = Context { seed: 1, run: Run { time_s: 1, tag: [1, 2, 3] }, base: Path::new(".") };
    Setup::build(&section, &operations, context)
}

/// A maker of small documents, `count` of which are there.
pub fn maker(count: u64) -> Maker {
    let section = r#"{"collection": "d.c", "document": {"t": {"$text": {"bytes": 20}}}}"#;
    let setup = setup(section, &[("insert", r#"{"insert": {}}"#)]).unwrap();
    let mut books = Books::new(Deal::new(4096, 1, None).unwrap(), 0, None);
    let numbers = books.take(count).unwrap();
    books.settle(numbers, State::Acknowledged);
    Maker::new(Arc::new(setup), books)
}

/// A replacement of the first document that is noted as sent.
pub fn claimed(maker: &Maker) -> (u64, Option<Claim>) {
    let picked = maker.books().pick(&Keys::Uniform, Purpose::Replace, |_| 0).unwrap();
    (picked.number, picked.claimed.map(|_| Claim::of(picked.number)))
}
