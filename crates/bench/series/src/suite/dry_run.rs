//! Describes every test of a suite, and its runs in their order with their expected time.

use anyhow::Context;
use plimsoll_measure::duration::Span;
use plimsoll_measure::suite::{Planned, Suite};
use plimsoll_mongo::scenario::Existing;
use plimsoll_report::text::Width;
use plimsoll_report::units::{counted, duration};
use plimsoll_run::system::Registry;

use super::kind::Host;
use super::resolve::{Test, WARM_UP};
use crate::dry_run::{DryRun, comment, time};
use crate::matrix::run_estimate::{RUN_S, RunEstimate, STAGE_S};

/// The description of the whole suite with comments of at most `width`.
///
/// # Errors
/// When the documents of a test cannot be compiled.
pub fn text(suite: &Suite, tests: &[Test], registry: Registry, width: Width) -> anyhow::Result<String> {
    let describe = |test: &Test| {
        let dry = test.kind.dry_run(&test.row, registry).with_context(|| format!("test {}", test.name))?;
        let estimate = dry.estimate.map(|estimate| whole(test, &dry, estimate)).unwrap_or_default();
        anyhow::Ok((DryRun { estimate: Some(estimate), ..dry }, estimate))
    };
    let described = tests.iter().map(describe).collect::<anyhow::Result<Vec<_>>>()?;
    let mut text = String::new();
    for (test, (dry, _)) in tests.iter().zip(&described) {
        text += &(heading(test, width) + &clearing(test, width) + &dry.text(width) + "---\n");
    }
    let estimates: Vec<_> =
        tests.iter().zip(&described).map(|(test, (_, estimate))| (test.name.as_str(), *estimate)).collect();
    Ok(text + &runs(suite, &estimates, width))
}

fn heading(test: &Test, width: Width) -> String {
    let (kind, runs) = (test.kind.kind().name(), counted(test.repetitions.into(), "run"));
    comment(&format!("Test {}: {kind} {}, {runs}", test.name, test.job.what), "", width)
}

/// A comment about the collection that the suite itself drops before each run, because the file below does not show it.
fn clearing(test: &Test, width: Width) -> String {
    match (&test.job.host, test.job.existing) {
        (Host::Suite(_, namespace), Existing::Drop) => {
            let said = format!("The suite drops {namespace} before each run (existing: drop)");
            comment(&said, "", width)
        }
        _ => String::new(),
    }
}

/// The estimate of a run with its server and its warm-up, which the suite adds.
fn whole(test: &Test, dry: &DryRun, estimate: RunEstimate) -> RunEstimate {
    let warm_up = test.job.warm_up.as_ref().map_or(0.0, |_| {
        let each = test.row.warm_up.unwrap_or(WARM_UP);
        Span::as_secs(each) * dry.phases.max(1) as f64 + RUN_S
    });
    let starts = matches!(&test.job.host, Host::Suite(choice, _) if !choice.is_running());
    let server = if starts && dry.phases == 0 { STAGE_S } else { 0.0 };
    RunEstimate { around_s: estimate.around_s + warm_up + server, ..estimate }
}

/// The runs in their order, and their time in all.
fn runs(suite: &Suite, estimates: &[(&str, RunEstimate)], width: Width) -> String {
    let of = |name: &str| estimates.iter().find(|(test, _)| *test == name).map(|(_, estimate)| *estimate);
    let planned: Vec<_> = suite.runs.iter().map(|run| (run, of(&run.test).unwrap_or_default())).collect();
    let longest = planned.iter().map(|(run, _)| run.directory.chars().count()).max().unwrap_or(0);
    let line = |(run, estimate): &(&Planned, RunEstimate)| {
        comment(&time(estimate), &format!("  {:longest$}  ", run.directory), width)
    };
    let lines: String = planned.iter().map(line).collect();
    let seconds: f64 =
        planned.iter().map(|(_, estimate)| estimate.around_s + estimate.load_s.unwrap_or(0.0)).sum();
    let bound = match planned.iter().filter(|(_, estimate)| estimate.load_s.is_none()).count() {
        0 => format!("at most {}", duration(seconds)),
        open => format!(
            "{}, plus the loads of {} without a limit of time",
            duration(seconds),
            counted(open as u64, "run")
        ),
    };
    let all = comment(&format!("Expected in all: {bound}"), "", width);
    format!("# Runs in their order:\n{lines}{all}")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use plimsoll_report::text::Width;

    use crate::suite::kind::TEST_REGISTRY;
    use crate::suite::prepare::planned;
    use crate::suite::read::parse;
    use crate::suite::resolve::{Arguments, build};

    #[test]
    fn a_collection_that_the_suite_drops_is_named() {
        let described = |row: &str| {
            let text =
                format!("name,scenario,duration,server,existing\na,bulk-baseline,9s,mongodb://h,{row}\n");
            let loaded = parse("s", "s.csv", &text, PathBuf::from(".")).unwrap();
            let tests = build(&loaded, &Arguments::default(), TEST_REGISTRY).unwrap();
            super::text(&planned(&loaded, &tests), &tests, TEST_REGISTRY, Width::PIPE).unwrap()
        };
        let dropped = described("drop");
        assert!(
            dropped.contains("# The suite drops plimsoll.") && dropped.contains("before each run"),
            "{dropped}"
        );
        assert!(!described("refuse").contains("The suite drops"));
    }

    #[test]
    fn every_run_has_its_place_and_its_time_and_they_add_up() {
        let text = "name,scenario,duration,repetitions,server,warm_up,overrides\n\
                    a,bulk-baseline,9s,2,mongodb://h,0s,\n\
                    b,bulk-baseline,,1,mongodb://h,3s,phases.0.stop={documents: 10}\n";
        let loaded = parse("s", "s.csv", text, PathBuf::from(".")).unwrap();
        let tests = build(&loaded, &Arguments::default(), TEST_REGISTRY).unwrap();
        let text = super::text(&planned(&loaded, &tests), &tests, TEST_REGISTRY, Width::PIPE).unwrap();
        let runs = text.split("# Runs in their order:\n").nth(1).unwrap();
        let names: Vec<_> = runs
            .lines()
            .filter(|line| line.starts_with("#   "))
            .map(|line| line[4..].split(' ').next().unwrap())
            .collect();
        assert_eq!(names, ["001-a-r1", "002-b", "003-a-r2"], "{runs}");
        assert!(runs.contains("Expected in all: 71.0 s, plus the loads of 1 run without"), "{runs}");
        assert_eq!(text.matches("Sample documents;").count(), 2);
    }
}
