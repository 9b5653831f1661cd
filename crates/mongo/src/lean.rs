//! The load target over our own client.

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use plimsoll_ledger::State;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_wire::{
    Connection, FindReply, FindRequest, FindSpec, Limits, WriteBatch, WriteKind, WriteReply, WriteSpec,
};

use crate::books::{Books, Closed};
use crate::maker::{Maker, Picked};
use crate::outcome::{add, answered, of_error, of_write, outcome, state};
use crate::setup::{Command, FindShape, Selection, Setup};
use crate::statement;
use crate::topology::Site;

/// One worker's view of the server, over our own client.
#[derive(Debug)]
pub struct Lean {
    maker: Arc<Maker>,
    site: Arc<Site>,
}

/// A connection and its buffers, one set an operation of the plan.
#[derive(Debug)]
pub struct Lane {
    connection: Connection,
    buffers: Vec<Buffers>,
    current: usize,
    /// The server is no longer the primary: the connection must be opened anew, perhaps elsewhere.
    misled: bool,
    /// How often what is prepared was sent.
    attempts: u32,
}

#[derive(Debug)]
enum Buffers {
    Write(Box<WriteBuffers>),
    Find(Box<FindBuffers>),
}

#[derive(Debug)]
struct WriteBuffers {
    batch: WriteBatch,
    reply: WriteReply,
    /// Numbers of the documents of an insert.
    numbers: Range<u64>,
    /// Numbers of those that are larger than this server takes, and were not pushed.
    oversized: Vec<u64>,
    /// Whether a change must find its document.
    promised: bool,
}

#[derive(Debug)]
struct FindBuffers {
    request: FindRequest,
    reply: FindReply,
    /// Whether exactly one document must be found.
    promised: bool,
}

impl Lean {
    /// A target for one worker.
    pub fn new(setup: Arc<Setup>, site: Arc<Site>, books: Books) -> Self {
        Self::sharing(Arc::new(Maker::new(setup, books)), site)
    }

    /// A target that shares its worker's documents with others.
    pub const fn sharing(maker: Arc<Maker>, site: Arc<Site>) -> Self {
        Self { maker, site }
    }

    /// What this worker has to tell the others before a phase.
    pub fn maker(&self) -> &Maker {
        &self.maker
    }

    /// Ends the target and gives its books, unless another target has them still.
    pub fn close(self) -> Option<Closed> {
        Arc::into_inner(self.maker).map(Maker::close)
    }

    fn buffers(&self, command: &Command, limits: &Limits) -> Result<Buffers, plimsoll_wire::Error> {
        let kind = match command {
            Command::Find { shape, selection } => return self.find_buffers(shape, selection, limits),
            Command::Insert { .. } => WriteKind::Insert,
            Command::Update { .. } | Command::Replace => WriteKind::Update,
            Command::Delete { .. } => WriteKind::Delete,
        };
        let setup = &self.maker.setup;
        let mut spec = WriteSpec::new(kind, &setup.namespace.db, &setup.namespace.collection);
        spec.write_concern.clone_from(&setup.write_concern);
        spec.ordered = !matches!(command, Command::Insert { ordered: false, .. });
        let batch = WriteBatch::new(&spec, limits)?;
        let buffers = WriteBuffers {
            batch,
            reply: WriteReply::new(),
            numbers: 0..0,
            oversized: Vec::new(),
            promised: false,
        };
        Ok(Buffers::Write(Box::new(buffers)))
    }

    fn find_buffers(
        &self,
        shape: &FindShape,
        selection: &Selection,
        limits: &Limits,
    ) -> Result<Buffers, plimsoll_wire::Error> {
        let namespace = &self.maker.setup.namespace;
        let by_receipt = matches!(selection, Selection::Receipt);
        let mut spec = FindSpec::new(&namespace.db, &namespace.collection);
        spec.projection.clone_from(&shape.projection);
        spec.sort.clone_from(&shape.sort);
        spec.read_concern.clone_from(&shape.read_concern);
        spec.limit = if by_receipt { Some(1) } else { shape.limit };
        spec.single_batch = by_receipt;
        let request = FindRequest::new(&spec, limits)?;
        Ok(Buffers::Find(Box::new(FindBuffers { request, reply: FindReply::new(), promised: false })))
    }

    fn prepare_insert(&self, buffers: &mut WriteBuffers, count: u32) -> Prepared {
        let Some(numbers) = self.maker.take(count) else { return Prepared::Exhausted };
        for number in numbers.clone() {
            if buffers.batch.push(|out| self.maker.write_document(out, number)).is_err() {
                buffers.oversized.push(number);
            }
        }
        buffers.numbers = numbers;
        Prepared::Ready
    }

