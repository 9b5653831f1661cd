//! Describes a run before it begins: the resolved scenario, sample documents, and the expected time and disk use.
//!
//! Contacts no server and writes no file. The text is a scenario with comments, which `plimsoll run` accepts.

use anyhow::{Context, anyhow};
use bson::{Bson, Document};
use plimsoll_document::Encoded;
use plimsoll_measure::secret::masked;
use plimsoll_mongo::operation_builder::identity;
use plimsoll_mongo::setup::Setup;
use plimsoll_report::text::{Width, hanging};
use plimsoll_report::units::{bytes, counted, duration, exact};
use plimsoll_run::lifecycle::Checked;
use plimsoll_run::server_provisioning::Choice;
use plimsoll_run::system::Subject;
use plimsoll_scenario::{Loaded, Plan};
use serde_json::Value;

use crate::matrix::cost::{DISK_FACTOR, Keep, estimate};
use crate::matrix::prepare::Prepared;
use crate::matrix::run_estimate::{self, RunEstimate, STAGE_S};

/// The number of sample documents.
const SAMPLES: u64 = 3;
/// The longest shown sample, in characters.
const SHOWN_MAX: usize = 4_000;

/// The description of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DryRun {
    /// The resolved scenario or pipeline as YAML, without secrets.
    pub file: String,
    /// Sample documents as Extended JSON.
    pub samples: Vec<String>,
    /// Options of the servers' addresses that have no effect, a sentence each.
    pub warnings: Vec<String>,
    /// The number of phases.
    pub phases: usize,
    /// The estimate of the run. `None` for a matrix, whose list of cells has the estimates.
    pub estimate: Option<RunEstimate>,
}

/// Describes a checked run.
///
/// # Errors
/// When the documents cannot be compiled.
pub fn of_run(checked: &Checked) -> anyhow::Result<DryRun> {
    of(&checked.loaded, &checked.plan, checked.subject.as_ref())
}

/// Describes a matrix by its scenario and the documents of its first cell.
///
/// # Errors
/// When the documents cannot be compiled.
pub fn of_matrix(prepared: &Prepared<'_>) -> anyhow::Result<DryRun> {
    let file = unveiled(&prepared.loaded.resolved()?)?;
    let first = prepared.expanded.cells.first().zip(prepared.subjects.first());
    let first = first.map(|(cell, subject)| of(&cell.loaded, &cell.plan, subject.as_ref())).transpose()?;
    Ok(DryRun { file, estimate: None, ..first.unwrap_or_default() })
}

/// Describes a run of a scenario on a system.
///
/// # Errors
/// When the documents cannot be compiled.
pub fn of(loaded: &Loaded, plan: &Plan, subject: &dyn Subject) -> anyhow::Result<DryRun> {
    let besides = subject.estimate(loaded, plan)?;
    let mut estimate = run_estimate::of(plan, &besides);
    let starts = subject.server().is_some_and(|choice: &Choice| !choice.is_running());
    if starts && besides.fill.is_none() {
        estimate.around_s += STAGE_S;
    }
    Ok(DryRun {
        file: unveiled(&loaded.resolved()?)?,
        samples: besides.audited.as_deref().map_or_else(|| Ok(Vec::new()), samples)?,
        warnings: subject.warnings(loaded, plan),
        phases: plan.phases.len(),
        estimate: Some(estimate),
    })
}

/// A file without its secrets; one without secrets is unchanged.
///
/// # Errors
/// When the text is no YAML.
pub fn unveiled(text: &str) -> anyhow::Result<String> {
    let tree: Value =
        serde_saphyr::from_str(text).map_err(|error| anyhow!("read the file again: {error}"))?;
    let hidden = masked("", &tree);
    if hidden == tree {
        return Ok(text.to_owned());
    }
    serde_saphyr::to_string(&hidden).map_err(|error| anyhow!("write the file: {error}"))
}

/// The first documents, as the load makes them.
fn samples(setup: &Setup) -> anyhow::Result<Vec<String>> {
    let Some(source) = &setup.source else { return Ok(Vec::new()) };
    let mut samples = Vec::new();
    for number in 0..SAMPLES {
        let mut encoded = Vec::new();
        if source.encode(number, &identity(setup.run, number), &mut encoded) != Encoded::Document {
            break;
        }
        let document = Document::from_reader(encoded.as_slice()).context("read a sample document")?;
        samples.push(shortened(&Bson::Document(document).into_relaxed_extjson().to_string()));
    }
    Ok(samples)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}… ({} in all)", &text[..end], bytes(text.len() as u64)),
        None => text.to_owned(),
    }
}

impl DryRun {
    /// The file, and the rest as comments, in lines of at most `width`. Samples and lines of the file are never wrapped.
    pub fn text(&self, width: Width) -> String {
        let heading = match self.samples.is_empty() {
            true => "Sample documents: none, because nothing here inserts documents of a template",
            false => "Sample documents; in a run each _id names the run:",
        };
        let samples = self.samples.iter().map(|sample| format!("#   {sample}\n"));
        let expected = self.estimate.iter().map(|estimate| expected(estimate, self.phases, width));
        let comments: String =
            std::iter::once(comment(heading, "", width)).chain(samples).chain(expected).collect();
        format!("{}\n\n{comments}", self.file.trim_end_matches('\n'))
    }
}

/// `text` as a comment in lines of at most `width`. The first line starts with `first`, the others with as many blanks.
pub fn comment(text: &str, first: &str, width: Width) -> String {
    const MARK: &str = "# ";
    let lines = hanging(text, first, Width(width.0.saturating_sub(MARK.len())));
    lines.lines().map(|line| format!("{MARK}{line}\n")).collect()
}

