//! Writes the conclusions of a history.

use plimsoll_measure::comparison::{Difference, Verdict};
use plimsoll_measure::history::{Change, History, Track};

use crate::comparison::{change, p, value};
use crate::prose::sentence;
use crate::units::{NONE, counted, or_dash};

/// The maximum number of differences that a sentence lists.
const DIFFERENCES_MAX: usize = 3;
/// The number of characters of an RFC 3339 time up to its minute.
const MINUTE: usize = 16;

/// The conclusions: the changes of the primary metric, the newest change of each other metric, and notes.
pub fn conclusions(history: &History) -> Vec<String> {
    let mut said: Vec<String> = history.primary().into_iter().flat_map(|it| primary(it, history)).collect();
    let others = || history.metrics.iter().filter(|metric| !metric.primary);
    said.extend(others().filter_map(|metric| Some(sentence_of(metric.newest()?, metric, history))));
    let names = |is_open: fn(&Track) -> bool| -> Vec<&str> {
        others().filter(|it| is_open(it)).map(|it| it.words.as_str()).collect()
    };
    let quiet = names(|it| it.needed.is_none() && it.changes.is_empty());
    said.extend(
        (!quiet.is_empty())
            .then(|| format!("Of the other metrics no change is shown in: {}.", quiet.join(", "))),
    );
    let unknown = names(|it| it.needed.is_some());
    said.extend((!unknown.is_empty()).then(|| format!("Known in too few runs: {}.", unknown.join(", "))));
    said.extend(history.notes.iter().map(|note| sentence(note)));
    said.extend(forced(history));
    said
}

fn primary(metric: &Track, history: &History) -> Vec<String> {
    let (words, known) = (&metric.words, counted(metric.known.into(), "run"));
    if let Some(needed) = metric.needed {
        let each = history.settings.segment_min;
        return vec![format!(
            "Too few runs to tell a change in {words}: it is known in {known}, and {needed} are needed, {each} before a change \
             and {each} after it."
        )];
    }
    if metric.changes.is_empty() {
        let level = or_dash(metric.level, |level| value(metric.unit, level));
        return vec![format!("No change is shown in {words} over {known}: its median is {level}.")];
    }
    metric.changes.iter().map(|it| sentence_of(it, metric, history)).collect()
}

/// A change in a sentence.
fn sentence_of(it: &Change, metric: &Track, history: &History) -> String {
    let word = if it.verdict == Verdict::Better { "Better" } else { "Worse" };
    let p = p(it.p);
    let p = if p.starts_with('<') { format!("p {p}") } else { format!("p = {p}") };
    format!(
        "{word}: {} went from {} to {} ({}, {p}) between {} and {} of {}{}.",
        metric.words,
        value(metric.unit, it.from),
        value(metric.unit, it.to),
        change(it.ratio - 1.0),
        directory(history, it.before),
        directory(history, it.after),
        started(history, it.after),
        also_changed(&it.differences),
    )
}

/// Other differences between the two runs of a change.
fn also_changed(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    format!("; between these two also changed: {}", listed(differences))
}

fn listed(differences: &[Difference]) -> String {
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "nothing".to_owned());
    let one = |it: &Difference| format!("{} from {} to {}", it.path, word(&it.a), word(&it.b));
    let mut sentences: Vec<String> = differences.iter().take(DIFFERENCES_MAX).map(one).collect();
    let more = differences.len().saturating_sub(DIFFERENCES_MAX);
    sentences.extend((more > 0).then(|| format!("{more} more")));
    sentences.join(", ")
}

fn forced(history: &History) -> Option<String> {
    let differences = &history.forced;
    (!differences.is_empty()).then(|| {
        format!(
            "The runs are not alike (--force); they differ in {}, among others: that alone may explain a change.",
            listed(differences)
        )
    })
}

fn directory(history: &History, run: u32) -> &str {
    history.runs.get(run as usize).map_or(NONE, |run| run.directory.as_str())
}

/// The start of a run, to the minute.
pub(super) fn started(history: &History, run: u32) -> String {
    or_dash(history.runs.get(run as usize), |run| moment(&run.started))
}

/// An RFC 3339 text to the minute: `2026-11-21 03:00`.
pub(super) fn moment(started: &str) -> String {
    started.chars().take(MINUTE).collect::<String>().replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[track_caller]
    fn check(levels: &[(f64, usize)], index: usize, parts: &[&str]) {
        let said = sample(levels).conclusions;
        for part in parts {
            assert!(said[index].contains(part), "{part}: {said:?}");
        }
    }

    #[test]
    fn a_change_is_a_sentence_with_its_runs_and_other_differences() {
        let levels = [(5_000.0, 12), (4_500.0, 10)];
        check(
            &levels,
            0,
            &[
                "Worse: documents per second of insert went from 5,",
                "p = 0.001) between runs/011 and runs/012 of 2026-04-03 00:00",
                "; between these two also changed: server.version from \"8.0\" to \"8.1\".",
            ],
        );
        check(&levels, 1, &["Of the other metrics no change is shown in: Plimsoll's CPU per operation."]);
    }

    #[test]
    fn no_change_and_too_few_runs_are_sentences() {
        check(
            &[(5_000.0, 20)],
            0,
            &["No change is shown in documents per second of insert over 20 runs: its median is 5,000."],
        );
        let needed = "it is known in 9 runs, and 10 are needed, 5 before a change and 5 after it.";
        check(
            &[(5_000.0, 9)],
            0,
            &["Too few runs to tell a change in documents per second of insert", needed],
        );
        check(&[(5_000.0, 9)], 1, &["Known in too few runs: Plimsoll's CPU per operation."]);
    }

    #[test]
    fn forced_differences_and_notes_on_runs_are_listed() {
        let mut history = sample(&[(5_000.0, 20)]);
        history.notes = vec!["in 1 of 20 runs nothing was done".into()];
        let differs = |path: &str| Difference { path: path.into(), a: Some("1".into()), b: None };
        history.forced = ["a", "b", "c", "d"].map(differs).into();
        let said = conclusions(&history);
        assert_eq!(said[2], "In 1 of 20 runs nothing was done.");
        assert!(
            said[3].contains("a from 1 to nothing, b from 1 to nothing, c from 1 to nothing, 1 more"),
            "{said:?}"
        );
    }
}
