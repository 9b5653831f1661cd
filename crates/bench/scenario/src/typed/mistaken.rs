//! Recognises a file or directory that another command takes, and names that command.

use std::fmt;
use std::fs;
use std::path::Path;

use super::{builtins, pipelines, suites};

/// The kind of a file that a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A scenario.
    Scenario,
    /// A pipeline.
    Pipeline,
    /// A suite of tests.
    Suite,
}

/// The directories that commands write: a file that only such a directory has, the kind of the directory, and
/// the command that reads it.
const DIRECTORIES: [(&str, &str, &str); 5] = [
    ("events.ndjson", "the directory of a run", "plimsoll show"),
    ("matrix.json", "the directory of a matrix", "plimsoll show"),
    ("suite.json", "the directory of a suite", "plimsoll show"),
    ("comparison.json", "the directory of a comparison", "plimsoll show"),
    ("seconds.ndjson", "the directory of a pipeline's run", "cat"),
];

impl Kind {
    const ALL: [Self; 3] = [Self::Scenario, Self::Pipeline, Self::Suite];

    /// The command that takes the kind.
    const fn command(self) -> &'static str {
        match self {
            Self::Scenario => "plimsoll run",
            Self::Pipeline => "plimsoll pipeline run",
            Self::Suite => "plimsoll suite",
        }
    }

    /// The keys that only files of the kind have at their top level.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Scenario => &["phases"],
            Self::Pipeline => &["source", "sink"],
            Self::Suite => &["tests"],
        }
    }

    fn is_shipped(self, name: &str) -> bool {
        let all = match self {
            Self::Scenario => builtins(),
            Self::Pipeline => pipelines(),
            Self::Suite => suites(),
        };
        all.iter().any(|builtin| builtin.name == name)
    }

    fn is_of(self, text: &str) -> bool {
        let has = |key: &str| {
            text.lines()
                .any(|line| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':')))
        };
        self.keys().iter().all(|key| has(key))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scenario => "a scenario",
            Self::Pipeline => "a pipeline",
            Self::Suite => "a suite",
        })
    }
}

/// Explains a name that is a directory, or a shipped file of another kind. `None` for any other name.
pub fn mistaken_name(name: &str, wanted: Kind) -> Option<String> {
    if Path::new(name).is_dir() {
        return Some(directory(Path::new(name), wanted));
    }
    let kind = Kind::ALL.into_iter().find(|kind| kind.is_shipped(name)).filter(|kind| *kind != wanted)?;
    Some(format!("{name} is {kind} that Plimsoll ships: run it with `{} {name}`", kind.command()))
}

/// Explains a file that is of another kind, by its ending or its keys. `None` if no other kind is recognised.
pub fn mistaken_text(origin: &str, text: &str, wanted: Kind) -> Option<String> {
    if let Some(said) = result(Path::new(origin), text) {
        return Some(said);
    }
    let is_table = Path::new(origin).extension().is_some_and(|ending| ending == "csv");
    let kind = if is_table { Kind::Suite } else { Kind::ALL.into_iter().find(|kind| kind.is_of(text))? };
    let is_other = kind != wanted && (is_table || !wanted.is_of(text));
    is_other.then(|| format!("{origin} is {kind}: run it with `{} {origin}`", kind.command()))
}

/// Explains a JSON file of results: only such a file begins with the key `format`.
fn result(file: &Path, text: &str) -> Option<String> {
    let is_json = file.extension().is_some_and(|ending| ending == "json");
    let begins = text.trim_start().strip_prefix('{')?.trim_start().starts_with("\"format\"");
    let shown = file.display();
    (is_json && begins)
        .then(|| format!("{shown} is a result, not an input: see it with `plimsoll show {shown}`"))
}

