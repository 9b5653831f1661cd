//! What holds the rate back: everything that departs from its own baseline at the knee, with the evidence.
//!
//! Each suspect is a pure function of the baseline, the lowest rate that held, and the knee, the lowest rate that failed. It
//! says that it departed, that it did not, or that it could not be looked at: what a server does not report is never
//! taken for innocent.

pub mod alone;
mod cache;
mod checkpoint;
mod client;
mod disk;
mod flow_control;
mod journal;
mod reading;
mod replication;
mod server_cpu;
mod side;
mod tickets;

use plimsoll_measure::line::{NotSeen, Reading, Suspect};

use reading::evidence;
pub use side::{SecondOfService, Side};

/// A baseline is departed from when a value grows by this factor: what merely follows the rate grows less from a rate that
/// holds to the knee, and what is scarce grows more.
const DEPARTURE: f64 = 3.0;
/// A value that reaches its limit must also have grown by this factor: one that is as high at the baseline, where the
/// objective holds, does not hold the rate back.
const RISE: f64 = 1.1;

/// What else ran on the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Cores that the server could use.
    pub cores: u32,
    /// Worker threads of ours.
    pub workers: u32,
}

/// Every suspect, in exactly one of three lists, each in order from the client to the disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examined {
    /// What departed from its baseline.
    pub held_back_by: Vec<Suspect>,
    /// What did not.
    pub unmoved: Vec<Suspect>,
    /// What could not be looked at.
    pub not_seen: Vec<NotSeen>,
}

/// What was seen of a suspect.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    departed: bool,
    readings: Vec<Reading>,
}

/// Why a suspect could not be looked at.
type Unseen = &'static str;

/// The server leaves it out of `serverStatus`.
const NOT_REPORTED: Unseen = "not reported";
/// The operating system tells it of processes on this machine only, and only to users who may see them.
const NOT_LOCAL: Unseen = "not reported: it can be seen only where the server runs on this machine";
/// The server was asked too seldom, or did not answer.
const TOO_FEW_LOOKS: Unseen = "fewer than two looks at the server fell into the window";

/// Looks at one suspect.
type Look = fn(&Side, &Side, Machine) -> Result<Seen, Unseen>;

/// From the client to the disk: of several that departed, an earlier one leaves the later ones less to do.
const SUSPECTS: [(&str, Look); 11] = [
    ("client CPU", client::cpu),
    ("wake", client::wake),
    ("connections", client::connections),
    ("server CPU", server_cpu::look),
    ("WiredTiger cache", cache::look),
    ("tickets", tickets::look),
    ("checkpoint", checkpoint::look),
    ("journal sync", journal::look),
    ("flow control", flow_control::look),
    ("replication lag", replication::look),
    ("disk", disk::look),
];

/// Looks at every suspect. `baseline` is a rate well below the knee that held, `knee` the lowest rate that failed.
pub fn examine(baseline: &Side, knee: &Side, machine: Machine) -> Examined {
    let mut examined = Examined::default();
    for (name, look) in SUSPECTS {
        match look(baseline, knee, machine) {
            Err(reason) => {
                examined.not_seen.push(NotSeen { name: name.to_owned(), reason: reason.to_owned() });
            }
            Ok(Seen { departed, readings }) => {
                let evidence = evidence(&readings, baseline.probe.rate);
                let suspect = Suspect { name: name.to_owned(), evidence, readings };
                if departed { examined.held_back_by.push(suspect) } else { examined.unmoved.push(suspect) }
            }
        }
    }
    examined
}

/// Whether a value departed: it is at or over `limit`, and either was under it and rose, or grew by [`DEPARTURE`].
fn departs(before: f64, at: f64, limit: f64) -> bool {
    at >= limit && (before < limit && at >= before * RISE || at >= before * DEPARTURE)
}

#[cfg(test)]
mod tests;
