//! Reads events: change streams ([`change_stream`]), collections ([`scan`]), and dead letters ([`dead_letters`]).

pub mod change_stream;

pub mod scan;

pub mod dead_letters;

pub(crate) mod id_order;

mod change;
mod driver_errors;
mod resume_token;
mod server_wait;
