//! Checks the reading of results of other tools, as these tools wrote them.

mod cut;
mod golden;
mod round_trip;
mod truth;

use std::path::Path;

use plimsoll_report::foreign::{Foreign, Operation, read};

/// The files. k6 1.8.1 and wrk 4.1.0 wrote their own files; one test of k6 made the three files that belong
/// together. The files of wrk2 and YCSB follow the documented forms.
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

/// One file.
pub fn bytes(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/foreign").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The result in one file.
pub fn foreign(name: &str) -> Foreign {
    read(&bytes(name)[..]).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// An operation of a result.
#[track_caller]
pub fn operation<'a>(foreign: &'a Foreign, name: &str) -> &'a Operation {
    let found = foreign.operations.iter().find(|operation| operation.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", foreign.operations))
}
