//! Lists the scenarios, pipelines and suites that the binary ships.

/// A shipped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Its name: the file's stem.
    pub name: &'static str,
    /// Its path from the root of the source.
    pub path: &'static str,
    /// The text of the file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($folder:literal / $name:literal),* $(,)?) => {
        shipped![".yaml": $($folder / $name),*]
    };
    ($ending:literal: $($folder:literal / $name:literal),* $(,)?) => {
        [$(Builtin {
            name: $name,
            path: concat!("scenarios/", $folder, "/", $name, $ending),
            text: include_str!(concat!("../../../../../scenarios/", $folder, "/", $name, $ending)),
        }),*]
    };
}

/// Every shipped scenario, in the order of `plimsoll scenarios`.
pub const fn all() -> &'static [Builtin] {
    &ALL
}

/// The scenarios by folder, from the simplest to the most special.
static ALL: [Builtin; 95] = shipped![
    "write" / "bulk-baseline",
    "write" / "vip-one-by-one",
    "write" / "vip-all-at-once",
    "write" / "vip-partitioned",
    "write" / "vip-small",
    "write" / "strategies",
    "write" / "key-names",
    "write" / "larger-than-cache",
    "write" / "indexes",
    "write" / "single-insert",
    "read" / "by-key",
    "read" / "range",
    "read" / "aggregate",
    "read" / "driver-tax",
    "read" / "read-concern-cost",
    "read" / "connection-churn",
    "mixed" / "ycsb-a",
    "mixed" / "ycsb-b",
    "mixed" / "ycsb-c",
    "mixed" / "ycsb-d",
    "mixed" / "ycsb-e",
    "mixed" / "ycsb-f",
    "mixed" / "time-share",
    "faults" / "kill",
    "faults" / "power-loss",
    "faults" / "hang",
    "faults" / "cut",
    "faults" / "slow-network",
    "faults" / "lossy",
    "faults" / "consistency",
    "telemetry" / "baseline",
    "telemetry" / "baseline-short",
    "telemetry" / "single",
    "telemetry" / "batch",
    "telemetry" / "iot",
    "telemetry" / "designs",
    "telemetry" / "feed-designs",
    "telemetry" / "past-the-cache",
    "telemetry" / "kill-service",
    "telemetry" / "kill-server",
    "catalogue" / "catalogue-by-pid",
    "catalogue" / "catalogue-facets",
    "catalogue" / "catalogue-full-query",
    "catalogue" / "catalogue-data-in",
    "catalogue" / "catalogue-files",
    "catalogue" / "catalogue-million-files",
    "catalogue" / "catalogue-kill-service",
    "catalogue" / "catalogue-kill-server",
    "workflow" / "workflow-roundtrip",
    "workflow" / "workflow-rates",
    "workflow" / "workflow-open-100",
    "workflow" / "workflow-ten-minutes",
    "workflow" / "workflow-steps",
    "workflow" / "workflow-out-of-order",
    "workflow" / "workflow-timers",
    "workflow" / "workflow-timers-many",
    "workflow" / "workflow-hot-instance",
    "workflow" / "workflow-backlog",
    "workflow" / "workflow-idle",
    "workflow" / "workflow-kill",
    "workflow" / "mongo-immediate-burst-smoke",
    "workflow" / "postgres-immediate-burst-smoke",
    "workflow" / "mongo-delayed-burst-smoke",
    "workflow" / "postgres-delayed-burst-smoke",
    "workflow" / "mongo-bulstrad-quote-or-apl-cancel-smoke",
    "workflow" / "postgres-bulstrad-quote-or-apl-cancel-smoke",
    "workflow" / "mongo-signal-roundtrip-latency-serial",
    "workflow" / "postgres-signal-roundtrip-latency-serial",
    "workflow" / "mongo-signal-roundtrip-throughput-parallel",
    "workflow" / "postgres-signal-roundtrip-throughput-parallel",
    "workflow" / "mongo-signal-roundtrip-capacity-c1",
    "workflow" / "postgres-signal-roundtrip-capacity-c1",
    "workflow" / "mongo-signal-roundtrip-capacity-c4",
    "workflow" / "postgres-signal-roundtrip-capacity-c4",
    "workflow" / "mongo-signal-roundtrip-capacity-c8",
    "workflow" / "postgres-signal-roundtrip-capacity-c8",
    "workflow" / "mongo-signal-roundtrip-capacity-c16",
    "workflow" / "postgres-signal-roundtrip-capacity-c16",
    "workflow" / "mongo-immediate-burst-nightly",
    "workflow" / "postgres-immediate-burst-nightly",
    "workflow" / "mongo-delayed-burst-nightly",
    "workflow" / "postgres-delayed-burst-nightly",
    "workflow" / "mongo-synthetic-external-resume-nightly",
    "workflow" / "postgres-synthetic-external-resume-nightly",
    "workflow" / "mongo-bulstrad-quotation-confirm-convert-to-policy-nightly",
    "workflow" / "postgres-bulstrad-quotation-confirm-convert-to-policy-nightly",
    "workflow" / "mongo-signal-roundtrip-soak",
    "workflow" / "postgres-signal-roundtrip-soak",
    "selftest" / "freeze",
    "selftest" / "forget",
    "selftest" / "flip",
    "selftest" / "lies",
    "selftest" / "increments",
    "selftest" / "stale",
    "selftest" / "rate",
];