    fn prepare_change(&self, buffers: &mut WriteBuffers, operation: usize, number: u64) -> Prepared {
        let Some(picked) = self.maker.pick(operation, number) else { return Prepared::Exhausted };
        let command = &self.maker.setup.commands[operation];
        buffers.promised = picked.promised && command.must_match();
        if buffers.batch.push(|out| self.write_change(out, command, picked)).is_err() {
            buffers.oversized.push(number);
        }
        Prepared::Ready
    }

    fn write_change(&self, out: &mut Vec<u8>, command: &Command, picked: Picked) {
        statement::document(out, |out| {
            statement::nested(out, "q", |out| self.maker.write_filter(out, command, picked));
            if matches!(command, Command::Delete { .. }) {
                return statement::int32(out, "limit", 1);
            }
            statement::nested(out, "u", |out| self.maker.write_update(out, command, picked));
            if let Command::Update { multi, upsert, .. } = command {
                statement::boolean(out, "multi", *multi);
                statement::boolean(out, "upsert", *upsert);
            }
        });
    }

    fn prepare_find(&self, buffers: &mut FindBuffers, operation: usize, number: u64) -> Prepared {
        let Some(picked) = self.maker.pick(operation, number) else { return Prepared::Exhausted };
        buffers.promised = picked.promised;
        let command = &self.maker.setup.commands[operation];
        let written = buffers.request.filter(|out| self.maker.write_filter(out, command, picked));
        // A filter over the server's limit is over that of every document, which was checked when it was compiled.
        debug_assert!(written.is_ok());
        Prepared::Ready
    }

    /// Notes what became of a write's documents and sums it up.
    fn conclude(&self, buffers: &WriteBuffers, command: &Command, attempt: Attempt) -> Reply {
        if matches!(command, Command::Insert { .. }) {
            return self.note_inserts(buffers, attempt);
        }
        let mut reply = of_write(&buffers.reply);
        add(&mut reply, Outcome::Rejected(Rejection::TooLarge), buffers.oversized.len() as u64);
        judge_change(buffers, &mut reply);
        reply
    }

    fn note_inserts(&self, buffers: &WriteBuffers, attempt: Attempt) -> Reply {
        let mut books = self.maker.books();
        let mut reply = answered(&buffers.reply);
        let mut pushed = Pushed { next: buffers.numbers.start, oversized: &buffers.oversized };
        for span in buffers.reply.spans() {
            let outcome = outcome(span.outcome);
            pushed.take(u64::from(span.count), |numbers| match attempt {
                Attempt::First => {
                    add(&mut reply, outcome, numbers.end - numbers.start);
                    books.settle(numbers, state(outcome));
                }
                Attempt::Further => {
                    numbers.for_each(|number| add(&mut reply, settle_again(&mut books, number, outcome), 1));
                }
            });
        }
        add(&mut reply, Outcome::Rejected(Rejection::TooLarge), buffers.oversized.len() as u64);
        for number in &buffers.oversized {
            books.settle(*number..number + 1, State::Rejected);
        }
        reply
    }
}

/// Whether what is prepared is sent for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    First,
    Further,
}

impl Attempt {
    const fn of(attempts: u32) -> Self {
        if attempts <= 1 { Self::First } else { Self::Further }
    }
}

/// What a further attempt says of a document. One that the server has already is the one that was sent before: that is
/// success, but no promise, since nobody acknowledged it; what was acknowledged before stays so.
fn settle_again(books: &mut Books, number: u64, outcome: Outcome) -> Outcome {
    match (books.state_of(number), outcome) {
        (State::Acknowledged, _) => Outcome::Acknowledged,
        (State::Unknown, Outcome::Rejected(Rejection::DuplicateKey)) => Outcome::Acknowledged,
        _ => {
            books.settle(number..number + 1, state(outcome));
            outcome
        }
    }
}

/// A change by receipt that does not find a document that must be there was not expected.
fn judge_change(buffers: &WriteBuffers, reply: &mut Reply) {
    if reply.outcome != Outcome::Acknowledged {
        return;
    }
    reply.documents = buffers.reply.n;
    if buffers.reply.n == 0 && buffers.promised {
        add(reply, Outcome::Rejected(Rejection::Unexpected), 1);
    }
}

/// Walks the numbers of an insert in the order they were pushed, around those that were not.
struct Pushed<'a> {
    next: u64,
    oversized: &'a [u64],
}

