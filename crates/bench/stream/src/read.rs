//! Reads a pipeline's file.

use std::path::{Path, PathBuf};

use anyhow::bail;

use super::typed::PipelineFile;
use plimsoll_scenario::{Kind, Text, mistaken_name, mistaken_text, nearest, parse_with, pipelines};

/// Reads a pipeline's file, and returns it with the directory of its relative paths.
///
/// # Errors
/// When the file is missing, unreadable or invalid. The error says where.
pub fn read(file: &Path, overrides: &[String]) -> anyhow::Result<(PipelineFile, PathBuf)> {
    let Text { name, base, text, origin } = found(file)?;
    if let Some(said) = mistaken_text(&origin, &text, Kind::Pipeline) {
        bail!(said);
    }
    let mut pipeline: PipelineFile = parse_with(&text, &origin, overrides)?;
    if pipeline.name.is_empty() {
        pipeline.name = name;
    }
    let events = pipeline.in_flight.events.unwrap_or_else(|| pipeline.sink.events_in_flight());
    pipeline.in_flight.events = Some(events);
    Ok((pipeline, base))
}

/// Finds a file, or a shipped pipeline.
fn found(file: &Path) -> anyhow::Result<Text> {
    if file.is_file() {
        return Text::of_file(file);
    }
    let Some(builtin) = pipelines().iter().find(|builtin| file == Path::new(builtin.name)) else {
        if let Some(said) = mistaken_name(&file.to_string_lossy(), Kind::Pipeline) {
            bail!(said);
        }
        bail!(
            "no pipeline `{}` exists: name a YAML file with `source` and `sink`, or {}",
            file.display(),
            suggestion(&file.to_string_lossy())
        );
    };
    let (name, origin, text) = (builtin.name.to_owned(), builtin.path.to_owned(), builtin.text.to_owned());
    Ok(Text { name, origin, text, base: PathBuf::from(".") })
}

fn suggestion(name: &str) -> String {
    let names: Vec<_> = pipelines().iter().map(|builtin| builtin.name).collect();
    match nearest(name, &names) {
        Some(near) => format!("the nearest shipped one, `{near}`"),
        None => format!("one of the shipped ones: {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "kafka")]
    #[test]
    fn the_default_limit_of_events_in_flight_fits_the_sink() {
        let events = |name: &str| read(Path::new(name), &[]).unwrap().0.in_flight.events;
        assert_eq!(events("kafka-to-kafka"), Some(20_000));
        assert_eq!(events("kafka-to-kafka-once"), Some(100_000));
    }

    #[test]
    fn a_shipped_pipeline_is_found_by_its_name_and_a_wrong_name_suggests_the_nearest() {
        let (file, _) = read(Path::new("generator-to-noop"), &["in_flight.events=7".into()]).unwrap();
        assert_eq!((file.name.as_str(), file.in_flight.events), ("generator-to-noop", Some(7)));
        let message = read(Path::new("generator-to-nop"), &[]).unwrap_err().to_string();
        assert!(message.contains("no pipeline `generator-to-nop` exists"), "{message}");
        assert!(message.contains("`generator-to-noop`"), "{message}");
    }

    #[cfg(all(feature = "kafka", feature = "embedding"))]
    #[test]
    fn every_shipped_pipeline_is_read_under_its_name_and_has_a_question() {
        for builtin in pipelines() {
            let (file, _) = read(Path::new(builtin.name), &[]).unwrap();
            assert_eq!(file.name, builtin.name);
            assert!(!file.question.is_empty(), "{}", builtin.name);
        }
    }
}
