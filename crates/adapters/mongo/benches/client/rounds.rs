//! Measures all clients in turn.

use crate::Failure;
use crate::client::Client;
use crate::place::Testbed;
use crate::process::Process;
use crate::workload::{Cost, Order, Workload};

/// The size of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The number of values behind each median.
    pub(crate) rounds: u32,
    /// The number of slices of each client in a round.
    pub(crate) slices: u32,
    /// Commands of one document per slice.
    pub(crate) singles: u32,
    /// Commands of a thousand documents per slice.
    pub(crate) batches: u32,
}

/// The cost of one round for each client, in the order of [`Client::ALL`].
pub(crate) type Round = [Cost; Client::ALL.len()];

/// The rounds of a workload.
pub(crate) struct Measured {
    /// The selected workload.
    pub(crate) workload: Workload,
    /// Commands per round and client.
    pub(crate) commands: u32,
    /// One value per round.
    pub(crate) rounds: Vec<Round>,
}

impl Plan {
    /// The full measurement, which takes about a minute.
    pub(crate) const FULL: Plan = Plan { rounds: 5, slices: 20, singles: 500, batches: 5 };
    /// A small measurement, which only shows that everything still runs.
    pub(crate) const SMALL: Plan = Plan { rounds: 1, slices: 1, singles: 20, batches: 2 };

    fn order(&self, workload: Workload) -> Order {
        let commands = match workload {
            Workload::Single => self.singles,
            Workload::Batch => self.batches,
        };
        Order { commands, documents: workload.documents() }
    }
}

/// Measures every workload in a database that must be empty before and is dropped afterwards.
pub(crate) fn run(plan: &Plan, place: &Testbed) -> Result<Vec<Measured>, Failure> {
    place.clear()?;
    let mut processes = Vec::new();
    for client in Client::ALL {
        processes.push(Process::start(client, &place.address)?);
    }
    let mut measured = Vec::new();
    for workload in Workload::ALL {
        measured.push(rounds(plan, workload, &mut processes)?);
    }
    drop(processes);
    place.clear()?;
    Ok(measured)
}

fn rounds(plan: &Plan, workload: Workload, processes: &mut [Process]) -> Result<Measured, Failure> {
    let order = plan.order(workload);
    let mut rounds = Vec::new();
    // Warm-up: buffers grow, connections open and Python specialises its code in a slice that does not count.
    slice(order, 0, processes, &mut Round::default())?;
    for number in 1..=plan.rounds {
        eprintln!("{}: round {number} of {}", workload.name(), plan.rounds);
        let mut round = Round::default();
        for turn in 0..plan.slices {
            slice(order, turn as usize, processes, &mut round)?;
        }
        rounds.push(round);
    }
    Ok(Measured { workload, commands: order.commands * plan.slices, rounds })
}

/// One turn for each client; each slice starts with another client.
fn slice(order: Order, turn: usize, processes: &mut [Process], round: &mut Round) -> Result<(), Failure> {
    for place in 0..processes.len() {
        let client = (turn + place) % processes.len();
        let cost = processes[client].ask(order)?;
        round[client].cpu_ns += cost.cpu_ns;
        round[client].wall_ns += cost.wall_ns;
    }
    Ok(())
}
