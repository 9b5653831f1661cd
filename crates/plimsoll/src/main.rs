//! Reads words, builds plans, wires rooms, sets exit codes.
fn main() {}
