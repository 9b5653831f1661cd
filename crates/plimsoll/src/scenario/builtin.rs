//! The scenarios and suites that are shipped in the binary.

/// A shipped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Its name: the file's stem.
    pub name: &'static str,
    /// Where it lies in the source, from the root.
    pub path: &'static str,
    /// The file.
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
            text: include_str!(concat!("../../../../scenarios/", $folder, "/", $name, $ending)),
        }),*]
    };
}

/// Every shipped scenario, in the order of `plimsoll scenarios`.
pub const fn all() -> &'static [Builtin] {
    static ALL: [Builtin; 41] = shipped![
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
        "mixed" / "ycsb-a",
        "mixed" / "ycsb-b",
        "mixed" / "ycsb-c",
        "mixed" / "ycsb-d",
        "mixed" / "ycsb-e",
        "mixed" / "ycsb-f",
        "mixed" / "time-share",
        "faults" / "kill",
        "faults" / "hang",
        "faults" / "cut",
        "faults" / "slow-network",
        "faults" / "lossy",
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
        "selftest" / "freeze",
        "selftest" / "forget",
        "selftest" / "flip",
        "selftest" / "lies",
        "selftest" / "rate",
    ];
    &ALL
}

/// Every shipped suite, likewise.
pub const fn suites() -> &'static [Builtin] {
    static TABLES: [Builtin; 2] = {
        let [table] = shipped![".csv": "suite" / "write-cost"];
        let [yaml] = shipped!["suite" / "strategies-stack"];
        [table, yaml]
    };
    &TABLES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where suites are, among the folders of scenarios.
    const SUITES: &str = "suite";

    #[test]
    fn every_file_below_scenarios_is_shipped() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let folders = std::fs::read_dir(root).unwrap().flatten().filter(|entry| entry.path().is_dir());
        let is_suites = |folder: &std::fs::DirEntry| folder.file_name() == SUITES;
        let (suites, folders): (Vec<_>, Vec<_>) = folders.partition(is_suites);
        assert_eq!(suites.len(), 1);
        hold(&suites[0].path(), super::suites());
        let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten());
        let scenarios = files.map(|file| file.path()).filter(|path| path.is_file());
        let mut found: Vec<_> =
            scenarios.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        found.sort();
        let mut shipped: Vec<_> = all().iter().map(|builtin| builtin.name).collect();
        shipped.sort_unstable();
        assert_eq!(found, shipped);
    }

    /// Every file of a folder is shipped, and no other.
    fn hold(folder: &std::path::Path, shipped: &[Builtin]) {
        let files = std::fs::read_dir(folder).unwrap().flatten();
        let mut found: Vec<_> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        found.sort();
        let mut names: Vec<_> =
            shipped.iter().map(|builtin| builtin.path.trim_start_matches("scenarios/suite/")).collect();
        names.sort_unstable();
        assert_eq!(found, names);
    }

    #[test]
    fn every_shipped_suite_can_be_meant_and_says_its_question() {
        for builtin in suites() {
            let loaded = crate::suite::read::load(builtin.name).unwrap();
            assert!(loaded.suite.question.is_some(), "{}", builtin.name);
            let tests = crate::suite::meant::build(&loaded, &Default::default()).unwrap();
            assert!(tests.len() > 1, "{}", builtin.name);
            assert!(!all().iter().any(|scenario| scenario.name == builtin.name), "one name for two things");
        }
    }

    #[test]
    fn the_scenario_in_the_readme_can_be_planned() {
        let readme = include_str!("../../../../README.md");
        let (_, rest) = readme.split_once("```yaml\n").unwrap();
        let (text, _) = rest.split_once("```").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("orders.yaml");
        std::fs::write(&path, text).unwrap();
        let loaded = super::super::load(path.to_str().unwrap(), &[], None).unwrap();
        crate::plan::Plan::build(&loaded).unwrap();
    }

    #[test]
    fn every_shipped_scenario_can_be_planned_and_says_its_question() {
        for builtin in all() {
            let loaded = super::super::load(builtin.name, &[], None).unwrap();
            assert!(loaded.scenario.question.is_some(), "{}", builtin.name);
            crate::plan::Plan::build(&loaded).unwrap();
        }
    }

    #[test]
    fn every_cell_of_a_shipped_matrix_can_be_planned() {
        use crate::matrix::cells::{expand, refuse};
        use crate::matrix::choice::Choice;
        for builtin in all() {
            let loaded = super::super::load(builtin.name, &[], None).unwrap();
            let Some(matrix) = loaded.scenario.matrix.clone() else { continue };
            refuse(&loaded, &matrix).unwrap();
            let every: Vec<_> = matrix.axes.iter().map(|axis| format!("{}=all", axis.name)).collect();
            for words in [Vec::new(), every] {
                let choice = Choice::read(&matrix, &words).unwrap();
                assert!(!expand(&loaded, &matrix, &choice).unwrap().cells.is_empty(), "{}", builtin.name);
            }
        }
    }
}
