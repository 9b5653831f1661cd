//! Reads a scenario from a file or from the shipped ones, applies overrides, and reports errors with place and remedy.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::redacted_errors::{of_tree, rendered};
use super::{Scenario, alias, builtins, overrides};
use crate::secret;

/// No scenario file is larger, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// A known key this similar to an unknown one (Jaro–Winkler) is suggested.
const SIMILAR_MIN: f64 = 0.75;

/// A scenario that was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The file's stem.
    pub name: String,
    /// The scenario, with overrides applied.
    pub scenario: Scenario,
    /// Where relative paths in it start.
    pub base: PathBuf,
}

impl Loaded {
    /// The scenario as YAML, everything spelt out, as it is kept with a run: files by their whole path, so that an audit
    /// finds them from anywhere, and no server, whose URI may hold a password.
    ///
    /// # Errors
    /// When it cannot be written as YAML.
    pub fn resolved(&self) -> anyhow::Result<String> {
        let mut kept = self.scenario.clone();
        kept.server = None;
        kept.servers = Vec::new();
        if let Some(file) = &mut kept.documents_from {
            let path = self.base.join(&file.path);
            file.path = path.canonicalize().unwrap_or(path).to_string_lossy().into_owned();
        }
        kept.service = kept.service.map(|service| service.rooted(&self.base));
        serde_saphyr::to_string(&kept).map_err(|error| anyhow!("write the scenario as YAML: {error}"))
    }

    /// The scenario as a tree of plain values, without its matrix.
    ///
    /// # Errors
    /// When it cannot be written as one.
    pub fn tree(&self) -> anyhow::Result<Value> {
        let scenario = Scenario { matrix: None, ..self.scenario.clone() };
        serde_json::to_value(scenario).context("write the scenario as a tree")
    }

    /// The scenario that `tree` says, in the place of this one.
    ///
    /// # Errors
    /// What in it cannot be understood.
    pub fn with_tree(&self, tree: Value) -> anyhow::Result<Self> {
        let scenario = Scenario::deserialize(&tree).map_err(|error| explained(&of_tree(&error, &tree)))?;
        Ok(Self { scenario, ..self.clone() })
    }

