//! Finds the differences between two runs that should match except for the compared change.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use super::form::Difference;
use crate::run::Run;
use crate::secret::masked;

/// A run to compare.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// Its directory, as the user gave it.
    pub name: String,
    /// Its summary.
    pub run: &'a Run,
    /// Its scenario as resolved, if known.
    pub scenario: Option<Value>,
}

/// Keys of a scenario that do not change the load; the server is compared by run.json.
const WORDS: [&str; 8] = ["title", "question", "collection", "server", "servers", "expect", "matrix", "line"];
/// Facts that may differ between two starts of the same server.
const PASSING: [&str; 2] = ["addresses", "open"];
/// The key of the write concern.
const CONCERN: &str = "write_concern";
/// The key of a search.
const LINE: &str = "line";
/// The longest shown value, in characters.
const SHOWN_MAX: usize = 80;
/// The differences found.
type Found = Vec<Difference>;

/// All differences between two runs. Scenarios are compared by the keys that change the load, or by their hashes if a scenario
/// is unknown.
pub(crate) fn differences(a: &Subject<'_>, b: &Subject<'_>) -> Vec<Difference> {
    let mut found = Vec::new();
    let (one, other) = (a.run, b.run);
    plain("command", &one.command, &other.command, &mut found);
    plain("scenario.shard", &one.scenario.shard, &other.scenario.shard, &mut found);
    if one.scenario.hash != other.scenario.hash || one.scenario.hash.is_empty() {
        scenarios(a, b, &mut found);
    }
    effective_write_concern(one, other, &mut found);
    if one.server != other.server {
        walk("server", Some(&server(one)), Some(&server(other)), &mut found);
    }
    if one.environment != other.environment {
        walk("environment", Some(&tree(&one.environment)), Some(&tree(&other.environment)), &mut found);
    }
    found
}

/// Adds the write concerns of the two runs if they differ although the scenarios do not: they then come from
/// the server's address.
fn effective_write_concern(a: &Run, b: &Run, found: &mut Found) {
    let is_found = found.iter().any(|it| is_varied(&it.path, &[CONCERN.to_owned()]));
    let concern =
        |run: &Run| run.integrity.as_ref().map(|it| it.write_concern.clone()).filter(|it| !it.is_empty());
    if let (Some(one), Some(other), false) = (concern(a), concern(b), is_found) {
        plain(&format!("server.{CONCERN}"), &one, &other, found);
    }
}

/// The keys that change the load of a `run` and differ between two resolved scenarios.
pub fn differing_keys(a: &Value, b: &Value) -> Vec<String> {
    let mut found = Vec::new();
    children("", &load_keys(a, false), &load_keys(b, false), &mut found);
    found.into_iter().map(|it| it.path).collect()
}

