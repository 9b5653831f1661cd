//! Measures all tools in turn.

use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;

use plimsoll_http::null::{Options, Server};
use plimsoll_measure::clock;

use crate::Failure;
use crate::arguments::Plan;
use crate::cpu;
use crate::tool::Tool;

/// The measurements.
pub(crate) struct Measured {
    /// The installed tools, in the order of [`Tool::ALL`].
    pub rows: Vec<Row>,
    /// The missing tools.
    pub absent: Vec<Tool>,
}

/// The rounds of one tool.
pub(crate) struct Row {
    pub tool: Tool,
    pub version: String,
    program: PathBuf,
    pub costs: Vec<Cost>,
}

/// The cost of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub requests: u64,
    pub cpu_ns: u64,
    pub wall_ns: u64,
}

/// The largest number of requests in flight when a tool stops counting: one on each connection, and a margin.
const UNCOUNTED_MAX: u64 = 200;

/// Measures the installed tools.
pub(crate) fn run(plan: &Plan) -> Result<Measured, Failure> {
    let wanted = Tool::ALL.into_iter().filter(|tool| plan.others || *tool == Tool::Plimsoll);
    let found: Vec<_> = wanted.map(|tool| (tool, tool.program(&plan.tools))).collect();
    let absent = found.iter().filter(|(_, program)| program.is_none()).map(|(tool, _)| *tool).collect();
    let row = |(tool, program): (Tool, Option<PathBuf>)| {
        let program = program?;
        Some(Row { tool, version: tool.version(&program), program, costs: Vec::new() })
    };
    let mut rows: Vec<Row> = found.into_iter().filter_map(row).collect();
    let count = rows.len();
    for round in 0..plan.rounds {
        for place in 0..count {
            let row = &mut rows[(round + place) % count];
            eprintln!("round {} of {}: {}", round + 1, plan.rounds, row.tool.name());
            let cost = measure(row, plan.millis).map_err(|error| format!("{}: {error}", row.tool.name()))?;
            row.costs.push(cost);
        }
    }
    Ok(Measured { rows, absent })
}

fn measure(row: &Row, millis: u64) -> Result<Cost, Failure> {
    let server = Server::start(&Options::default())?;
    let scratch = tempfile::tempdir()?;
    let mut command = row.tool.command(&row.program, server.address(), millis, scratch.path())?;
    let wall = clock::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut output = String::new();
    child.stdout.take().ok_or("it has no output")?.read_to_string(&mut output)?;
    let cpu_ns = cpu::of(&mut child)?;
    let wall_ns = clock::now().since(wall);
    let requests = row.tool.requests(&output, scratch.path())?;
    let arrived = server.answered();
    if requests == 0 || arrived < requests || arrived > requests + UNCOUNTED_MAX {
        return Err(format!("it reports {requests} requests, and {arrived} arrived").into());
    }
    Ok(Cost { requests, cpu_ns, wall_ns })
}
