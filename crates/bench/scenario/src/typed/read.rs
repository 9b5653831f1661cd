//! Reads a scenario from a file or from the shipped ones, applies overrides, and reports errors with place and remedy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::oversize_number::oversize_number;
use super::redacted_errors::{of_tree, rendered};
use super::{Kind, Scenario, builtins, mistaken_name, mistaken_text, overrides};
use crate::secret;
use plimsoll_yaml::{Fault, Slip, nearest, text_of};

/// The largest size of a scenario file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The path at the beginning of a message, and after it the invalid key that many messages quote. For example, the path of
/// `document.a.$int: unknown setting "mn"` is `document.a.$int.mn`, and that of `bump: $inc.a: …` is `bump.$inc.a`.
fn path_in(message: &str) -> Option<String> {
    let parts: Vec<&str> =
        message.split(": ").take_while(|part| !part.contains(char::is_whitespace)).collect();
    let is_whole = parts.len() == message.split(": ").count();
    let key = message.split('"').nth(1).unwrap_or_default();
    (!parts.is_empty() && !is_whole).then(|| format!("{}.{key}", parts.join(".").trim_start_matches('.')))
}

/// The invalid value that a message repeats: the first text in backticks, or the text after `got`.
fn value_in(message: &str) -> Option<&str> {
    let quoted = message.split('`').nth(1);
    quoted.or_else(|| message.rsplit_once(", got ").map(|(_, value)| value.trim_matches('"')))
}

/// A scenario with its name and its directory.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The file's stem.
    pub name: String,
    /// The scenario, with overrides applied.
    pub scenario: Scenario,
    /// The directory at which its relative paths start.
    pub base: PathBuf,
    /// Its text, without the overrides.
    source: Arc<Text>,
    /// The overrides, each as `path=value`.
    assignments: Arc<[String]>,
}

impl Loaded {
    /// Locates an error that begins with the path of a value. The result shows the override that set the value, if one did; else
    /// its line in the text.
    pub fn located(&self, error: anyhow::Error) -> anyhow::Error {
        let Text { origin, text, .. } = self.source.as_ref();
        let said = error.root_cause().to_string();
        let Some(path) = path_in(&said) else { return error };
        if let Some(assignment) = self.assignment_of(&path) {
            return error.context(format!("--set {}", secret::shown(assignment)));
        }
        let whole = is_in_template(&path).then(|| plimsoll_yaml::key_of_end(text, &path)).flatten();
        let key = match &whole {
            Some((_, place)) => Some(*place),
            None if is_in_template(&path) => None,
            None => plimsoll_yaml::place_of(text, &path),
        };
        let at = whole.map_or_else(|| path.trim_end_matches('.').to_owned(), |(whole, _)| whole);
        let value = value_in(&said).and_then(|word| plimsoll_yaml::place_of_word(text, &at, word));
        let Some(place) = value.or(key) else { return error };
        let slip = Slip { fault: Fault::Said(format!("{error:#}")), place: Some(place), key: None };
        anyhow!("{origin}: {}", rendered(&slip, text, origin))
    }

    /// The last override that sets the value at a path, or a value around it. A path inside a template is
    /// completed first: the text with its overrides shows where the template is.
    fn assignment_of(&self, path: &str) -> Option<&String> {
        let all = &self.assignments;
        let overridden = || self.source.overridden(all, None).ok();
        let key = || plimsoll_yaml::key_of_end(&overridden()?, path);
        let whole = if is_in_template(path) { key() } else { None };
        let path = whole.map_or_else(|| path.to_owned(), |(whole, _)| whole);
        all.iter().rev().find(|assignment| sets(assignment, &path))
    }

    /// The complete scenario as YAML, as a run saves it. Files have absolute paths, so that an audit finds them from any
    /// directory. Servers are left out, because a URI may hold a password.
    ///
    /// # Errors
    /// When the scenario cannot be written as YAML.
    pub fn resolved(&self) -> anyhow::Result<String> {
        let mut kept = self.scenario.clone();
        kept.server = None;
        kept.servers = Vec::new();
        if let Some(file) = &mut kept.documents_from {
            let path = self.base.join(&file.path);
            file.path = path.canonicalize().unwrap_or(path).to_string_lossy().into_owned();
        }
        if let Some(workflow) = &mut kept.workflow {
            workflow.postgres = None;
        }
        kept.service = kept.service.map(|service| service.rooted(&self.base));
        serde_saphyr::to_string(&kept).map_err(|error| anyhow!("write the scenario as YAML: {error}"))
    }

