//! Prints the conditions of the figures.

use std::fs;
use std::thread;

use crate::Failure;
use crate::arguments::Arguments;
use crate::subject::Subject;

/// Prints the machine, all versions, and the number and length of the rounds.
pub(crate) fn print(arguments: &Arguments, subjects: &mut [Subject]) -> Result<(), Failure> {
    let cores = thread::available_parallelism()?;
    println!("machine   {}, {cores} cores", cpu().unwrap_or_else(|| "an unknown CPU".to_owned()));
    let build = if cfg!(debug_assertions) { "; NOT optimised" } else { "" };
    println!("plimsoll  {} with the ONNX Runtime of the installed model{build}", env!("CARGO_PKG_VERSION"));
    let mut others = subjects.iter_mut().map(Subject::versions).collect::<Result<Vec<_>, _>>()?;
    others.dedup();
    others.into_iter().flatten().for_each(|versions| println!("others    {versions}"));
    if arguments.python.is_none() {
        println!("others    none: no Python was given (`cargo xtask bench embed --install`)");
    }
    println!("rounds    {}, {} s each, one thread each\n", arguments.rounds, arguments.seconds);
    Ok(())
}

/// The name of the CPU, if the system reports it.
fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
