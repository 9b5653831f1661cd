//! Measures Plimsoll's embedder.

use plimsoll_measure::clock;
use plimsoll_onnx::Embedder;

use crate::Failure;
use crate::table::Rate;
use crate::workload::Workload;

/// Embeds the texts repeatedly for `seconds`, at least once; the time before the first run does not count.
pub(crate) fn measure(embedder: &mut Embedder, workload: &Workload, seconds: f64) -> Result<Rate, Failure> {
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
