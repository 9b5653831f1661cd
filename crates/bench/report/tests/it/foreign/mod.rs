//! Results of other tools, as these tools wrote them.

mod cut;
mod golden;
mod round_trip;
mod truth;

use std::path::Path;

use plimsoll_report::foreign::{Foreign, Operation, read};

/// The files. Those of k6 1.8.1 and of wrk 4.1.0 were written by these programs (the three of k6 that belong together by
/// one test); those of wrk2 and YCSB are written after their documented forms.
pub const FILES: [&str; 8] = [
    "k6-machine.json",
    "k6-samples.json.gz",
    "k6-summary-export.json",
    "k6-summary.json",
    "wrk-errors.txt",
    "wrk.txt",
    "wrk2-both.txt",
    "ycsb.txt",
];

/// One of them.
pub fn bytes(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/foreign").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One of them, read.
pub fn foreign(name: &str) -> Foreign {
    read(&bytes(name)[..]).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// An operation of a result.
#[track_caller]
pub fn operation<'a>(foreign: &'a Foreign, name: &str) -> &'a Operation {
    let found = foreign.operations.iter().find(|operation| operation.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", foreign.operations))
}
