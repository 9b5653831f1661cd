//! Keeps a connection of a sink, and the buffers of its write command.

use plimsoll_deployment::{Deployment, Error as DeploymentError, Namespace};
use plimsoll_pipeline::FailureClass;
use plimsoll_wire::{Connection, WriteBatch, WriteConcern, WriteKind, WriteReply, WriteSpec};

use super::verdict::BatchVerdict;

/// A connection, and the buffers of its command.
#[derive(Debug, Default)]
pub struct WriteConnection {
    pub open: Option<(Connection, WriteBatch)>,
    pub reply: WriteReply,
    /// The event index of each document or statement in the command.
    pub indexes: Vec<u32>,
    pub scratch: Vec<u8>,
}

impl WriteConnection {
    /// Opens a connection unless a working connection exists. Its command is unordered.
    pub async fn open(
        &mut self,
        kind: WriteKind,
        (deployment, namespace): (&Deployment, &Namespace),
        concern: Option<&WriteConcern>,
    ) -> Result<(), DeploymentError> {
        if self.is_open() {
            return Ok(());
        }
        let connection = deployment.connect().await?;
        let mut spec = WriteSpec::new(kind, &namespace.db, &namespace.collection);
        (spec.ordered, spec.write_concern) = (false, concern.cloned());
        let command = WriteBatch::new(&spec, &connection.limits())?;
        self.open = Some((connection, command));
        Ok(())
    }

    /// Whether the connection is open and works.
    pub fn is_open(&self) -> bool {
        self.open.as_ref().is_some_and(|(connection, _)| !connection.is_broken())
    }

    /// Empties the command.
    pub fn clear(&mut self) {
        self.indexes.clear();
        if let Some((_, command)) = &mut self.open {
            command.clear();
        }
    }

    /// Closes the connection if it broke, or the batch failed transiently.
    pub fn close_after(&mut self, verdict: &BatchVerdict) {
        let is_broken = self.open.as_ref().is_some_and(|(connection, _)| connection.is_broken());
        if is_broken || verdict.has_failed(FailureClass::Transient) {
            self.open = None;
        }
    }
}