/// The expected duration of a run in words.
pub fn time(estimate: &RunEstimate) -> String {
    let around = duration(estimate.around_s);
    match estimate.load_s {
        Some(load_s) => format!("at most {}", duration(load_s + estimate.around_s)),
        None => format!("{around}, plus a load without a limit of time"),
    }
}

/// The expected time, documents and disk as comments.
fn expected(estimate: &RunEstimate, phases: usize, width: Width) -> String {
    let facts = facts(estimate, phases).into_iter();
    let facts = facts.map(|(name, value)| comment(&value, &format!("  {name:<11}"), width));
    std::iter::once(comment("Expected:", "", width)).chain(facts).collect()
}

fn facts(estimate: &RunEstimate, phases: usize) -> Vec<(&'static str, String)> {
    let load = estimate.load_s.map_or_else(String::new, |load_s| {
        format!(": {} of load, {} around it", duration(load_s), duration(estimate.around_s))
    });
    let mut facts = vec![("time", format!("{}{load}", time(estimate)))];
    // A pipeline has no phases, and moves events instead of documents.
    facts.extend((phases > 0).then(|| ("documents", documents(estimate))));
    facts.extend((estimate.filled > 0).then(|| ("filled in", counted(estimate.filled, "document"))));
    facts.extend((estimate.document_bytes > 0.0).then(|| ("disk", disk(estimate))));
    facts
}

fn documents(estimate: &RunEstimate) -> String {
    let each = if estimate.document_bytes > 0.0 {
        format!(", about {} each", bytes(estimate.document_bytes as u64))
    } else {
        String::new()
    };
    match estimate.documents {
        Some(count) => format!("at most {}{each}", exact(count)),
        None => format!("as many as the time allows{each}"),
    }
}

fn disk(estimate_of_run: &RunEstimate) -> String {
    let all = estimate(1, &[*estimate_of_run], Keep::Nothing);
    match estimate_of_run.documents {
        Some(_) => format!(
            "at most {} on the server: the documents × their mean size × {DISK_FACTOR}",
            bytes(all.disk_bytes)
        ),
        None => {
            let each = (estimate_of_run.document_bytes * DISK_FACTOR) as u64;
            format!("about {} for each document on the server", bytes(each))
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_run::console::Silent;
    use plimsoll_run::lifecycle::check;
    use plimsoll_run::options::LoadOptions;
    use plimsoll_scenario::load;

    use super::*;
    use crate::suite::kind::TEST_REGISTRY;

    fn dry(name: &str, overrides: &[&str]) -> DryRun {
        let overrides: Vec<_> = overrides.iter().map(|&text| text.to_owned()).collect();
        let options = LoadOptions::on(Some("mongodb://h".into()), TEST_REGISTRY, &Silent);
        let loaded = load(name, &overrides, None).unwrap();
        of_run(&check(name, loaded, &options, None).unwrap_or_else(|failure| panic!("{failure:?}"))).unwrap()
    }

    #[test]
    fn the_text_is_the_same_scenario_with_samples_and_estimates() {
        let dry = dry("bulk-baseline", &["phases.0.stop={documents: 1000}", "document={n: {$number: {}}}"]);
        let text = dry.text(Width::PIPE);
        for part in [
            "\"n\":0",
            "\"n\":1",
            "\"n\":2",
            "at most 1,000, about 33 B each",
            "at most 64.5 KiB on the server",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(dry.samples.len(), 3);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("again.yaml");
        std::fs::write(&path, &text).unwrap();
        let again = load(path.to_str().unwrap(), &[], None).unwrap();
        let before = load(
            "bulk-baseline",
            &["phases.0.stop={documents: 1000}".into(), "document={n: {$number: {}}}".into()],
            None,
        );
        assert_eq!(again.scenario, before.unwrap().scenario);
    }

    #[test]
    fn a_load_without_a_limit_has_no_invented_figure() {
        let text = dry("bulk-baseline", &["phases.0.stop={duration: 30s}"]).text(Width::PIPE);
        assert!(text.contains("as many as the time allows"), "{text}");
        let text = dry("bulk-baseline", &["phases.0.stop={documents: 10}"]).text(Width::PIPE);
        assert!(text.contains("plus a load without a limit of time"), "{text}");
    }

    #[test]
    fn comments_fit_the_width_and_samples_stay_whole() {
        let dry = dry("bulk-baseline", &[]);
        let text = DryRun { samples: vec!["x".repeat(70)], ..dry }.text(Width::MIN);
        let comments = text.lines().filter(|line| line.starts_with('#'));
        let (samples, others): (Vec<_>, Vec<_>) = comments.partition(|line| line.contains("xx"));
        assert_eq!(samples, [format!("#   {}", "x".repeat(70))]);
        assert!(others.iter().all(|line| line.chars().count() <= Width::MIN.0), "{text}");
        assert!(others.iter().any(|line| line.starts_with(&format!("# {}", " ".repeat(13)))), "{text}");
    }

    #[test]
    fn a_large_sample_is_cut() {
        assert!(shortened(&"x".repeat(SHOWN_MAX + 1)).ends_with("x… (3.91 KiB in all)"));
        assert_eq!(shortened("x"), "x");
    }

    #[test]
    fn a_secret_is_hidden() {
        let typed = "http:\n  auth:\n    bearer:\n      token: swordfish\n";
        assert!(!unveiled(typed).unwrap().contains("swordfish"));
        assert_eq!(unveiled("a: 1 # b\n").unwrap(), "a: 1 # b\n");
    }
}