fn directory(path: &Path, wanted: Kind) -> String {
    let shown = path.display();
    if let Some((file, kind, command)) = DIRECTORIES.iter().find(|(file, ..)| path.join(file).is_file()) {
        let operand = if *command == "cat" { format!("{shown}/pipeline.json") } else { shown.to_string() };
        let again = match *file {
            "events.ndjson" => {
                format!(", or run its scenario again with `plimsoll run {shown}/scenario.yaml`")
            }
            "seconds.ndjson" => {
                format!(", or run its pipeline again with `plimsoll pipeline run {shown}/pipeline.yaml`")
            }
            "suite.json" => format!(", or continue it with `plimsoll suite --resume {shown}`"),
            _ => String::new(),
        };
        return format!("{shown} is {kind}: see its result with `{command} {operand}`{again}");
    }
    let example = first_file(path).map(|file| format!(", such as `{} {file}`", wanted.command()));
    format!("{shown} is a directory: name the file of {wanted}{}", example.unwrap_or_default())
}

/// The first YAML file of a directory, in order of names.
fn first_file(directory: &Path) -> Option<String> {
    let files = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path());
    let is_yaml = |path: &Path| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    files.filter(|path| is_yaml(path)).min().map(|path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_recognised_and_the_command_that_shows_it_named() {
        let said = mistaken_text("f1/run.json", "{\n  \"format\": 1,", Kind::Scenario);
        assert_eq!(
            said.unwrap(),
            "f1/run.json is a result, not an input: see it with `plimsoll show f1/run.json`"
        );
        assert_eq!(mistaken_text("s.json", "{\"phases\": []}", Kind::Scenario), None);
    }

    #[test]
    fn a_file_of_another_kind_is_recognised_and_its_command_named() {
        let pipeline = "source: {generator: {}}\nsink: {noop: {}}\n";
        for (origin, text, wanted, expected) in [
            (
                "p.yaml",
                pipeline,
                Kind::Scenario,
                Some("p.yaml is a pipeline: run it with `plimsoll pipeline run p.yaml`"),
            ),
            ("p.yaml", pipeline, Kind::Pipeline, None),
            (
                "s.yaml",
                "title: t\nphases: []\n",
                Kind::Pipeline,
                Some("s.yaml is a scenario: run it with `plimsoll run s.yaml`"),
            ),
            (
                "t.csv",
                "name,scenario\n",
                Kind::Scenario,
                Some("t.csv is a suite: run it with `plimsoll suite t.csv`"),
            ),
            (
                "t.yaml",
                "tests:\n  - {}\n",
                Kind::Scenario,
                Some("t.yaml is a suite: run it with `plimsoll suite t.yaml`"),
            ),
            ("t.yaml", "titel: t\n", Kind::Scenario, None),
            ("t.yaml", "phases: []\ntests: []\n", Kind::Suite, None),
            ("t.yaml", "  source: a\n  sink: b\n", Kind::Scenario, None),
        ] {
            assert_eq!(mistaken_text(origin, text, wanted).as_deref(), expected, "{origin}: {text}");
        }
    }

    #[test]
    fn a_shipped_name_of_another_kind_is_recognised() {
        let said = mistaken_name("generator-to-noop", Kind::Scenario).unwrap();
        assert!(
            said.contains("a pipeline") && said.contains("`plimsoll pipeline run generator-to-noop`"),
            "{said}"
        );
        let said = mistaken_name("bulk-baseline", Kind::Suite).unwrap();
        assert!(said.contains("`plimsoll run bulk-baseline`"), "{said}");
        assert_eq!(mistaken_name("bulk-baseline", Kind::Scenario), None);
        assert_eq!(mistaken_name("no-such", Kind::Scenario), None);
    }

    #[test]
    fn a_directory_names_the_command_that_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().to_str().unwrap();
        let said = || mistaken_name(name, Kind::Pipeline).unwrap();
        assert!(said().ends_with("is a directory: name the file of a pipeline"), "{}", said());
        fs::write(dir.path().join("b.yaml"), "").unwrap();
        assert!(said().ends_with(&format!("such as `plimsoll pipeline run {name}/b.yaml`")), "{}", said());
        for (file, _, command) in DIRECTORIES {
            let path = dir.path().join(file);
            fs::write(&path, "").unwrap();
            assert!(said().contains(&format!("`{command} {name}")), "{}", said());
            fs::remove_file(&path).unwrap();
        }
    }
}
