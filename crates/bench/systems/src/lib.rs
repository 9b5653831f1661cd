//! Puts systems under load: databases, and services over HTTP. The binary's registry lists them.
//!
//! In reading order: [`DatabaseKind`] and [`HttpKind`] claim scenarios; [`database`] and [`service`] are open systems;
//! [`managed_service`] starts and fills a service, which [`ServiceKind`] describes; [`audit`](mod@audit) reads back the documents
//! that a database acknowledged; [`calibration`] measures the tool itself.

pub mod database;
mod database_subject;

pub mod managed_service;
pub mod service;
pub mod service_database;
pub mod service_kind;
mod service_program;
mod service_snapshot;
mod service_subject;

pub mod audit;
pub mod calibration;
pub mod check;
pub mod client_engine;
mod consistency;
mod promise;

pub use database_subject::{DatabaseAt, DatabaseKind};
pub use service_kind::{FillMoment, ServiceKind, Services, WorkloadResult};
pub use service_subject::{HttpKind, ManagedService, RunningService};
