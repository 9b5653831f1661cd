//! Finds and administers a MongoDB deployment: URI, topology, concerns, namespaces and collections.
//!
//! In reading order: names ([`Namespace`]), concerns ([`concern`]) and read preferences ([`read_preference`]); the deployment of a URI ([`Deployment`],
//! [`driver_options`]) and its errors ([`Error`]); rare commands with retries ([`Admin`], [`retry()`]), forming a deployment ([`form`]), the wait for late servers ([`await_servers`]) and the wait for a
//! majority or a member ([`catch_up`], [`catch_up_to`]); collections ([`collection`]) and a full inspection ([`inspect`]).

pub mod concern;
mod namespace;
pub mod read_preference;

mod connection_string;
mod cursor;
mod error;
mod read;
mod store_uri;
mod topology;
mod uri;

mod admin;
pub mod form;
mod late_server;
mod majority;

pub mod collection;
pub mod inspect;

pub use admin::{Admin, retry, runtime};
pub use connection_string::Pool;
pub use cursor::{Listing, Step};
pub use error::{Error, driver_message, is_transient_code};
pub use late_server::await_servers;
pub use majority::{MajorityError, Position, Progress, catch_up, catch_up_quietly, catch_up_to, progress};
pub use namespace::{InvalidNamespace, Namespace, fault_of_database};
pub use store_uri::{check_durable, warnings_of_reads, warnings_of_store};
pub use topology::{COMMAND_TIMEOUT, Deployment};
pub use uri::{
    authenticates, check_uri, concerns_of, driver_options, for_driver, lean_options,
    options_beyond_addresses, pool_options, pool_warnings, read_options, selection_limit, warnings,
    warnings_of_driver, write_concern_of,
};
