//! How exact the models are, beside their speed: against our fp32, which the tests hold to an independent implementation.

use std::error::Error;

use plimsoll_onnx::Quality;

use crate::Subject;
use crate::workload::Workload;

/// Prints the quality of every subject for real sentences; the last subject is the exact one.
pub(crate) fn print(
    subjects: &mut [(String, Subject)],
    workloads: &[Workload],
) -> Result<(), Box<dyn Error>> {
    let sentences = workloads.last().ok_or("no texts")?;
    let Some((last, others)) = subjects.split_last_mut() else { return Ok(()) };
    let exact = vectors(&mut last.1, sentences)?;
    println!("\nAgainst `{}`, for real sentences:", last.0);
    for (name, subject) in others {
        let found = vectors(subject, sentences)?;
        let quality = Quality::between(&exact, &found, 384).ok_or("other numbers of vectors")?;
        println!("  {name:<25} {quality}");
    }
    Ok(())
}

fn vectors(subject: &mut Subject, workload: &Workload) -> Result<Vec<f32>, Box<dyn Error>> {
    match subject {
        Subject::Python(peer) => peer.embed(workload),
        Subject::Ours(embedder) => {
            let mut vectors = Vec::new();
            embedder.embed(&workload.texts(), &mut vectors)?;
            Ok(vectors)
        }
    }
}
