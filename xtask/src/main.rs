//! Our automation, in Rust: the same words on a laptop and in CI.
fn main() {}
