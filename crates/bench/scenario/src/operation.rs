//! Defines the operations of a plan, for databases, services and the workflow engine.

use plimsoll_http::Request;
use plimsoll_mongo::scenario::Operation as Command;

use crate::Unit;

/// An operation of the plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// A command to a database.
    Database(Command),
    /// A request to a service.
    Service(Request),
    /// A unit of work for the workflow engine.
    Workflow(Unit),
}

impl Operation {
    /// The number of documents per operation.
    pub fn documents(&self) -> u32 {
        match self {
            Self::Database(operation) => operation.documents(),
            Self::Service(request) => request.documents(),
            Self::Workflow(_) => 1,
        }
    }

    /// Whether it creates documents. A phase can limit their number.
    pub fn makes(&self) -> bool {
        match self {
            Self::Database(operation) => operation.inserts(),
            Self::Service(request) => request.makes(),
            Self::Workflow(_) => false,
        }
    }

    /// Whether it names documents that were inserted before.
    pub fn needs_receipts(&self) -> bool {
        matches!(self, Self::Database(operation) if operation.needs_receipts())
    }

    /// The command, if the operation is for a database.
    pub const fn database(&self) -> Option<&Command> {
        match self {
            Self::Database(operation) => Some(operation),
            Self::Service(_) | Self::Workflow(_) => None,
        }
    }

    /// The request, if the operation is for a service.
    pub const fn service(&self) -> Option<&Request> {
        match self {
            Self::Service(request) => Some(request),
            Self::Database(_) | Self::Workflow(_) => None,
        }
    }

    /// The unit, if the operation is for the workflow engine.
    pub const fn unit(&self) -> Option<&Unit> {
        match self {
            Self::Workflow(unit) => Some(unit),
            Self::Database(_) | Self::Service(_) => None,
        }
    }
}
