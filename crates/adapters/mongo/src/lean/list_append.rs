//! Appends to lists and reads them over our own client, and records the results. Several steps are one
//! transaction; no step is sent twice.

use plimsoll_consistency::{Outcome as Fate, Step, Transaction};
use plimsoll_element::append;
use plimsoll_measure::clock;
use plimsoll_measure::first_error::FirstError;
use plimsoll_measure::interval::Reply;
use plimsoll_measure::outcome::{Doubt, Outcome, Rejection};
use plimsoll_wire::{Call, Connection, Limits, Outcome as Wire};

use super::cursor::read_concern;
use super::session::Session;
use super::transaction::first_write_error;
use crate::list_append::{Planned, Shape, elements, write_append, write_read};
use crate::operation_builder::{OperationBuilder, Work};
use crate::outcome::{of_write_error, outcome};
use crate::setup::Command;
use crate::statement;

/// The read concern of transactions.
const IN_TRANSACTIONS: &str = "snapshot";

/// A prepared operation.
#[derive(Debug)]
pub(super) struct Buffers {
    planned: Vec<Planned>,
    step: Call,
    session: Session,
    /// The process in the history: the worker and its connection.
    process: u32,
}

impl Buffers {
    pub fn new(builder: &OperationBuilder, session: u64, limits: &Limits) -> Self {
        let worker = builder.ledger().worker();
        Self {
            planned: Vec::new(),
            step: Call::new(&builder.setup.namespace.db, limits),
            session: Session::new(builder, session, limits),
            process: (worker as u32) << 20 | session as u32 & 0xf_ffff,
        }
    }

    pub fn prepare(&mut self, work: Work<'_>, number: u64) -> Option<()> {
        let Command::ListAppend { steps, lists } = *work.command else { return None };
        let (worker, phase) = (work.builder.ledger().worker(), work.builder.phase());
        let shape = Shape { steps, lists, worker, phase };
        work.builder.recorder().plan(shape, number, &mut self.planned).then_some(())
    }

    pub async fn send(&mut self, connection: &mut Connection, work: Work<'_>) -> Reply {
        self.session.begin();
        let mut steps = Vec::with_capacity(self.planned.len());
        let invoked_ns = clock::now().as_ns();
        let outcome = match self.planned.len() {
            1 => self.send_alone(connection, work, &mut steps).await,
            _ => self.send_together(connection, work, &mut steps).await,
        };
        let completed_ns = clock::now().as_ns();
        let fate = match outcome {
            Outcome::Acknowledged => Fate::Committed,
            Outcome::Rejected(_) => Fate::Aborted,
            Outcome::Unknown(_) => Fate::Unknown,
        };
        // Every append that may have been sent belongs to the history.
        steps.extend(self.planned[steps.len()..].iter().filter_map(|planned| match *planned {
            Planned::Append(list, element) => Some(Step::Append { list, element }),
            Planned::Read(_) => None,
        }));
        let process = self.process;
        work.builder.recorder().record(Transaction {
            process,
            invoked_ns,
            completed_ns,
            outcome: fate,
            steps,
        });
        let (bytes_sent, bytes_received) = self.session.bytes;
        match outcome {
            Outcome::Acknowledged => Reply { bytes_sent, bytes_received, ..Reply::acknowledged(1) },
            outcome => Reply::failed(outcome, 1),
        }
    }

    async fn send_alone(
        &mut self,
        connection: &mut Connection,
        work: Work<'_>,
        done: &mut Vec<Step>,
    ) -> Outcome {
        let planned = self.planned[0];
        let concerns = work.concerns();
        let written = self.step.body(|out| {
            write_step(out, work, planned);
            match planned {
                Planned::Append(..) => statement::write_concern(out, concerns.write.as_ref()),
                Planned::Read(_) => read_concern(out, concerns.read.as_deref()),
            }
        });
        debug_assert!(written.is_ok(), "a step is shorter than a document may be");
        match self.step(connection, work, planned, done).await {
            Ok(()) => Outcome::Acknowledged,
            Err(outcome) => outcome,
        }
    }

    async fn send_together(
        &mut self,
        connection: &mut Connection,
        work: Work<'_>,
        done: &mut Vec<Step>,
    ) -> Outcome {
        let mark = self.session.mark();
        for index in 0..self.planned.len() {
            let planned = self.planned[index];
            let written = self.step.body(|out| {
                write_step(out, work, planned);
                mark.write(out);
                if index == 0 {
                    append::boolean(out, "startTransaction", true);
                    read_concern(out, Some(IN_TRANSACTIONS));
                }
            });
            debug_assert!(written.is_ok(), "a step is shorter than a document may be");
            if let Err(outcome) = self.step(connection, work, planned, done).await {
                self.session.abort(connection).await;
                // Nothing was committed, even if the answer to a step is missing.
                return match outcome {
                    Outcome::Unknown(_) => Outcome::Rejected(Rejection::Other),
                    known => known,
                };
            }
        }
        self.session.commit(connection, work).await
    }

    /// Sends one step and reads its answer.
    ///
    /// # Errors
    /// The outcome of the operation, if the step failed.
    async fn step(
        &mut self,
        connection: &mut Connection,
        work: Work<'_>,
        planned: Planned,
        done: &mut Vec<Step>,
    ) -> Result<(), Outcome> {
        let sent = self.session.call(connection, &mut self.step).await;
        sent.map_err(|error| work.noted(of_write_error(&error), &error))?;
        let body = self.session.reply.body().ok_or(Outcome::Unknown(Doubt::ConnectionLost))?;
        done.push(match planned {
            Planned::Append(list, element) => {
                if let Some((code, message)) = first_write_error(body) {
                    let outcome = outcome(Wire::of_write_error(code));
                    work.note(outcome, || FirstError::new(code, "", message));
                    return Err(outcome);
                }
                if !matches!(body.get("writeConcernError"), Ok(None)) {
                    return Err(Outcome::Unknown(Doubt::WriteConcern));
                }
                Step::Append { list, element }
            }
            Planned::Read(list) => {
                let elements = elements(body, list).ok_or(Outcome::Rejected(Rejection::CorruptedRead))?;
                Step::Read { list, elements }
            }
        });
        Ok(())
    }
}

fn write_step(out: &mut Vec<u8>, work: Work<'_>, planned: Planned) {
    match planned {
        Planned::Append(list, element) => write_append(out, &work.builder.setup, list, element),
        Planned::Read(list) => write_read(out, &work.builder.setup, list),
    }
}
