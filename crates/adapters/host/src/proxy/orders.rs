//! Publishes the current disturbances to the connections of a proxy.

use tokio::sync::watch;

use super::{DISTURBANCES_MAX, Disturbance};

/// The forced end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForcedEnd {
    /// Ends with a FIN to both sides.
    Cut,
    /// Ends with an RST to both sides.
    Reset,
}

/// The state of the network. A reader may miss a state that another one replaces at once, so orders to end
/// all connections are also counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    /// Disturbances in the order in which they began, each with its number.
    lasting: Vec<(u64, Disturbance)>,
    begun: u64,
    forced_ends: u64,
    last: Option<ForcedEnd>,
    pub(super) closing: bool,
}

impl Orders {
    /// Begins a disturbance and returns its number; none at the limit.
    pub(super) fn begin(&mut self, disturbance: Disturbance) -> Option<u64> {
        if self.lasting.len() >= DISTURBANCES_MAX {
            return None;
        }
        self.begun += 1;
        self.lasting.push((self.begun, disturbance));
        if let Some(forced_end) = forced_end(disturbance) {
            self.forced_ends += 1;
            self.last = Some(forced_end);
        }
        Some(self.begun)
    }

    /// Ends the disturbance with this number.
    pub(super) fn end(&mut self, number: u64) {
        self.lasting.retain(|(known, _)| *known != number);
    }

    /// Ends all disturbances.
    pub(super) fn end_disturbances(&mut self) {
        self.lasting.clear();
    }

    /// The forced end of new connections: that of the newest cut or reset.
    fn standing(&self) -> Option<ForcedEnd> {
        self.lasting.iter().rev().find_map(|(_, disturbance)| forced_end(*disturbance))
    }
}

const fn forced_end(disturbance: Disturbance) -> Option<ForcedEnd> {
    match disturbance {
        Disturbance::Cut => Some(ForcedEnd::Cut),
        Disturbance::Reset => Some(ForcedEnd::Reset),
        _ => None,
    }
}

/// Receives the orders for one connection.
#[derive(Debug)]
pub(super) struct OrderReceiver {
    orders: watch::Receiver<Orders>,
    /// The number of forced ends before the connection opened.
    forced_ends_before: u64,
}

impl OrderReceiver {
    pub(super) fn new(orders: watch::Receiver<Orders>) -> Self {
        let forced_ends_before = orders.borrow().forced_ends;
        OrderReceiver { orders, forced_ends_before }
    }

    /// The disturbances in force, or the forced end of this connection.
    pub(super) fn current(&mut self) -> Result<Vec<Disturbance>, ForcedEnd> {
        let orders = self.orders.borrow_and_update();
        let missed = orders.last.filter(|_| orders.forced_ends > self.forced_ends_before);
        match orders.standing().or(missed) {
            Some(forced_end) => Err(forced_end),
            None => Ok(orders.lasting.iter().map(|(_, disturbance)| *disturbance).collect()),
        }
    }

    /// Waits for a new state.
    pub(super) async fn changed(&mut self) {
        // The proxy publishes its end before it closes the channel; after a closed channel nothing follows.
        if self.orders.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits for a forced end.
    pub(super) async fn forced_end(&mut self) -> ForcedEnd {
        loop {
            match self.current() {
                Ok(_) => self.changed().await,
                Err(forced_end) => return forced_end,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_connections_receive_a_reset_that_has_already_ended() {
        let (orders, receiver) = watch::channel(Orders::default());
        let mut early = OrderReceiver::new(receiver.clone());
        assert_eq!(early.current(), Ok(Vec::new()));
        orders.send_modify(|orders| assert!(orders.begin(Disturbance::Reset).is_some()));
        let mut meanwhile = OrderReceiver::new(receiver.clone());
        assert_eq!(meanwhile.current(), Err(ForcedEnd::Reset));
        orders.send_modify(Orders::end_disturbances);
        assert_eq!(early.current(), Err(ForcedEnd::Reset));
        assert_eq!(OrderReceiver::new(receiver).current(), Ok(Vec::new()));
    }

    #[test]
    fn the_end_of_one_disturbance_leaves_the_others_in_force() {
        let mut orders = Orders::default();
        let [cut, stall, reset] = [Disturbance::Cut, Disturbance::Stall, Disturbance::Reset]
            .map(|disturbance| orders.begin(disturbance).unwrap());
        assert_eq!(orders.standing(), Some(ForcedEnd::Reset), "the one that began last");
        orders.end(reset);
        orders.end(reset);
        assert_eq!(orders.standing(), Some(ForcedEnd::Cut));
        orders.end(cut);
        assert_eq!(orders.standing(), None);
        assert_eq!(orders.lasting, [(stall, Disturbance::Stall)]);
    }

    #[test]
    fn no_more_disturbances_last_than_the_limit() {
        let mut orders = Orders::default();
        let begun = (0..2 * DISTURBANCES_MAX).filter_map(|_| orders.begin(Disturbance::Stall)).count();
        assert_eq!(begun, DISTURBANCES_MAX);
    }
}
