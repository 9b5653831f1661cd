//! Publishes the current disturbances to the connections of a proxy.

use tokio::sync::watch;

use super::{Disturbance, LASTING_MAX};

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
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    /// What lasts, in the order it began, each with a number of its own.
    lasting: Vec<(u64, Disturbance)>,
    begun: u64,
    verdicts: u64,
    last: Option<Verdict>,
    pub(super) closing: bool,
}

impl Orders {
    /// From now on this lasts as well; nothing if so many do already.
    pub(super) fn begin(&mut self, disturbance: Disturbance) -> Option<u64> {
        if self.lasting.len() >= LASTING_MAX {
            return None;
        }
        self.begun += 1;
        self.lasting.push((self.begun, disturbance));
        if let Some(verdict) = verdict(disturbance) {
            self.verdicts += 1;
            self.last = Some(verdict);
        }
        Some(self.begun)
    }

    /// The disturbance of this number is over; the others go on.
    pub(super) fn end(&mut self, number: u64) {
        self.lasting.retain(|(known, _)| *known != number);
    }

    /// All are over.
    pub(super) fn calm(&mut self) {
        self.lasting.clear();
    }

    /// The verdict on whoever comes now: that which was passed last of those that last.
    fn standing(&self) -> Option<Verdict> {
        self.lasting.iter().rev().find_map(|(_, disturbance)| verdict(*disturbance))
    }
}

const fn verdict(disturbance: Disturbance) -> Option<Verdict> {
    match disturbance {
        Disturbance::Cut => Some(Verdict::Cut),
        Disturbance::Reset => Some(Verdict::Reset),
        _ => None,
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

    /// The disturbances in force, or the verdict on this connection.
    pub(super) fn listen(&mut self) -> Result<Vec<Disturbance>, Verdict> {
        let orders = self.orders.borrow_and_update();
        let missed = orders.last.filter(|_| orders.verdicts > self.verdicts_before);
        match orders.standing().or(missed) {
            Some(verdict) => Err(verdict),
            None => Ok(orders.lasting.iter().map(|(_, disturbance)| *disturbance).collect()),
        }
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
        assert_eq!(early.listen(), Ok(Vec::new()));
        orders.send_modify(|orders| assert!(orders.begin(Disturbance::Reset).is_some()));
        let mut meanwhile = Ear::new(receiver.clone());
        assert_eq!(meanwhile.listen(), Err(Verdict::Reset));
        orders.send_modify(Orders::calm);
        assert_eq!(early.listen(), Err(Verdict::Reset));
        assert_eq!(Ear::new(receiver).listen(), Ok(Vec::new()));
    }

    #[test]
    fn the_end_of_one_disturbance_leaves_the_others_in_force() {
        let mut orders = Orders::default();
        let [cut, stall, reset] = [Disturbance::Cut, Disturbance::Stall, Disturbance::Reset]
            .map(|disturbance| orders.begin(disturbance).unwrap());
        assert_eq!(orders.standing(), Some(Verdict::Reset), "the one that began last");
        orders.end(reset);
        orders.end(reset);
        assert_eq!(orders.standing(), Some(Verdict::Cut));
        orders.end(cut);
        assert_eq!(orders.standing(), None);
        assert_eq!(orders.lasting, [(stall, Disturbance::Stall)]);
    }

    #[test]
    fn no_more_disturbances_last_than_the_limit() {
        let mut orders = Orders::default();
        let begun = (0..2 * LASTING_MAX).filter_map(|_| orders.begin(Disturbance::Stall)).count();
        assert_eq!(begun, LASTING_MAX);
    }
}
