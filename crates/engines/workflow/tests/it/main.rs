//! Tests whole definitions, random lives of instances, and simulated workers.

mod budget;
mod examples;
mod lives;
mod simulation;
mod workers;
