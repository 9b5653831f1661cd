//! Names the command that helps most after a run of a pipeline.

use plimsoll_measure::stream::{Count, Stream};
use plimsoll_pipeline::sink::Form;

use super::replay::rolls_back;
use super::typed::{PipelineFile, SinkSection};

/// The command line that helps most after a run. `words` name the pipeline as the user did: its file and its options.
pub fn next(file: &PipelineFile, stream: &Stream, words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    format!("plimsoll pipeline {} {}", command(file, stream), words.join(" "))
}

/// Continues an unfinished run, replays dead letters, or audits the destination. A finished run without any of these can only
/// be repeated.
fn command(file: &PipelineFile, stream: &Stream) -> &'static str {
    match stream.ended.as_str() {
        "failed" | "aborted" => "run",
        _ if stream.last.count(Count::DeadLettered) > 0 && is_replayable(file) => "replay",
        _ if is_audited(file) => "audit",
        _ => "run",
    }
}

/// Whether the dead letters of a pipeline can be replayed: they identify their events, and its sink keeps the newest event.
fn is_replayable(file: &PipelineFile) -> bool {
    match (&file.sink, &file.dead_letters) {
        (sink, _) if rolls_back(sink).is_some() => false,
        (SinkSection::Transactional(_), _) => true,
        #[cfg(feature = "kafka")]
        (SinkSection::Kafka(typed), _) if typed.exactly_once.is_some() => true,
        #[cfg(feature = "kafka")]
        (_, Some(SinkSection::Kafka(_))) => true,
        (_, Some(SinkSection::Insert(letters))) => letters.identifies_events(),
        (_, Some(SinkSection::File(letters))) => letters.form == Form::Whole,
        _ => false,
    }
}

#[cfg(feature = "kafka")]
fn is_audited(file: &PipelineFile) -> bool {
    super::audit::Question::of(file).is_ok()
}

#[cfg(not(feature = "kafka"))]
const fn is_audited(_: &PipelineFile) -> bool {
    false
}

/// A word of a command line, in quotes if a shell would change it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,+%@…".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, ended: &str, dead_letters: u64, words: &[&str]) -> String {
        let file: PipelineFile = serde_saphyr::from_str(text).unwrap();
        let mut stream = Stream { ended: ended.into(), ..Stream::default() };
        stream.last.counts.insert(Count::DeadLettered.word().into(), dead_letters);
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        next(&file, &stream, &words)
    }

    #[test]
    fn the_words_are_repeated_as_a_shell_takes_them() {
        let file = "source: {generator: {}}\nsink: {noop: {}}\n";
        let words =
            ["it's my.yaml", "--set", "transforms.0.filter.where=.n > 1", "--server", "mongodb://h:1/?w=1"];
        assert_eq!(
            said(file, "finished", 0, &words),
            r"plimsoll pipeline run 'it'\''s my.yaml' --set 'transforms.0.filter.where=.n > 1' --server 'mongodb://h:1/?w=1'"
        );
    }

    #[test]
    fn dead_letters_that_identify_their_events_are_replayed_after_a_run_that_ended_well() {
        let with = |form: &str| {
            format!(
                "source: {{generator: {{}}}}\nsink: {{noop: {{}}}}\ndead_letters: {{file: {{path: dead, form: {form}}}}}\n"
            )
        };
        for (form, ended, dead_letters, command) in [
            ("whole", "finished", 1, "replay"),
            ("whole", "finished", 0, "run"),
            ("whole", "failed", 1, "run"),
            ("lines", "finished", 1, "run"),
        ] {
            let expected = format!("plimsoll pipeline {command} a.yaml");
            assert_eq!(said(&with(form), ended, dead_letters, &["a.yaml"]), expected, "{form} {ended}");
        }
    }

    #[test]
    fn dead_letters_that_may_be_older_than_their_documents_are_not_replayed() {
        for (sink, command) in [
            ("keyed: {uri: 'mongodb://a', collection: d.copy}", "run"),
            ("vector: {uri: 'mongodb://a', collection: d.copy, by: payload, form: bson}", "run"),
            ("vector: {uri: 'mongodb://a', collection: d.copy}", "replay"),
        ] {
            let file = format!(
                "source: {{change_stream: {{uri: 'mongodb://a', watch: d.c}}}}\nsink: {{{sink}}}\n\
                 dead_letters: {{file: {{path: dead, form: whole}}}}\n"
            );
            let expected = format!("plimsoll pipeline {command} a.yaml");
            assert_eq!(said(&file, "drained", 1, &["a.yaml"]), expected, "{sink}");
        }
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn a_destination_that_can_be_audited_is_audited() {
        let from = "source: {kafka: {brokers: 'b:1', topic: t, group: g}}\n";
        let insert = format!("{from}sink: {{insert: {{uri: 'mongodb://a', collection: d.c}}}}\n");
        assert_eq!(said(&insert, "drained", 0, &["a.yaml"]), "plimsoll pipeline audit a.yaml");
        let noop = format!("{from}sink: {{noop: {{}}}}\n");
        assert_eq!(said(&noop, "drained", 0, &["a.yaml"]), "plimsoll pipeline run a.yaml");
    }
}
