//! What the proxy tells its connections.

use tokio::sync::watch;

use super::Disturbance;

/// How a connection ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// With a FIN to both sides.
    Cut,
    /// With an RST to both sides.
    Reset,
}

/// The state of the network. A reader may miss a state that another follows at once, so an order to end all connections
/// is also kept as a count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Orders {
    disturbance: Option<Disturbance>,
    verdicts: u64,
    last: Option<Verdict>,
    pub(super) closing: bool,
}

impl Orders {
    pub(super) fn give(&mut self, disturbance: Option<Disturbance>) {
        self.disturbance = disturbance;
        if let Some(verdict) = self.standing() {
            self.verdicts += 1;
            self.last = Some(verdict);
        }
    }

    /// The verdict on whoever comes now.
    fn standing(&self) -> Option<Verdict> {
        match self.disturbance? {
            Disturbance::Cut => Some(Verdict::Cut),
            Disturbance::Reset => Some(Verdict::Reset),
            _ => None,
        }
    }
}

/// The orders as one connection hears them.
#[derive(Debug)]
pub(super) struct Ear {
    orders: watch::Receiver<Orders>,
    /// How many verdicts had been passed when the connection came.
    verdicts_before: u64,
}

impl Ear {
    pub(super) fn new(orders: watch::Receiver<Orders>) -> Self {
        let verdicts_before = orders.borrow().verdicts;
        Ear { orders, verdicts_before }
    }

    /// The disturbance in force, or the verdict on this connection.
    pub(super) fn listen(&mut self) -> Result<Option<Disturbance>, Verdict> {
        let orders = *self.orders.borrow_and_update();
        let missed = orders.last.filter(|_| orders.verdicts > self.verdicts_before);
        orders.standing().or(missed).map_or(Ok(orders.disturbance), Err)
    }

    /// Waits until there is something new to hear.
    pub(super) async fn news(&mut self) {
        // The proxy says goodbye before it goes; if it could not, there is nothing more to hear.
        if self.orders.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits for a verdict.
    pub(super) async fn verdict(&mut self) -> Verdict {
        loop {
            match self.listen() {
                Ok(_) => self.news().await,
                Err(verdict) => return verdict,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_heard_by_those_who_were_there_though_the_network_is_calm_again() {
        let (orders, receiver) = watch::channel(Orders::default());
        let mut early = Ear::new(receiver.clone());
        assert_eq!(early.listen(), Ok(None));
        orders.send_modify(|orders| orders.give(Some(Disturbance::Reset)));
        let mut meanwhile = Ear::new(receiver.clone());
        assert_eq!(meanwhile.listen(), Err(Verdict::Reset));
        orders.send_modify(|orders| orders.give(None));
        assert_eq!(early.listen(), Err(Verdict::Reset));
        assert_eq!(Ear::new(receiver).listen(), Ok(None));
    }
}
