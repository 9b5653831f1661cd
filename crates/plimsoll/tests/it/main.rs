//! Tests the program as a user has it, against real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ab;
mod ab_sides;
mod bad_files;
mod bad_input;
mod baseline;
mod bench;
mod bound;
mod catalogue;
mod clusters;
mod compare;
mod concepts;
mod connections;
mod consistency;
mod crash;
mod dashboard;
mod derive;
mod dry_run;
mod faults;
mod foreign;
mod foreign_servers;
mod history;
mod hosts;
mod http;
mod http_ab;
mod http_early;
mod http_matrix;
mod http_read_back;
mod inspect;
mod iot;
mod matrix;
mod merge;
mod merge_loads;
mod operations;
mod output;
mod pipeline;
mod pipeline_bad_input;
mod program;
mod resume;
mod runs;
mod secrets;
mod serve;
mod serve_http2;
mod serve_kill;
mod server;
mod server_cluster;
mod service;
mod shards;
#[cfg(feature = "full")]
mod stream;
#[cfg(feature = "full")]
mod stream_kills;
mod suite;
mod wording;
mod workflow;
mod workflow_guide;
mod workflow_http;
mod workflow_kills;
mod workflow_load;
mod workflow_plans;
mod writer;