    /// The scenario as a tree of plain values, without its matrix.
    ///
    /// # Errors
    /// When the scenario cannot be written as a tree.
    pub fn tree(&self) -> anyhow::Result<Value> {
        let scenario = Scenario { matrix: None, ..self.scenario.clone() };
        serde_json::to_value(scenario).context("write the scenario as a tree")
    }

    /// A copy with the scenario replaced by `tree`.
    ///
    /// # Errors
    /// When the tree is not a valid scenario.
    pub fn with_tree(&self, tree: Value) -> anyhow::Result<Self> {
        let scenario = Scenario::deserialize(&tree).map_err(|error| anyhow!(of_tree(&error, &tree)))?;
        Ok(Self { scenario, ..self.clone() })
    }

    /// SHA-256 of the resolved scenario, in hex.
    pub fn hash(&self) -> String {
        let text = serde_json::to_string(&self.scenario).unwrap_or_default();
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Reads the scenario `name`: a path, or the name of a shipped scenario.
///
/// # Errors
/// When the scenario is missing, unreadable or invalid. The error names the place.
pub fn load(name: &str, assignments: &[String], seed: Option<u64>) -> anyhow::Result<Loaded> {
    let source = find(name)?;
    if let Some(said) = mistaken_text(&source.origin, &source.text, Kind::Scenario) {
        bail!(said);
    }
    load_text(source, assignments, seed)
}

/// Reads a scenario from a text.
///
/// # Errors
/// When the scenario or an override is invalid. The error names the place.
pub fn load_text(source: Text, assignments: &[String], seed: Option<u64>) -> anyhow::Result<Loaded> {
    if let Some(slip) = oversize_number(&source.text) {
        bail!("{}: {}", source.origin, rendered(&slip, &source.text, &source.origin));
    }
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
    let (name, base) = (source.name.clone(), source.base.clone());
    Ok(Loaded { name, scenario, base, source: Arc::new(source), assignments: assignments.into() })
}

/// The text of a file, with its origin.
#[derive(Clone, Debug)]
pub struct Text {
    /// The file's stem.
    pub name: String,
    /// The path of the file as the user gave it, or another name of the source for messages.
    pub origin: String,
    /// The contents.
    pub text: String,
    /// The directory at which its relative paths start.
    pub base: PathBuf,
}

impl Text {
    /// The text with overrides and a seed put into it.
    ///
    /// # Errors
    /// When an override is invalid.
    pub fn overridden(&self, assignments: &[String], seed: Option<u64>) -> anyhow::Result<String> {
        if assignments.is_empty() && seed.is_none() {
            return Ok(self.text.clone());
        }
        let mut tree: Value = parse(&self.text, &self.origin)?;
        assignments.iter().try_for_each(|assignment| overrides::set(&mut tree, assignment))?;
        if let Some(seed) = seed {
            overrides::put(&mut tree, "seed", seed.into())?;
        }
        serde_saphyr::to_string(&tree).map_err(|error| anyhow!("write the scenario as YAML: {error}"))
    }

    /// Reads a file of bounded size.
    ///
    /// # Errors
    /// When the file is too large or cannot be read.
    pub fn of_file(path: &Path) -> anyhow::Result<Self> {
        let origin = path.display().to_string();
        let name =
            path.file_stem().map_or_else(|| "scenario".into(), |stem| stem.to_string_lossy().into_owned());
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let base = parent.unwrap_or(Path::new(".")).to_owned();
        let text = text_of(path, FILE_BYTES_MAX)?;
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
    if let Some(said) = mistaken_name(name, Kind::Scenario).filter(|_| !path.is_file()) {
        bail!(said);
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

/// Parses a text, with some of its values overridden.
///
/// # Errors
/// When the text or an override is invalid. The error names the place.
pub fn parse_with<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    assignments: &[String],
) -> anyhow::Result<T> {
    if let Some(slip) = oversize_number(text) {
        bail!("{origin}: {}", rendered(&slip, text, origin));
    }
    if assignments.is_empty() {
        return parse(text, origin);
    }
    let mut value: Value = parse(text, origin)?;
    for assignment in assignments {
        overrides::set(&mut value, assignment)?;
    }
    changed(&value).map_err(|slip| misplaced::<T>((text, origin), assignments, slip))
}

/// Parses the tree that a text and its overrides form.
fn changed<T: DeserializeOwned>(tree: &Value) -> Result<T, Slip> {
    let unwritten =
        |error| Slip { fault: Fault::Said(format!("apply --set: {error}")), place: None, key: None };
    // JSON is YAML as well, and shows a list or a map at its first character.
    plimsoll_yaml::document(&serde_json::to_string(tree).map_err(unwritten)?).map_err(unquoted)
}

/// The slip without the quotes of JSON around the found value: the user may have written none.
fn unquoted(mut slip: Slip) -> Slip {
    if let Fault::WrongValue { found: Some(found), .. } = &mut slip.fault
        && let Some(text) = found.strip_prefix("`\"").and_then(|rest| rest.strip_suffix("\"`"))
    {
        *found = format!("`{text}`");
    }
    slip
}

/// The error for a slip in an overridden text. It shows the line if the slip is in the text itself, else the override that
/// caused it: the user does not see the lines of the overridden text.
fn misplaced<T: DeserializeOwned>(
    (text, origin): (&str, &str),
    assignments: &[String],
    slip: Slip,
) -> anyhow::Error {
    let is_same = |found: Result<T, Slip>| found.is_err_and(|found| found.fault == slip.fault);
    if let Err(own) = plimsoll_yaml::document::<T>(text)
        && own.fault == slip.fault
    {
        return anyhow!("{origin}: {}", rendered(&own, text, origin));
    }
    let mut tree: Value = parse(text, origin).unwrap_or(Value::Null);
    let culprit =
        assignments.iter().find(|it| overrides::set(&mut tree, it).is_ok() && is_same(changed(&tree)));
    let shown = culprit.map(|it| format!("--set {}: ", secret::shown(it))).unwrap_or_default();
    let all = serde_saphyr::to_string(&tree).unwrap_or_default();
    let unplaced = Slip { place: None, ..slip };
    anyhow!("{origin}: {shown}{}", rendered(&unplaced, &all, origin))
}

/// Whether an override sets the value at a path, or a value around it.
fn sets(assignment: &str, path: &str) -> bool {
    let Some((set, _)) = secret::halves(assignment) else { return false };
    let rest = path.strip_prefix(set.trim());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether a path leads into a template. Such a path starts at the template's operation, request or matrix
/// cell, not at the top of the scenario.
fn is_in_template(path: &str) -> bool {
    path.contains('$')
}

fn parse<T: DeserializeOwned>(text: &str, origin: &str) -> anyhow::Result<T> {
    plimsoll_yaml::document(text).map_err(|slip| anyhow!("{origin}: {}", rendered(&slip, text, origin)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::oversize_number::OVERSIZE_NUMBER;

    const SOUND: &str = "title: t\ndocument: {a: 1}\nphases:\n  - load:\n      insert: {operation: {insert: {batch: 10}}, arrivals: {closed: {writers: 2}}}\n    stop: {documents: 1_000}\n";

    fn message(text: &str) -> String {
        parse::<Scenario>(text, "my.yaml").unwrap_err().to_string()
    }

    #[test]
    fn the_example_in_the_manual_is_read() {
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
    fn a_key_under_both_of_its_names_is_refused_with_both_names() {
        let both = message(&format!("{SOUND}expect: {{}}\nthresholds: {{}}\n"));
        assert!(both.contains("`thresholds` is k6's word for `expect`: keep one of them"), "{both}");
        let twice = "startTime: 1s, start: 1s, arrivals:";
        let both = message(&SOUND.replace("arrivals:", twice));
        assert!(both.contains("`startTime` is k6's word for `start`"), "{both}");
    }

    #[test]
    fn a_threshold_that_is_not_a_list_is_refused_with_an_example() {
        let said = message(&format!("{SOUND}thresholds: {{insert.response: p(99)<50ms}}\n"));
        assert!(said.contains("write [\"p(99)<50ms\"]"), "{said}");
    }

    #[test]
    fn a_wrong_type_names_the_line() {
        let message = message(&SOUND.replace("batch: 10", "batch: ten"));
        assert!(message.contains("my.yaml") && message.contains('5') && message.contains("ten"), "{message}");
    }

    #[test]
    fn the_lines_around_an_error_carry_the_name_of_their_file() {
        let fault = SOUND.replace("title:", "titel:");
        let plain = message(&fault);
        assert!(plain.contains("--> my.yaml:1:") && !plain.contains("<input>"), "{plain}");
        let changed = parse_with::<Scenario>(&fault, "my.yaml", &["seed=1".into()]).unwrap_err().to_string();
        assert_eq!(changed, plain, "an override elsewhere moves no line");
        let value = parse_with::<Scenario>(SOUND, "my.yaml", &["seed={".into()]).unwrap_err();
        assert!(!format!("{value:#}").contains("<input>"), "{value:#}");
    }

    #[test]
    fn a_whole_number_that_would_lose_digits_is_refused_with_its_place() {
        for (number, place) in [
            ("99223372036854775808", "line 2, column 15"),
            ("[1, -9223372036854775809]", "line 2, column 19"),
        ] {
            let text = SOUND.replace("{a: 1}", &format!("{{a: {number}}}"));
            let said = load_text(named(&text), &[], None).unwrap_err().to_string();
            assert!(said.starts_with(&format!("my.yaml: {place}: {OVERSIZE_NUMBER}\n")), "{said}");
            let set = [format!("document.b={number}")];
            let said = format!("{:#}", load_text(named(SOUND), &set, None).unwrap_err());
            assert!(said.starts_with("--set document.b: ") && said.contains(OVERSIZE_NUMBER), "{said}");
        }
        let text = SOUND
            .replace("{a: 1}", "{a: {$numberDecimal: '99223372036854775808'}, b: 99223372036854775808.0}");
        assert!(load_text(named(&text), &[], None).is_ok());
    }

    #[test]
    fn a_whole_number_of_more_than_64_bits_is_refused_in_every_file() {
        let text = "source:\n  scan: {filter: {account: 99999999999999999999}}\n";
        for assignments in [vec![], vec!["source.scan.filter={}".to_owned()]] {
            let said = parse_with::<Value>(text, "p.yaml", &assignments).unwrap_err().to_string();
            assert!(said.starts_with(&format!("p.yaml: line 2, column 28: {OVERSIZE_NUMBER}\n")), "{said}");
        }
        let text = text.replace("99999999999999999999", "{$numberDecimal: '99999999999999999999'}");
        assert!(parse_with::<Value>(&text, "p.yaml", &[]).is_ok());
    }

    #[test]
    fn an_invalid_value_is_shown_at_its_own_column() {
        let said = message(&format!("{SOUND}read_preference: secondery\n"));
        assert!(said.starts_with("my.yaml: line 7, column 18: unknown choice `secondery`"), "{said}");
        let text = format!("{SOUND}expect: {{insert.errors: [\"count<1\", \"count=0\"]}}\n");
        let said = located(&text, &[], "expect.insert.errors: cannot read `count=0`: it has no comparison");
        assert!(said.starts_with("my.yaml: line 7, column 37: "), "{said}");
        let text = SOUND.replace("{a: 1}", "{a: 9223372036854775808}");
        let said = located(&text, &[], "document.a: expected a whole number, got 9223372036854775808");
        assert!(said.starts_with("my.yaml: line 2, column 15: "), "{said}");
    }

    #[test]
    fn a_wrong_value_of_an_override_is_named_as_that_argument() {
        for (assignment, part) in [
            ("title=[a]", "my.yaml: --set title=[a]: found a list: write a single value"),
            ("title={a: 1}", "my.yaml: --set title={a: 1}: found a map: write a single value"),
            ("phases.0.stop=x", "my.yaml: --set phases.0.stop=x: found `x`: write "),
            ("seed=many", "my.yaml: --set seed=many: found `many`: write "),
            ("phases.0.stop.document=5", "my.yaml: --set phases.0.stop.document=5: unknown key `document`"),
        ] {
            let all = ["title=b".to_owned(), assignment.to_owned(), "existing=drop".to_owned()];
            let said = parse_with::<Scenario>(SOUND, "my.yaml", &all).unwrap_err().to_string();
            assert!(said.starts_with(part), "{said}");
            assert!(!said.contains("line ") && !said.contains("-->"), "{said}");
        }
    }

    #[test]
    fn an_override_sets_the_value_at_its_path_and_the_values_below() {
        for (set, path, expected) in [
            ("phases.0.stop", "phases.0.stop.duration.", true),
            ("phases.0.stop", "phases.0.stop", true),
            ("phases.0.stop", "phases.0.stopped", false),
            ("phases.0.stop.duration", "phases.0.stop", false),
        ] {
            assert_eq!(sets(&format!("{set}=1"), path), expected, "{set} {path}");
        }
    }

    #[test]
    fn the_override_of_a_template_is_found_by_the_place_of_the_template() {
        let update = "update.update={$inc: {a: {$int: {mx: 9}}}}";
        let text = SOUND.replace("insert: {operation", "bump: {operation");
        let text = text.replace("{insert: {batch: 10}}", "{update: {update: {$inc: {a: {$int: {max: 9}}}}}}");
        let error = "bump: $inc.a.$int: unknown setting \"mx\"";
        let slip = format!("phases.0.load.bump.operation.{update}");
        let key = "phases.0.load.bump.operation.update.update.$inc.a.$int.mx=9".to_owned();
        let innocent = "phases.0.load.bump.arrivals.closed.writers=3".to_owned();
        for (text, assignments, blamed) in [
            (&text, [slip.clone(), innocent.clone()], Some(&slip)),
            (&text, [innocent.clone(), key.clone()], Some(&key)),
            (&text, [slip.clone(), slip.clone()], Some(&slip)),
            (&text.replace("max", "mx"), [innocent.clone(), "seed=1".to_owned()], None),
        ] {
            let said = located(text, &assignments, error);
            match blamed {
                Some(blamed) => assert_eq!(said, format!("--set {blamed}")),
                None => assert!(said.starts_with("my.yaml: line 5, column "), "{said}"),
            }
        }
    }

    #[test]
    fn a_password_in_an_override_is_not_printed() {
        let fault = SOUND.replace("title:", "titel:");
        for (assignment, part) in [
            ("server=mongodb://ann:swordfish@h", "did you mean `title`?"),
            ("http.auth={bearer: {token: swordfish}}", "my.yaml: line 1, column 1: "),
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
    fn a_missing_scenario_suggests_the_nearest() {
        let message = load("bulk-basline", &[], None).unwrap_err().to_string();
        assert!(message.contains("`bulk-baseline`"), "{message}");
    }

    #[test]
    fn the_hash_follows_the_meaning_and_not_the_spelling() {
        let hash = |assignments: &[String]| load("bulk-baseline", assignments, None).unwrap().hash();
        assert_eq!(hash(&[]), hash(&[]));
        assert_ne!(hash(&[]), hash(&["phases.0.stop.duration=7s".into()]));
    }

    fn named(text: &str) -> Text {
        Text { name: "my".into(), origin: "my.yaml".into(), text: text.to_owned(), base: PathBuf::new() }
    }

    fn located(text: &str, assignments: &[String], error: &'static str) -> String {
        let loaded = load_text(named(text), assignments, None).unwrap();
        loaded.located(anyhow!(error).context("scenario my.yaml")).to_string()
    }

    #[test]
    fn an_error_that_begins_with_a_path_shows_its_line() {
        let text = SOUND.replace("{a: 1}", "{a: {$text: {bytez: 1}}}");
        let error = "document.a.$text: unknown setting \"bytez\"; did you mean \"bytes\"?";
        let said = located(&text, &[], error);
        assert!(
            said.starts_with(&format!("my.yaml: line 2, column 24: scenario my.yaml: {error}\n")),
            "{said}"
        );
        assert!(said.contains("2 | document: {a: {$text: {bytez: 1}}}"), "{said}");
        assert_eq!(located(&text, &[], "no server"), "scenario my.yaml");
        assert_eq!(
            located(&text, &["seed=1".to_owned()], error),
            said,
            "an override elsewhere moves no line"
        );
        let set = "document.a.$text={bytez: 2}";
        assert_eq!(located(&text, &[set.to_owned()], error), format!("--set {set}"), "the override is wrong");
        let secret = format!("{text}server: mongodb://u:hidden@h\n");
        let said = located(&secret, &[], error);
        assert!(
            said.contains("line 2, column 24") && !said.contains("hidden") && !said.contains(" | "),
            "{said}"
        );
    }
}
