//! Puts PostgreSQL behind the workflow engine's port, and installs and runs a real server for tests and trials.

pub mod workflow;

pub mod server;
