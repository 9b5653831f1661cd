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

/// The state of the network. A reader may miss a state that the next state replaces at once, so forced ends
/// of connections are also counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Disturbances {
    /// Disturbances in the order in which they began, each with its number.
    lasting: Vec<(u64, Disturbance)>,
    begun: u64,
    forced_ends: u64,
    last: Option<ForcedEnd>,
    pub(super) closing: bool,
}

impl Disturbances {
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
    pub(super) fn end_all(&mut self) {
        self.lasting.clear();
    }

    /// The forced end of new connections: that of the newest cut or reset in force.
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

/// Receives the disturbances of one connection.
#[derive(Debug)]
pub(super) struct DisturbanceReceiver {
    disturbances: watch::Receiver<Disturbances>,
    /// The number of forced ends before the connection opened.
    forced_ends_before: u64,
}

impl DisturbanceReceiver {
    pub(super) fn new(disturbances: watch::Receiver<Disturbances>) -> Self {
        let forced_ends_before = disturbances.borrow().forced_ends;
        DisturbanceReceiver { disturbances, forced_ends_before }
    }

    /// The disturbances in force, or the forced end of this connection.
    pub(super) fn current(&mut self) -> Result<Vec<Disturbance>, ForcedEnd> {
        let disturbances = self.disturbances.borrow_and_update();
        let missed = disturbances.last.filter(|_| disturbances.forced_ends > self.forced_ends_before);
        match disturbances.standing().or(missed) {
            Some(forced_end) => Err(forced_end),
            None => Ok(disturbances.lasting.iter().map(|(_, disturbance)| *disturbance).collect()),
        }
    }

    /// Waits for a new state.
    pub(super) async fn changed(&mut self) {
        // The proxy publishes its end before it closes the channel; after a closed channel nothing follows.
        if self.disturbances.changed().await.is_err() {
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
        let (disturbances, receiver) = watch::channel(Disturbances::default());
        let mut early = DisturbanceReceiver::new(receiver.clone());
        assert_eq!(early.current(), Ok(Vec::new()));
        disturbances.send_modify(|disturbances| assert!(disturbances.begin(Disturbance::Reset).is_some()));
        let mut meanwhile = DisturbanceReceiver::new(receiver.clone());
        assert_eq!(meanwhile.current(), Err(ForcedEnd::Reset));
        disturbances.send_modify(Disturbances::end_all);
        assert_eq!(early.current(), Err(ForcedEnd::Reset));
        assert_eq!(DisturbanceReceiver::new(receiver).current(), Ok(Vec::new()));
    }

    #[test]
    fn the_end_of_one_disturbance_leaves_the_others_in_force() {
        let mut disturbances = Disturbances::default();
        let [cut, stall, reset] = [Disturbance::Cut, Disturbance::Stall, Disturbance::Reset]
            .map(|disturbance| disturbances.begin(disturbance).unwrap());
        assert_eq!(disturbances.standing(), Some(ForcedEnd::Reset), "the one that began last");
        disturbances.end(reset);
        disturbances.end(reset);
        assert_eq!(disturbances.standing(), Some(ForcedEnd::Cut));
        disturbances.end(cut);
        assert_eq!(disturbances.standing(), None);
        assert_eq!(disturbances.lasting, [(stall, Disturbance::Stall)]);
    }

    #[test]
    fn no_more_disturbances_last_than_the_limit() {
        let mut disturbances = Disturbances::default();
        let begun = (0..2 * DISTURBANCES_MAX).filter_map(|_| disturbances.begin(Disturbance::Stall)).count();
        assert_eq!(begun, DISTURBANCES_MAX);
    }
}
