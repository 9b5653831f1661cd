//! Holds measured values as plain types with a versioned file form.
//!
//! These types are the vocabulary of all other crates: instants, histograms, outcomes, intervals, events and
//! the summary of a run. This crate knows no engine, socket, terminal or database, and never learns the
//! meaning of an operation.

mod macros;

pub mod clock;
pub mod clock_offset;
pub mod comparison;
pub mod consistency;
pub mod count;
pub mod duration;
pub mod environment;
pub mod event;
pub mod expectation;
pub mod first_error;
pub mod freeze;
pub mod hdr_log;
pub mod histogram;
pub mod history;
pub mod host_sample;
pub mod inspection;
pub mod integrity;
pub mod interval;
pub mod ladder;
pub mod line;
pub mod matrix;
pub mod metric;
pub mod outcome;
pub mod random;
pub mod rule;
pub mod run;
pub mod sample;
pub mod secret;
pub mod size;
pub mod stream;
pub mod suite;
pub mod threshold;
pub mod workflow;
