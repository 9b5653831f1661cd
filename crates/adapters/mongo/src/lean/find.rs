//! Sends finds over our own client.

use bson::RawDocument;
use plimsoll_deployment::concern::Concerns;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::Outcome;
use plimsoll_wire::{
    Connection, Error, FindReply, FindRequest, FindSpec, Limits, ReadPreference, RetryAdvice,
};

use crate::operation_builder::{OperationTarget, ReturnedState, Work};
use crate::outcome::of_error;
use crate::setup::{FindShape, Selection, Setup};

/// A prepared find.
#[derive(Debug)]
pub(super) struct Buffers {
    request: FindRequest,
    reply: FindReply,
    aim: OperationTarget,
    /// Whether the server returns whole documents.
    whole: bool,
    /// The retry advice that follows from the last answer.
    pub advice: RetryAdvice,
}

/// The settings of a read on one connection.
#[derive(Clone, Debug)]
pub(super) struct ReadSettings<'a> {
    pub concerns: &'a Concerns,
    /// The read preference for the server of the connection.
    pub preference: ReadPreference,
}

impl Buffers {
    pub fn new(
        setup: &Setup,
        selection: &Selection,
        shape: &FindShape,
        settings: ReadSettings<'_>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let by_receipt = matches!(selection, Selection::Receipt(_));
        let mut spec = FindSpec::new(&setup.namespace.db, &setup.namespace.collection);
        spec.projection.clone_from(&shape.projection);
        spec.sort.clone_from(&shape.sort);
        spec.read_concern.clone_from(&settings.concerns.read);
        spec.read_preference = settings.preference;
        spec.limit = if by_receipt { Some(1) } else { shape.limit };
        spec.single_batch = by_receipt;
        let request = FindRequest::new(&spec, limits)?;
        let whole = shape.projection.is_none();
        let (reply, aim) = (FindReply::new(), OperationTarget::default());
        Ok(Self { request, reply, aim, whole, advice: RetryAdvice::FINAL })
    }

    pub fn prepare(&mut self, work: Work<'_>, number: u64) -> Option<()> {
        let aim = work.builder.aim(work.operation, number)?;
        self.prepare_for(work, aim);
        Some(())
    }

    /// Prepares the find of a picked document.
    pub fn prepare_for(&mut self, work: Work<'_>, aim: OperationTarget) {
        self.aim = aim;
        let written = self.request.filter(|out| work.builder.write_filter(out, work.command, aim));
        // The compilation of the plan checked the filter against the size limit of every document, so the
        // filter fits.
        debug_assert!(written.is_ok());
    }

    pub async fn send(&mut self, connection: &mut Connection, work: Work<'_>) -> Reply {
        let picked = self.aim.document.map(|picked| work.as_sent(picked));
        let read = match self.read(connection).await {
            Ok(read) => read,
            Err(error) => return Reply::failed(work.noted(of_error(&error), &error), 1),
        };
        if let Some(picked) = picked {
            let found = self.reply.documents().next().filter(|_| read.documents == 1);
            let picked = if self.whole { picked } else { picked.in_part() };
            let found = found.map(RawDocument::as_bytes);
            if let Err(rejection) = work.builder.judge_read(&picked, ReturnedState::Before, found) {
                return Reply::failed(Outcome::Rejected(rejection), 1);
            }
        }
        read
    }

    /// Reads every document that matches.
    async fn read(&mut self, connection: &mut Connection) -> Result<Reply, Error> {
        let Self { request, reply, advice, .. } = self;
        let found = connection.find(request, reply).await;
        // A lost cursor is not read again: only the find is retryable.
        *advice = found.as_ref().err().map_or(RetryAdvice::FINAL, RetryAdvice::of_read);
        found?;
        let mut read = Reply::acknowledged(0);
        count(&mut read, reply);
        while reply.cursor_id() != 0 {
            let cursor_id = reply.cursor_id();
            connection.get_more(request, cursor_id, reply).await?;
            count(&mut read, reply);
        }
        Ok(read)
    }
}

/// Adds a batch to the counts of documents and bytes.
pub(super) fn count(read: &mut Reply, batch: &FindReply) {
    read.documents += u64::from(batch.len());
    read.bytes_sent += batch.bytes_sent() as u64;
    read.bytes_received += batch.bytes_received() as u64;
}
