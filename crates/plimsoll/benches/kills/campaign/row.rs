//! Records the result of one row.

use plimsoll_stores::audit::Report;
use serde::Serialize;

use super::profile::{Profile, Victim, Wanted};

/// The result of one row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The name.
    pub name: &'static str,
    /// The description.
    pub says: &'static str,
    /// The expected result.
    pub wanted: Wanted,
    /// Kills of the engine.
    pub engine_kills: u32,
    /// Kills of the broker.
    pub broker_kills: u32,
    /// Kills of the server.
    pub server_kills: u32,
    /// The number of times that the engine ended by itself and was restarted.
    pub ends: u32,
    /// The findings of the audit.
    pub found: Found,
    /// The reason why the row could not be completed.
    pub trouble: Option<String>,
    /// The duration in seconds.
    pub took_s: u64,
}

/// The findings of an audit. Two keys keep the words of the committed results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Events of the source.
    pub events: u64,
    /// Missing events.
    pub lost: u64,
    /// Copies beyond the first.
    #[serde(rename = "doubled")]
    pub duplicated: u64,
    /// Documents or records without an event in the source.
    #[serde(rename = "strange")]
    pub unexpected: u64,
    /// Partitions with altered payloads.
    pub altered: u64,
    /// Partitions of the source from which the broker lost acknowledged records, or has others in their place.
    pub broker: u64,
}

impl Found {
    /// The sums of an audit.
    pub fn of(report: &Report) -> Self {
        let sum = |of: &dyn Fn(&plimsoll_stores::audit::PartitionReport) -> u64| {
            report.partitions.iter().map(of).sum::<u64>()
        };
        let altered = |one: &plimsoll_stores::audit::PartitionReport| {
            let differ = one.missing == 0 && one.checksum.is_some_and(|sums| sums.expected != sums.found);
            u64::from(differ || one.unreadable > 0)
        };
        Self {
            events: sum(&|one| one.expected),
            lost: report.lost(),
            duplicated: report.doubled(),
            unexpected: sum(&|one| one.strangers) + report.unexpected + report.foreign,
            altered: sum(&altered),
            broker: report.broker.iter().filter(|partition| !partition.holds()).count() as u64,
        }
    }
}

impl Row {
    /// A row without a result.
    pub fn of(profile: &Profile) -> Self {
        Self {
            name: profile.name,
            says: profile.says,
            wanted: profile.wanted,
            engine_kills: 0,
            broker_kills: 0,
            server_kills: 0,
            ends: 0,
            found: Found::default(),
            trouble: None,
            took_s: 0,
        }
    }

    /// Counts a kill.
    pub fn count(&mut self, victim: Victim) {
        *match victim {
            Victim::Engine => &mut self.engine_kills,
            Victim::Broker => &mut self.broker_kills,
            Victim::Server => &mut self.server_kills,
        } += 1;
    }

    /// All kills.
    pub fn kills(&self) -> u32 {
        self.engine_kills + self.broker_kills + self.server_kills
    }

    /// Whether a missing guard was noticed.
    pub fn is_noticed(&self) -> bool {
        match self.wanted {
            Wanted::Loss => self.found.lost > 0,
            Wanted::Copies => self.found.duplicated > 0,
            Wanted::Once | Wanted::AtLeastOnce => false,
        }
    }

    /// Whether the result is the expected one. A source without events proves nothing.
    pub fn holds(&self) -> bool {
        let Found { events, lost, duplicated, unexpected, altered, broker } = self.found;
        let intact = (lost, unexpected, altered) == (0, 0, 0);
        let as_expected = match self.wanted {
            Wanted::Once => intact && duplicated == 0,
            Wanted::AtLeastOnce => intact,
            Wanted::Loss => self.is_noticed(),
            // A row that does not recognise repeated events must still lose nothing.
            Wanted::Copies => self.is_noticed() && intact,
        };
        // Without this check of the broker, a fault of the broker could pass for the loss that a missing guard must cause.
        as_expected && broker == 0 && events > 0 && self.kills() > 0 && self.trouble.is_none()
    }
}