/// Whether `path` equals or lies below a varied key.
pub(crate) fn is_varied(path: &str, varied: &[String]) -> bool {
    varied.iter().any(|key| {
        path.strip_prefix(key.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

fn scenarios(a: &Subject<'_>, b: &Subject<'_>, found: &mut Found) {
    let (Some(left), Some(right)) = (&a.scenario, &b.scenario) else {
        return plain("scenario.hash", &a.run.scenario.hash, &b.run.scenario.hash, found);
    };
    let is_search = a.run.command == LINE;
    children("", &load_keys(left, is_search), &load_keys(right, is_search), found);
}

/// The keys of a scenario that change the load, and those of a search.
fn load_keys(scenario: &Value, is_search: bool) -> Map<String, Value> {
    let keys = scenario.as_object().cloned().unwrap_or_default().into_iter();
    keys.filter(|(key, _)| !WORDS.contains(&key.as_str()) || (is_search && key == LINE)).collect()
}

/// The server of a run, without facts that change at every start.
fn server(run: &Run) -> Value {
    let mut server = tree(&run.server);
    if let Some(facts) = server.as_object_mut() {
        facts.retain(|key, _| !PASSING.contains(&key.as_str()));
    }
    server
}

fn tree(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn plain(path: &str, a: &str, b: &str, found: &mut Found) {
    walk(path, Some(&Value::from(a)), Some(&Value::from(b)), found);
}

fn walk(path: &str, a: Option<&Value>, b: Option<&Value>, found: &mut Found) {
    match (a, b) {
        _ if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => children(path, a, b, found),
        // A subtree of only one side is listed by its leaves, because a leaf may be a varied key.
        (Some(Value::Object(a)), None | Some(Value::Null)) if !a.is_empty() => {
            children(path, a, &Map::new(), found);
        }
        (None | Some(Value::Null), Some(Value::Object(b))) if !b.is_empty() => {
            children(path, &Map::new(), b, found);
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.for_each(|(index, (a, b))| walk(&below(path, &index.to_string()), Some(a), Some(b), found));
        }
        _ => {
            let shown = |value: Option<&Value>| value.and_then(|value| shown(path, value));
            found.push(Difference { path: path.to_owned(), a: shown(a), b: shown(b) });
        }
    }
}

fn children(path: &str, a: &Map<String, Value>, b: &Map<String, Value>, found: &mut Found) {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    keys.into_iter().for_each(|key| walk(&below(path, key), a.get(key), b.get(key), found));
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// A value as JSON without secrets, cut if long; nothing for null.
fn shown(path: &str, value: &Value) -> Option<String> {
    let text = masked(path, value).to_string();
    let cut = || text.chars().take(SHOWN_MAX).chain(['…']).collect();
    (!value.is_null()).then(|| if text.chars().count() > SHOWN_MAX { cut() } else { text.clone() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::integrity::Integrity;
    use crate::run::ScenarioFacts;

    fn run(hash: &str) -> Run {
        let scenario = ScenarioFacts { hash: hash.into(), ..ScenarioFacts::default() };
        Run { command: "run".into(), scenario, ..Run::default() }
    }

    fn subject(run: &Run, scenario: Option<Value>) -> Subject<'_> {
        Subject { name: String::new(), run, scenario }
    }

    #[track_caller]
    fn check(a: (&Run, Option<Value>), b: (&Run, Option<Value>), expected: &[(&str, &str, &str)]) {
        let found = differences(&subject(a.0, a.1), &subject(b.0, b.1));
        let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let found: Vec<_> = found.iter().map(|it| (it.path.clone(), word(&it.a), word(&it.b))).collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(path, a, b)| ((*path).to_owned(), (*a).to_owned(), (*b).to_owned()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn scenarios_with_equal_hashes_do_not_differ() {
        check((&run("aa"), None), (&run("aa"), None), &[]);
        check((&run("aa"), Some(json!({"seed": 1}))), (&run("aa"), Some(json!({"seed": 2}))), &[]);
    }

    #[test]
    fn if_hashes_differ_the_keys_that_change_the_load_are_compared() {
        let base = json!({"title": "x", "collection": "a.b_1", "client": "lean", "phases": [{"stop": {"documents": 5}}]});
        let other = json!({"title": "y", "collection": "a.b_2", "client": "lean", "phases": [{"stop": {"documents": 5}}]});
        check((&run("aa"), Some(base.clone())), (&run("bb"), Some(other)), &[]);
        let other = json!({"client": "driver", "phases": [{"stop": {"duration": "2s"}}], "seed": 3});
        check(
            (&run("aa"), Some(base)),
            (&run("bb"), Some(other)),
            &[
                ("client", "\"lean\"", "\"driver\""),
                ("phases.0.stop.documents", "5", "-"),
                ("phases.0.stop.duration", "-", "\"2s\""),
                ("seed", "-", "3"),
            ],
        );
    }

    #[test]
    fn differing_secrets_are_listed_without_their_values() {
        let bearer = |token: &str| json!({"http": {"auth": {"bearer": {"token": token}}}});
        check(
            (&run("aa"), Some(bearer("one"))),
            (&run("bb"), Some(bearer("two"))),
            &[("http.auth.bearer.token", "\"…\"", "\"…\"")],
        );
        check(
            (&run("aa"), Some(bearer("one"))),
            (&run("bb"), Some(json!({"service": "mongodb://ann:two@h"}))),
            &[("http.auth.bearer.token", "\"…\"", "-"), ("service", "-", "\"mongodb://…@h\"")],
        );
    }

    #[test]
    fn a_subtree_of_one_side_is_listed_by_its_leaves() {
        let plain = || json!({"document": {"n": 1}, "reach": null, "id": {}});
        let added =
            || json!({"document": {"n": 1, "extra": {"$text": {"bytes": 100}}}, "reach": {"share": 0.9}});
        let leaves =
            [("document.extra.$text.bytes", "-", "100"), ("id", "{}", "-"), ("reach.share", "-", "0.9")];
        check((&run("aa"), Some(plain())), (&run("bb"), Some(added())), &leaves);
        let turned = leaves.map(|(path, a, b)| (path, b, a));
        check((&run("aa"), Some(added())), (&run("bb"), Some(plain())), &turned);
        let varied = ["document.extra.$text.bytes".to_owned()];
        assert!(is_varied(leaves[0].0, &varied) && !is_varied(leaves[2].0, &varied));
    }

    #[test]
    fn differing_keys_are_those_that_change_the_load() {
        let a = json!({"title": "x", "retry": "none", "line": {"start": 1}, "document": {"n": 1}});
        let b = json!({"title": "y", "retry": {"attempts": 3}, "line": {"start": 2}, "document": {"n": 1, "m": {"o": 2}}});
        assert_eq!(differing_keys(&a, &b), ["document.m.o", "retry"]);
        assert!(differing_keys(&a, &a).is_empty());
    }

    #[test]
    fn an_objective_is_compared_only_in_searches() {
        let of = |rate: u32| Some(json!({"line": {"start": rate}}));
        check((&run("aa"), of(1)), (&run("bb"), of(2)), &[]);
        let line = |hash: &str| Run { command: "line".into(), ..run(hash) };
        check((&line("aa"), of(1)), (&line("bb"), of(2)), &[("line.start", "1", "2")]);
    }

    #[test]
    fn without_a_scenario_the_hashes_are_compared() {
        check((&run("aa"), None), (&run("bb"), Some(json!({}))), &[("scenario.hash", "\"aa\"", "\"bb\"")]);
    }

    #[test]
    fn a_restarted_server_is_equal_and_another_version_is_not() {
        let mut other = run("aa");
        other.server.addresses = vec!["127.0.0.1:5".into()];
        check((&run("aa"), None), (&other, None), &[]);
        other.server.version = Some("8.0".into());
        other.environment.cores = 4;
        check(
            (&run("aa"), None),
            (&other, None),
            &[("server.version", "-", "\"8.0\""), ("environment.cores", "0", "4")],
        );
    }

    #[test]
    fn a_write_concern_of_the_address_is_a_difference() {
        let with = |hash: &str, concern: &str| {
            let integrity = Integrity { write_concern: concern.into(), ..Integrity::default() };
            Run { integrity: Some(integrity), ..run(hash) }
        };
        let (one, all) = (with("aa", r#"{"w": 1}"#), with("aa", r#"{"w": "majority"}"#));
        let shown = [("server.write_concern", r#""{\"w\": 1}""#, r#""{\"w\": \"majority\"}""#)];
        check((&one, None), (&all, None), &shown);
        check((&one, None), (&one.clone(), None), &[]);
        check((&one, None), (&run("aa"), None), &[]);
        let other = with("bb", r#"{"w": "majority"}"#);
        let typed = |w: Value| Some(json!({"write_concern": {"w": w}}));
        check(
            (&one, typed(json!(1))),
            (&other, typed(json!("majority"))),
            &[("write_concern.w", "1", "\"majority\"")],
        );
        assert!(is_varied("server.write_concern", &["server".to_owned()]));
    }

    #[test]
    fn a_varied_key_covers_the_keys_below() {
        let varied = ["server".to_owned(), "phases.0.stop".to_owned()];
        for (path, expected) in [
            ("server", true),
            ("server.version", true),
            ("servers", false),
            ("phases.0.stop.documents", true),
            ("phases.0", false),
        ] {
            assert_eq!(is_varied(path, &varied), expected, "{path}");
        }
    }
}