impl Pushed<'_> {
    fn take(&mut self, mut count: u64, mut each: impl FnMut(Range<u64>)) {
        while count > 0 {
            let hole = self.oversized.first().copied().unwrap_or(u64::MAX);
            let end = (self.next + count).min(hole);
            if end > self.next {
                each(self.next..end);
                count -= end - self.next;
            }
            self.next = end;
            if end == hole {
                self.oversized = &self.oversized[1..];
                self.next += 1;
            }
        }
    }
}

/// Reads everything that a find lets through.
async fn read(connection: &mut Connection, buffers: &mut FindBuffers) -> Result<Reply, plimsoll_wire::Error> {
    let FindBuffers { request, reply, .. } = buffers;
    connection.find(request, reply).await?;
    let mut read = Reply::acknowledged(0);
    count(&mut read, reply);
    while reply.cursor_id() != 0 {
        let cursor_id = reply.cursor_id();
        connection.get_more(request, cursor_id, reply).await?;
        count(&mut read, reply);
    }
    Ok(read)
}

fn count(read: &mut Reply, batch: &FindReply) {
    read.documents += u64::from(batch.len());
    read.bytes_sent += batch.bytes_sent() as u64;
    read.bytes_received += batch.bytes_received() as u64;
}

fn of_find(found: Result<Reply, plimsoll_wire::Error>, promised: bool) -> Reply {
    match found {
        Err(error) => Reply::failed(of_error(&error), 1),
        Ok(read) if promised && read.documents != 1 => {
            Reply::failed(Outcome::Rejected(Rejection::Unexpected), 1)
        }
        Ok(read) => read,
    }
}

impl Target for Lean {
    type Lane = Lane;

    fn begin(&self, documents: Option<u64>) {
        self.maker.books().limit(documents);
    }

    async fn open(&self) -> Result<Lane, Box<dyn Error + Send + Sync>> {
        let connection = self.site.connect().await?;
        let limits = connection.limits();
        let buffers = self.maker.setup.commands.iter().map(|command| self.buffers(command, &limits));
        let buffers = buffers.collect::<Result<_, _>>()?;
        Ok(Lane { connection, buffers, current: 0, misled: false, attempts: 0 })
    }

    fn prepare(&self, lane: &mut Lane, operation: usize, number: u64) -> Prepared {
        lane.current = operation;
        lane.attempts = 0;
        let buffers = match &mut lane.buffers[operation] {
            Buffers::Find(buffers) => return self.prepare_find(buffers, operation, number),
            Buffers::Write(buffers) => buffers,
        };
        buffers.batch.clear();
        buffers.oversized.clear();
        buffers.numbers = 0..0;
        match &self.maker.setup.commands[operation] {
            Command::Insert { batch, .. } => self.prepare_insert(buffers, *batch),
            _ => self.prepare_change(buffers, operation, number),
        }
    }

    async fn send(&self, lane: &mut Lane) -> Reply {
        lane.attempts += 1;
        let reply = match &mut lane.buffers[lane.current] {
            Buffers::Find(buffers) => {
                let found = read(&mut lane.connection, buffers).await;
                of_find(found, buffers.promised)
            }
            Buffers::Write(buffers) => {
                lane.connection.write(&mut buffers.batch, &mut buffers.reply).await;
                self.conclude(buffers, &self.maker.setup.commands[lane.current], Attempt::of(lane.attempts))
            }
        };
        lane.misled = reply.outcome == Outcome::Rejected(Rejection::NotPrimary);
        reply
    }

    fn discard(&self, lane: &mut Lane) {
        let Buffers::Write(buffers) = &mut lane.buffers[lane.current] else { return };
        let numbers = std::mem::take(&mut buffers.numbers);
        if !numbers.is_empty() {
            self.maker.books().give_back(numbers);
        }
    }

    fn carry(&self, lost: &mut Lane, fresh: &mut Lane) -> bool {
        let current = lost.current;
        std::mem::swap(&mut lost.buffers[current], &mut fresh.buffers[current]);
        (fresh.current, fresh.attempts) = (current, lost.attempts);
        true
    }

    fn tick(&self) {
        self.maker.books().flush();
    }

    fn is_broken(&self, lane: &Lane) -> bool {
        lane.misled || lane.connection.is_broken()
    }

    async fn settle(&self, lane: &mut Lane) {
        if !self.maker.setup.is_acknowledged() && !lane.connection.is_broken() {
            // What was handed over before has arrived when the ping is answered; if it is not, nothing was promised.
            lane.connection.ping().await.unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_noted_around_documents_that_were_not_pushed() {
        let mut pushed = Pushed { next: 10, oversized: &[10, 13, 14] };
        let mut seen = Vec::new();
        pushed.take(1, |numbers| seen.push(numbers));
        pushed.take(3, |numbers| seen.push(numbers));
        assert_eq!(seen, [11..12, 12..13, 15..17]);
    }
}
