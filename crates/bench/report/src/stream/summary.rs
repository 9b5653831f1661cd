//! Renders a pipeline's summary at its end.

use std::fmt::Write as _;

use plimsoll_measure::stream::{Count, Counts, Stream};

use crate::units;

/// The summary of a pipeline as text.
pub fn summary(stream: &Stream) -> String {
    let mut out = format!("\n{}: {}, {}\n", stream.name, stream.path.join(" → "), stream.guarantee);
    let seconds = stream.last.elapsed_ns as f64 / 1e9;
    let counts = stream.last.all_counts();
    let _ = writeln!(out, "{} after {seconds:.1} s", stream.ended);
    if let Some(failure) = &stream.failure {
        let _ = writeln!(out, "  {failure}");
    }
    out += "\nEvents\n";
    for (word, count) in [
        ("read", Count::Read),
        ("written", Count::Written),
        ("of these before", Count::Replayed),
        ("left out", Count::Filtered),
        ("dead letters", Count::DeadLettered),
        ("lost", Count::Lost),
        ("left to others", Count::Left),
    ] {
        let value = counts.get(count);
        let rate = value as f64 / seconds.max(1e-9);
        let _ = writeln!(
            out,
            "  {word:<16} {:>16}  {:>14}/s",
            units::exact(value),
            units::exact(rate.round() as u64)
        );
    }
    let denied = counts.get(Count::Denied);
    if denied > 0 {
        let _ = writeln!(
            out,
            "  {:<16} {:>16}  by the security stage; they are among the dead letters",
            "denied",
            units::exact(denied)
        );
    }
    let open = counts.get(Count::Read).saturating_sub(counts.settled());
    if open > 0 {
        let _ = writeln!(
            out,
            "  {:<16} {:>16}  they come again with the next run",
            "not settled",
            units::exact(open)
        );
    }
    out += &texts(&counts);
    out += "\nTimes of events            p50        p95        p99      p99.9    longest\n";
    for stage in stream.last.stages.iter().filter(|stage| stage.events > 0) {
        let _ = write!(out, "  {:<18}", stage.name);
        for ns in [stage.p50_ns, stage.p95_ns, stage.p99_ns, stage.p999_ns, stage.max_ns] {
            let _ = write!(out, " {:>10}", units::latency(ns));
        }
        out.push('\n');
    }
    let cpu = stream.last.process.cpu_ns as f64;
    let _ = writeln!(
        out,
        "\nCost\n  CPU {:.2} cores, {:.3} µs an event; memory {:.0} MiB",
        cpu / stream.last.elapsed_ns.max(1) as f64,
        cpu / 1e3 / counts.get(Count::Read).max(1) as f64,
        stream.last.process.resident_bytes as f64 / f64::from(1 << 20),
    );
    out
}

/// The fate of texts: their speed means nothing without their length, and a truncated text has an incomplete vector.
fn texts(counts: &Counts) -> String {
    let [texts, tokens, cut] = [Count::Texts, Count::Tokens, Count::Truncated].map(|count| counts.get(count));
    if texts == 0 {
        return String::new();
    }
    format!(
        "\nTexts\n  {:<16} {:>16}  of {:.1} tokens on average\n  {:<16} {:>16}  {:.2} % were longer than the model reads\n",
        "embedded",
        units::exact(texts),
        tokens as f64 / texts as f64,
        "cut",
        units::exact(cut),
        100.0 * cut as f64 / texts as f64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_tell_the_length_of_texts_and_how_many_were_cut() {
        let mut stream = Stream { name: "vectors".into(), ..Stream::default() };
        assert!(!summary(&stream).contains("tokens"), "a pipeline without texts has none to tell");
        for (word, count) in [("embedded_texts", 1000), ("embedded_tokens", 16_500), ("truncated_texts", 25)]
        {
            stream.last.counts.insert(word.into(), count);
        }
        let said = summary(&stream);
        assert!(said.contains("of 16.5 tokens on average"), "{said}");
        assert!(said.contains("2.50 % were longer than the model reads"), "{said}");
    }
}
