//! Defines the workloads of the clients, and their costs.

use std::str::FromStr;

use crate::Failure;

/// One of the ways to insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// One document a command.
    Single,
    /// A thousand documents a command.
    Batch,
}

impl Workload {
    /// All of them, in the order of the tables.
    pub(crate) const ALL: [Workload; 2] = [Workload::Single, Workload::Batch];

    /// How many documents a command carries.
    pub(crate) fn documents(self) -> u32 {
        match self {
            Workload::Single => 1,
            Workload::Batch => 1000,
        }
    }

    /// The name for reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Single => "single",
            Workload::Batch => "batch",
        }
    }
}

/// An order to a client; as text, `COMMANDS DOCUMENTS`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// How many insert commands.
    pub(crate) commands: u32,
    /// How many documents each of them carries.
    pub(crate) documents: u32,
}

/// The cost of an order; as text, `CPU_NS WALL_NS`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// CPU time of the client's process, user and system.
    pub(crate) cpu_ns: u64,
    /// Time that went by.
    pub(crate) wall_ns: u64,
}

impl FromStr for Order {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        let (commands, documents) = two(line)?;
        Ok(Order { commands: commands.try_into()?, documents: documents.try_into()? })
    }
}

impl FromStr for Cost {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        let (cpu_ns, wall_ns) = two(line)?;
        Ok(Cost { cpu_ns, wall_ns })
    }
}

fn two(line: &str) -> Result<(u64, u64), Failure> {
    let (one, other) =
        line.trim().split_once(' ').ok_or_else(|| format!("expected two numbers, got {line:?}"))?;
    Ok((one.parse()?, other.parse()?))
}
