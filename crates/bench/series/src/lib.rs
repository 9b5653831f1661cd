//! Plans, makes, resumes and compares many runs: a suite of tests, a matrix of one scenario, A against B.

pub mod ab;
pub mod matrix;
pub mod suite;

pub mod isolation;
pub mod same_machine;