    /// SHA-256 of the scenario as resolved, in hex.
    pub fn hash(&self) -> String {
        let text = serde_json::to_string(&self.scenario).unwrap_or_default();
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Reads the scenario `name`: a path, or the name of a shipped one.
///
/// # Errors
/// What cannot be found, read or understood, and where.
pub fn load(name: &str, assignments: &[String], seed: Option<u64>) -> anyhow::Result<Loaded> {
    let source = find(name)?;
    let mut scenario = parse::<Scenario>(&source.text, &source.origin)?;
    if !assignments.is_empty() {
        scenario = parse_with(&source.text, &source.origin, assignments)?;
    }
    if let Some(seed) = seed {
        scenario.seed = seed;
    }
    if scenario.collection.is_empty() {
        scenario.collection = format!("plimsoll.{}", source.name.replace(['-', '.'], "_"));
    }
    Ok(Loaded { name: source.name, scenario, base: source.base })
}

/// A file that a person wrote.
#[derive(Debug)]
pub struct Text {
    /// The file's stem.
    pub name: String,
    /// The file, as it was named.
    pub origin: String,
    /// The contents.
    pub text: String,
    /// Where relative paths in it start.
    pub base: PathBuf,
}

impl Text {
    /// Reads a file of bounded size.
    ///
    /// # Errors
    /// When it is too large or cannot be read.
    pub fn of_file(path: &Path) -> anyhow::Result<Self> {
        let origin = path.display().to_string();
        let size = path.metadata().map_or(0, |metadata| metadata.len());
        if size > FILE_BYTES_MAX {
            bail!("{origin} has {size} bytes: such a file has at most {FILE_BYTES_MAX}");
        }
        let name =
            path.file_stem().map_or_else(|| "scenario".into(), |stem| stem.to_string_lossy().into_owned());
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let base = parent.unwrap_or(Path::new(".")).to_owned();
        let text = fs::read_to_string(path).with_context(|| format!("read {origin}"))?;
        Ok(Self { name, origin, text, base })
    }
}

fn find(name: &str) -> anyhow::Result<Text> {
    let path = Path::new(name);
    if let Some(builtin) = builtins().iter().find(|builtin| builtin.name == name).filter(|_| !path.is_file())
    {
        let (name, origin) = (builtin.name.to_owned(), builtin.path.to_owned());
        return Ok(Text { name, origin, text: builtin.text.to_owned(), base: PathBuf::from(".") });
    }
    if !path.is_file() {
        bail!("there is no scenario `{name}`: {}", suggestion(name));
    }
    Text::of_file(path)
}

fn suggestion(name: &str) -> String {
    let names: Vec<_> = builtins().iter().map(|builtin| builtin.name).collect();
    match nearest(name, &names) {
        Some(near) => format!("no such file, and the nearest shipped one is `{near}`"),
        None => format!("no such file, and the shipped ones are {}", names.join(", ")),
    }
}

/// Reads a text with some of its values replaced.
///
/// # Errors
/// What cannot be understood, and where.
pub fn parse_with<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    assignments: &[String],
) -> anyhow::Result<T> {
    if assignments.is_empty() {
        return parse(text, origin);
    }
    let mut value: Value = parse(text, origin)?;
    for assignment in assignments {
        overrides::set(&mut value, assignment)?;
    }
    let text = serde_saphyr::to_string(&value).map_err(|error| anyhow!("apply --set: {error}"))?;
    let shown: Vec<_> = assignments.iter().map(|it| secret::shown(it)).collect();
    parse(&text, &format!("{origin} with --set {}", shown.join(" --set ")))
}

fn parse<T: DeserializeOwned>(text: &str, origin: &str) -> anyhow::Result<T> {
    serde_saphyr::from_str(text)
        .map_err(|error| anyhow!("{origin}: {}", explained(&rendered(&error, text, origin))))
}

/// The error of a parser, with the nearest known key for an unknown one.
fn explained(message: &str) -> anyhow::Error {
    let hint = unknown_key(message).or_else(|| double_key(message));
    anyhow!("{message}{}", hint.map(|hint| format!("\n{hint}")).unwrap_or_default())
}

/// For a key that is there twice, which may be under both of its names: the parser calls it `duplicate field `x``.
fn double_key(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("duplicate field ")?;
    let key = rest.split('`').nth(1)?;
    let theirs = alias::other_name(key)?;
    Some(format!("`{theirs}` is k6's word for `{key}`: keep one of them"))
}

/// For an unknown key, the nearest known one: the parser lists them as `unknown field `x`, expected one of a, b`.
fn unknown_key(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("unknown ")?;
    let unknown = rest.split('`').nth(1)?;
    let (_, list) = rest.split_once("expected ")?;
    let list = list.lines().next()?.trim_start_matches("one of ");
    let known: Vec<_> = list.split(", ").map(|name| name.trim_matches(['`', ' '])).collect();
    nearest(unknown, &known).map(|near| format!("did you mean `{near}`?"))
}

/// The known name that is most like `name`, if any is.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= SIMILAR_MIN).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "title: t\ndocument: {a: 1}\nphases:\n  - load:\n      insert: {operation: {insert: {batch: 10}}, arrivals: {closed: {writers: 2}}}\n    stop: {documents: 1_000}\n";

    fn message(text: &str) -> String {
        parse::<Scenario>(text, "my.yaml").unwrap_err().to_string()
    }

    #[test]
    fn the_taste_of_the_manual_is_read() {
        let scenario: Scenario = parse(SOUND, "my.yaml").unwrap();
        assert_eq!(scenario.phases[0].stop.documents, Some(1000));
    }

