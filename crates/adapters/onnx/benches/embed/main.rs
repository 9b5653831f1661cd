//! Measures sentences a second on one thread: Plimsoll, Python and candle, for each model, at 16, 32 and 128
//! tokens and for real sentences.
//!
//! Goal: at least 1.5 times Python's ONNX Runtime with the same int8 file, by elapsed and by CPU time.
//! Non-goals: several threads, other models. Every round measures every subject once, in a different order,
//! so that disturbances of the machine affect all alike. The texts follow from a fixed seed. Each peer gets
//! batches of its fastest size.
//!
//! Without `--bench` it is a test: few texts, one round, no peers.

mod arguments;
mod goals;
mod header;
mod ours;
mod peer;
mod quality;
mod subject;
mod table;
mod workload;

use std::error::Error;
use std::process::ExitCode;

use arguments::Arguments;
use subject::Subject;
use table::Table;
use workload::Workload;

/// Any failure ends the program with its message.
type Failure = Box<dyn Error>;

/// The texts of a workload in a test.
const FEW: usize = 4;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let arguments = Arguments::read()?;
    let mut workloads = workload::all();
    if arguments.is_test {
        goals::check()?;
        workloads.iter_mut().for_each(|workload| workload.keep(FEW));
    }
    let mut subjects = subject::all(&arguments)?;
    header::print(&arguments, &mut subjects)?;
    if let (Some(sentences), Some(exact)) = (workloads.last_mut(), subjects.last_mut()) {
        let tokens = exact.tokens(sentences)?;
        sentences.add_token_count(tokens);
    }
    let table = measure(&arguments, &mut subjects, &workloads)?;
    println!("{table}");
    goals::print(&table);
    quality::print(&mut subjects, &workloads)
}

fn measure(
    arguments: &Arguments,
    subjects: &mut [Subject],
    workloads: &[Workload],
) -> Result<Table, Failure> {
    let labels = subjects.iter().map(|subject| subject.label).collect();
    let mut table = Table::new(labels, workloads);
    for round in 0..arguments.rounds {
        eprintln!("round {} of {}", round + 1, arguments.rounds);
        for (column, workload) in workloads.iter().enumerate() {
            for place in 0..subjects.len() {
                let row = subject_at(round, place, subjects.len());
                table.add(row, column, subjects[row].measure(workload, arguments.seconds)?);
            }
        }
    }
    Ok(table)
}

/// Selects the subject for a position of a round: each round begins with another subject, and every other
/// round runs backwards.
fn subject_at(round: usize, place: usize, subjects: usize) -> usize {
    let first = round % subjects;
    if round.is_multiple_of(2) { (first + place) % subjects } else { (first + subjects - place) % subjects }
}
