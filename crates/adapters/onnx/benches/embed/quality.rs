//! Measures how exact the models are, against Plimsoll's fp32, which tests compare with an independent
//! implementation.

use plimsoll_onnx::Quality;

use crate::Failure;
use crate::subject::Subject;
use crate::workload::Workload;

/// Prints the quality of every subject for real sentences; the last subject is the exact one.
pub(crate) fn print(subjects: &mut [Subject], workloads: &[Workload]) -> Result<(), Failure> {
    let sentences = workloads.last().ok_or("no texts")?;
    let Some((last, others)) = subjects.split_last_mut() else { return Ok(()) };
    let exact = last.embed(sentences)?;
    println!("\nAgainst `{}`, for real sentences:", last.label);
    for subject in others {
        let found = subject.embed(sentences)?;
        let quality = Quality::between(&exact, &found, 384).ok_or("other numbers of vectors")?;
        println!("  {:<28} {quality}", subject.label);
    }
    Ok(())
}
