//! Describes an operation of the plan, whichever system takes it.

use plimsoll_http::Request;
use plimsoll_mongo::scenario::Operation as Command;

/// The operations to send.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// A command to a database.
    Database(Command),
    /// A request to a service.
    Service(Request),
}

impl Operation {
    /// Documents of one operation.
    pub fn documents(&self) -> u32 {
        match self {
            Self::Database(operation) => operation.documents(),
            Self::Service(request) => request.documents(),
        }
    }

    /// Whether it makes documents, of which a phase may send a limited number.
    pub fn makes(&self) -> bool {
        match self {
            Self::Database(operation) => operation.inserts(),
            Self::Service(request) => request.makes(),
        }
    }

    /// Whether it names documents that were inserted before.
    pub fn needs_receipts(&self) -> bool {
        matches!(self, Self::Database(operation) if operation.needs_receipts())
    }

    /// The command, if it is one to a database.
    pub const fn database(&self) -> Option<&Command> {
        match self {
            Self::Database(operation) => Some(operation),
            Self::Service(_) => None,
        }
    }

    /// The request, if it is one to a service.
    pub const fn service(&self) -> Option<&Request> {
        match self {
            Self::Service(request) => Some(request),
            Self::Database(_) => None,
        }
    }
}