    #[test]
    fn a_misspelt_key_names_file_line_and_the_nearest_key() {
        let message = message(&SOUND.replace("title:", "titel:"));
        assert!(message.contains("my.yaml") && message.contains("titel"), "{message}");
        assert!(message.contains("did you mean `title`?") && message.contains('1'), "{message}");
    }

    #[test]
    fn a_misspelt_key_deep_inside_is_found_too() {
        let message = message(&SOUND.replace("writers", "writer"));
        assert!(message.contains("did you mean `writers`?"), "{message}");
    }

    #[test]
    fn a_key_under_both_of_its_names_is_told_that_they_are_one() {
        let both = message(&format!("{SOUND}expect: {{}}\nthresholds: {{}}\n"));
        assert!(both.contains("`thresholds` is k6's word for `expect`: keep one of them"), "{both}");
        let twice = "startTime: 1s, start: 1s, arrivals:";
        let both = message(&SOUND.replace("arrivals:", twice));
        assert!(both.contains("`startTime` is k6's word for `start`"), "{both}");
    }

    #[test]
    fn a_threshold_that_is_no_list_is_told_how_to_be_one() {
        let said = message(&format!("{SOUND}thresholds: {{insert.response: p(99)<50ms}}\n"));
        assert!(said.contains("write [\"p(99)<50ms\"]"), "{said}");
    }

    #[test]
    fn a_wrong_type_names_the_line() {
        let message = message(&SOUND.replace("batch: 10", "batch: ten"));
        assert!(message.contains("my.yaml") && message.contains('5') && message.contains("ten"), "{message}");
    }

    #[test]
    fn the_lines_around_a_fault_stand_under_the_name_of_their_file() {
        let fault = SOUND.replace("title:", "titel:");
        let plain = message(&fault);
        assert!(plain.contains("--> my.yaml:1:") && !plain.contains("<input>"), "{plain}");
        // They are those of the file as changed, which has other lines than the file.
        let changed = parse_with::<Scenario>(&fault, "my.yaml", &["seed=1".into()]).unwrap_err().to_string();
        assert!(changed.contains("--> my.yaml with --set seed=1:"), "{changed}");
        let value = parse_with::<Scenario>(SOUND, "my.yaml", &["seed={".into()]).unwrap_err();
        assert!(!format!("{value:#}").contains("<input>"), "{value:#}");
    }

    #[test]
    fn a_password_in_a_replaced_value_is_not_told() {
        let fault = SOUND.replace("title:", "titel:");
        for (assignment, part) in [
            ("server=mongodb://ann:swordfish@h", "did you mean `title`?"),
            ("http.auth={bearer: {token: swordfish}}", "my.yaml with --set http.auth=…: "),
        ] {
            let said = parse_with::<Scenario>(&fault, "my.yaml", &[assignment.into()]).unwrap_err();
            assert!(said.to_string().contains(part), "{said:#}");
            assert!(!format!("{said:#}").contains("swordfish"), "{said:#}");
        }
        let wrong = ["seed=mongodb://ann:swordfish@h".into()];
        let said = parse_with::<Scenario>(SOUND, "my.yaml", &wrong).unwrap_err().to_string();
        assert!(said.contains("--set seed=mongodb://…@h: ") && !said.contains("swordfish"), "{said}");
    }

    #[test]
    fn a_scenario_that_is_not_there_suggests_the_nearest() {
        let message = load("bulk-basline", &[], None).unwrap_err().to_string();
        assert!(message.contains("`bulk-baseline`"), "{message}");
    }

    #[test]
    fn the_hash_follows_the_meaning_and_not_the_spelling() {
        let hash = |assignments: &[String]| load("bulk-baseline", assignments, None).unwrap().hash();
        assert_eq!(hash(&[]), hash(&[]));
        assert_ne!(hash(&[]), hash(&["phases.0.stop.duration=7s".into()]));
    }
}