/// Every shipped pipeline, in the order of `plimsoll scenarios`: from the simplest to the most complex.
pub const fn pipelines() -> &'static [Builtin] {
    static PIPELINES: [Builtin; 7] = shipped![
        "pipeline" / "generator-to-noop",
        "pipeline" / "kafka-to-noop",
        "pipeline" / "kafka-to-kafka",
        "pipeline" / "kafka-to-kafka-once",
        "pipeline" / "generator-to-mongodb",
        "pipeline" / "kafka-to-mongodb",
        "pipeline" / "kafka-to-mongodb-vector",
    ];
    &PIPELINES
}

/// Every shipped suite, in the order of `plimsoll scenarios`.
pub const fn suites() -> &'static [Builtin] {
    static TABLES: [Builtin; 5] = {
        let [table, workflow, catalogue] =
            shipped![".csv": "suite" / "write-cost", "suite" / "workflow-tiers", "suite" / "catalogue-cube"];
        let [yaml] = shipped!["suite" / "strategies-stack"];
        // The suite of a folder has the folder's name.
        let [pipeline] = shipped![".csv": "pipeline" / "suite"];
        [table, yaml, Builtin { name: "pipeline", ..pipeline }, workflow, catalogue]
    };
    &TABLES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders below `scenarios` whose files are not scenarios.
    const OTHERS: [&str; 2] = ["suite", "pipeline"];

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios");

    #[test]
    fn every_file_below_scenarios_is_shipped() {
        let folders = std::fs::read_dir(ROOT).unwrap().flatten().filter(|entry| entry.path().is_dir());
        let is_other = |folder: &std::fs::DirEntry| OTHERS.iter().any(|other| folder.file_name() == *other);
        let (others, folders): (Vec<_>, Vec<_>) = folders.partition(is_other);
        assert_eq!(files(&folders), shipped(all().iter()));
        assert_eq!(files(&others), shipped(suites().iter().chain(pipelines())));
    }

    /// The files of folders, relative to `scenarios`.
    fn files(folders: &[std::fs::DirEntry]) -> Vec<String> {
        let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten());
        let paths = files.map(|file| file.path()).filter(|path| path.is_file());
        let mut names: Vec<_> =
            paths.map(|path| path.strip_prefix(ROOT).unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn shipped<'a>(builtins: impl Iterator<Item = &'a Builtin>) -> Vec<String> {
        let inside = |builtin: &Builtin| builtin.path.trim_start_matches("scenarios/").to_owned();
        let mut names: Vec<_> = builtins.map(inside).collect();
        names.sort();
        names
    }

    #[test]
    fn every_name_is_unique() {
        let all: Vec<_> = all().iter().chain(suites()).chain(pipelines()).map(|it| it.name).collect();
        let names: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(names.len(), all.len(), "{all:?}");
    }

    #[test]
    fn the_scenario_in_the_readme_can_be_planned() {
        let readme = include_str!("../../../../../README.md");
        let (_, rest) = readme.split_once("```yaml\n").unwrap();
        let (text, _) = rest.split_once("```").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("orders.yaml");
        std::fs::write(&path, text).unwrap();
        let loaded = super::super::load(path.to_str().unwrap(), &[], None).unwrap();
        crate::plan::Plan::build(&loaded).unwrap();
    }

    #[test]
    fn every_shipped_scenario_can_be_planned_and_has_a_question() {
        for builtin in all() {
            let loaded = super::super::load(builtin.name, &[], None).unwrap();
            assert!(loaded.scenario.question.is_some(), "{}", builtin.name);
            crate::plan::Plan::build(&loaded).unwrap();
        }
    }

    #[test]
    fn the_workflow_scenarios_of_two_stores_differ_in_nothing_but_the_store() {
        let tree = |name: &str| {
            let mut scenario = super::super::load(name, &[], None).unwrap().scenario;
            (scenario.title, scenario.question, scenario.collection) = Default::default();
            scenario.workflow.as_mut().unwrap().store = super::super::Store::Mongodb;
            scenario
        };
        let names: Vec<_> = all().iter().filter_map(|it| it.name.strip_prefix("mongo-")).collect();
        assert_eq!(names.len(), 14);
        for name in names {
            assert_eq!(tree(&format!("mongo-{name}")), tree(&format!("postgres-{name}")), "{name}");
        }
    }
}
