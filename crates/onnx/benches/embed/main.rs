//! Sentences a second on one thread: ours and Python's, for each model, at 16, 32 and 128 tokens and for real sentences.
//!
//! Goal: at least 1.5 times what Python's ONNX Runtime does with the int8 model that is published for it. Non-goals: several
//! threads, other models. Every round measures everything once, in turns, so that what the machine does besides hits all
//! alike; the texts are made from a fixed seed.

mod choice;
mod peer;
mod quality;
mod table;
mod workload;

use std::error::Error;
use std::process::ExitCode;

use plimsoll_measure::clock;
use plimsoll_onnx::{Embedder, Files, Limits, Model, Precision, Settings};

use choice::Choice;
use peer::Peer;
use table::Table;
use workload::Workload;

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// By the clock.
    per_s: f64,
    /// By the CPU time that the process used.
    per_cpu_s: f64,
}

/// Who embeds.
enum Subject {
    Ours(Box<Embedder>),
    Python(Peer),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let choice = Choice::read()?;
    let mut subjects = subjects(&choice)?;
    let workloads = workload::all();
    let mut table = Table::new(subjects.iter().map(|(name, _)| name.clone()).collect(), &workloads);
    for round in 1..=choice.rounds {
        eprintln!("round {round} of {}", choice.rounds);
        for (column, workload) in workloads.iter().enumerate() {
            for (row, (_, subject)) in subjects.iter_mut().enumerate() {
                table.add(row, column, measure(subject, workload, choice.seconds)?);
            }
        }
    }
    println!("{table}");
    quality::print(&mut subjects, &workloads)
}

/// The baseline first: the published int8 model in Python.
fn subjects(choice: &Choice) -> Result<Vec<(String, Subject)>, Box<dyn Error>> {
    let installed = |precision| Model::Installed { cache: choice.cache.clone(), precision }.files();
    let (exact, fast) = (installed(Precision::Fp32)?, installed(Precision::Int8)?);
    let mut subjects = Vec::new();
    if let Some(python) = &choice.python {
        let published = Files { model: peer::published(python)?, ..fast.clone() };
        for (name, files) in [("published int8", &published), ("our int8", &fast), ("our fp32", &exact)] {
            subjects.push((format!("Python, {name}"), Subject::Python(Peer::start(python, files)?)));
        }
        subjects.push(("Plimsoll, published int8".into(), ours(&published, Limits::default())?));
    }
    let alone = Limits { batch_tokens_max: 1, ..Limits::default() };
    for (name, files) in [("int8", &fast), ("fp32", &exact)] {
        subjects.push((format!("Plimsoll, our {name}"), ours(files, Limits::default())?));
        subjects.push((format!("Plimsoll, our {name} alone"), ours(files, alone)?));
    }
    Ok(subjects)
}

/// With limits that let texts of one length share a batch, or none.
fn ours(files: &Files, limits: Limits) -> Result<Subject, Box<dyn Error>> {
    let settings = Settings { model: Model::Files(files.clone()), limits };
    Ok(Subject::Ours(Box::new(Embedder::load(&settings)?)))
}

fn measure(subject: &mut Subject, workload: &Workload, seconds: f64) -> Result<Rate, Box<dyn Error>> {
    let embedder = match subject {
        Subject::Python(peer) => return peer.measure(workload, seconds),
        Subject::Ours(embedder) => embedder,
    };
    let (texts, mut vectors) = (workload.texts(), Vec::new());
    embedder.embed(&texts, &mut vectors)?;
    let (start, cpu) = (clock::now(), clock::process_cpu_ns());
    let mut sentences = 0.0;
    loop {
        embedder.embed(&texts, &mut vectors)?;
        sentences += texts.len() as f64;
        let (elapsed, used) =
            (clock::now().since(start) as f64 / 1e9, (clock::process_cpu_ns() - cpu) as f64 / 1e9);
        if elapsed >= seconds {
            return Ok(Rate { per_s: sentences / elapsed, per_cpu_s: sentences / used });
        }
    }
}
