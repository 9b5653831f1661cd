//! Renders a pipeline's summary at its end.

use std::fmt::Write as _;

use plimsoll_measure::stream::{Count, Counts, Stream};

use crate::units::{exact, latency};

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
        ("replayed", Count::Replayed),
        ("left out", Count::Filtered),
        ("dead letters", Count::DeadLettered),
        ("lost", Count::Lost),
        ("left to others", Count::Left),
    ] {
        let value = counts.get(count);
        let rate = exact((value as f64 / seconds.max(1e-9)).round() as u64);
        out += &row(word, value, &format!("{rate:>14}/s"));
    }
    let denied = counts.get(Count::Denied);
    if denied > 0 {
        out += &row("denied", denied, "by the security stage; they are among the dead letters");
    }
    let open = counts.get(Count::Read).saturating_sub(counts.settled());
    if open > 0 {
        out += &row("not settled", open, "the next run reads them again");
    }
    out += &texts(&counts);
    out += "\nTimes of events            p50        p95        p99      p99.9    longest\n";
    for stage in stream.last.stages.iter().filter(|stage| stage.events > 0) {
        let _ = write!(out, "  {:<18}", stage.name);
        for ns in [stage.p50_ns, stage.p95_ns, stage.p99_ns, stage.p999_ns, stage.max_ns] {
            let _ = write!(out, " {:>10}", latency(ns));
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
    let mean = format!("of {:.1} tokens on average", tokens as f64 / texts as f64);
    let share = format!("{:.2} % were longer than the model reads", 100.0 * cut as f64 / texts as f64);
    format!("\nTexts\n{}{}", row("embedded", texts, &mean), row("cut", cut, &share))
}

/// A line with a number of events or texts.
fn row(word: &str, count: u64, note: &str) -> String {
    format!("  {word:<16} {:>16}  {note}\n", exact(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_the_length_of_texts_and_the_share_of_cut_ones() {
        let mut stream = Stream { name: "vectors".into(), ..Stream::default() };
        assert!(!summary(&stream).contains("tokens"), "a pipeline without texts has no such section");
        for (word, count) in [("embedded_texts", 1000), ("embedded_tokens", 16_500), ("truncated_texts", 25)]
        {
            stream.last.counts.insert(word.into(), count);
        }
        let said = summary(&stream);
        assert!(said.contains("of 16.5 tokens on average"), "{said}");
        assert!(said.contains("2.50 % were longer than the model reads"), "{said}");
    }
}
