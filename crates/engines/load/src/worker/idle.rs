//! Lets an idle lane wait: for the due time of its operation, or for a call to send an overdue one instead.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use plimsoll_measure::clock::Instant;

use super::writer::Writer;
use super::{CHECK_NS, WorkerShared};
use crate::operation_queue::{Call, Slot};
use crate::runtime::Runtime;
use crate::target::Target;

/// The end of an idle lane's wait.
pub(super) enum Waited {
    /// Its operation is due.
    Due {
        /// The due time.
        due: Instant,
        /// The moment when the lane or the pacer noticed.
        awake: Instant,
        /// Now: the lane sends at once.
        sent: Instant,
    },
    /// An overdue operation comes first.
    Called(Slot),
    /// No operation comes any more.
    Stopped,
}

impl<R: Runtime, T: Target> WorkerShared<R, T> {
    /// Waits until a lane's operation is due, unless an overdue one comes first or the phase is stopped.
    pub(super) async fn wait_for(&self, writer: &mut Writer, slot: &Slot) -> Waited {
        let sent = self.runtime.now();
        match (slot.due, slot.awake) {
            (None, _) => {
                let due = writer.take_due().unwrap_or(sent);
                Waited::Due { due, awake: due, sent }
            }
            (Some(due), Some(awake)) => Waited::Due { due, awake, sent },
            (Some(due), None) if sent >= due => Waited::Due { due, awake: sent, sent },
            (Some(due), None) => self.rest(writer, Some(due)).await,
        }
    }

    /// Waits for an overdue operation of another worker; none if none comes any more.
    pub(super) async fn borrow(&self, writer: &Writer) -> Option<Slot> {
        if self.is_halted() {
            return None;
        }
        match self.rest(writer, None).await {
            Waited::Called(slot) => Some(slot),
            Waited::Due { .. } | Waited::Stopped => None,
        }
    }

    /// Waits until `due`. Without `due`, waits while any operation of the load may become overdue.
    async fn rest(&self, writer: &Writer, due: Option<Instant>) -> Waited {
        let (backlog, call) = (self.order.backlogs.of(writer.load), &writer.call);
        let mut registered = self.register_idle(writer).await;
        let waited = loop {
            if let Some(slot) = self.take_overdue(writer.load) {
                break Waited::Called(slot);
            }
            let now = self.runtime.now();
            if let Some(due) = due.filter(|due| now >= *due) {
                break Waited::Due { due, awake: now, sent: now };
            }
            if due.is_none() && !(registered && backlog.is_scheduling()) {
                break Waited::Stopped;
            }
            let check = now + CHECK_NS;
            self.until_or_called(due.map_or(check, |due| due.min(check)), call).await;
            if self.is_halted() {
                break Waited::Stopped;
            }
            if call.answer() {
                registered = self.register_idle(writer).await;
                if !registered {
                    backlog.pass_on(self.index);
                }
            }
        };
        if registered {
            backlog.deregister(self.index, call);
        }
        waited
    }

    async fn register_idle(&self, writer: &Writer) -> bool {
        let backlog = self.order.backlogs.of(writer.load);
        poll_fn(|context| Poll::Ready(backlog.register(self.index, &writer.call, context.waker()))).await
    }

    async fn until_or_called(&self, at: Instant, call: &Call) {
        let mut until = pin!(self.runtime.until(at));
        poll_fn(|context| if call.is_made() { Poll::Ready(()) } else { until.as_mut().poll(context) }).await;
    }
}
