//! Defines the workloads of the clients, and their costs.

use std::str::FromStr;

use crate::Failure;

/// A way to insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// One document per command.
    Single,
    /// A thousand documents per command.
    Batch,
}

impl Workload {
    /// All workloads, in the order of the tables.
    pub(crate) const ALL: [Workload; 2] = [Workload::Single, Workload::Batch];

    /// The number of documents in a command.
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
    /// The number of insert commands.
    pub(crate) commands: u32,
    /// The number of documents in each command.
    pub(crate) documents: u32,
}

/// The cost of an order; as text, `CPU_NS WALL_NS`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// CPU time of the client's process, user and system.
    pub(crate) cpu_ns: u64,
    /// Elapsed time.
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
