//! Lists k6's spellings of keys, and adds them to the schema for editors.

use schemars::Schema;
use serde_json::{Map, Value, json};

/// The spellings of a load's keys: k6's, then Plimsoll's.
const LOAD: [(&str, &str); 2] = [("startTime", "start"), ("gracefulStop", "graceful_stop")];
/// The spellings of a scenario's keys.
const SCENARIO: [(&str, &str); 1] = [("thresholds", "expect")];

/// k6's name of a key, for the error about a duplicate. `None` if k6 uses the same name.
pub fn other_name(key: &str) -> Option<&'static str> {
    LOAD.iter().chain(&SCENARIO).find(|(_, ours)| *ours == key).map(|(theirs, _)| *theirs)
}

/// Adds k6's spellings to the schema of a load.
pub fn of_load(schema: &mut Schema) {
    add(schema, &LOAD);
}

/// Adds k6's spellings to the schema of a scenario.
pub fn of_scenario(schema: &mut Schema) {
    add(schema, &SCENARIO);
}

fn add(schema: &mut Schema, spellings: &[(&str, &str)]) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (theirs, ours) in spellings {
        let meant = properties.get(*ours).cloned().unwrap_or_else(|| Value::Object(Map::new()));
        properties.insert((*theirs).to_owned(), named(meant, ours));
    }
}

fn named(mut meant: Value, ours: &str) -> Value {
    meant["description"] = json!(format!("`{ours}`, as k6 writes it."));
    meant
}

#[cfg(test)]
mod tests {
    use plimsoll_load::arrivals::Arrivals;
    use plimsoll_load::phase::Load;
    use plimsoll_measure::duration::Span;

    use super::*;
    use crate::plan::Plan;
    use crate::{Loaded, Scenario, load};

    /// Loads in the form of k6's `options.scenarios`, with each executor's name before its settings.
    const TYPED: &str = "\
title: t
document: {a: 1}
phases:
  - load:
      ingest:
        operation: {insert: {}}
        tags: {kind: write}
        arrivals: {constant-arrival-rate: {rate: 60000, timeUnit: 1m, duration: 5m, preAllocatedVUs: 20, maxVUs: 100}}
        gracefulStop: 500ms
      users:
        operation: {find: {filter: {}}}
        arrivals: {ramping-vus: {startVUs: 0, stages: [{duration: 1m30s, target: 10}, {duration: 10000, target: 0}]}}
        startTime: 2m
        think: 1s
thresholds:
  http_req_duration{scenario:ingest}: [p(95)<500, {threshold: p(99)<1500, abortOnFail: true, delayAbortEval: 10s}]
  http_req_failed{kind:write}: [rate<0.01]
  dropped_iterations: [count==0]
  ingest.response{phase:phase 1}: [p(99)<50ms]
";

    fn planned(text: &str) -> anyhow::Result<(Loaded, Plan)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("typed.yaml");
        std::fs::write(&path, text).unwrap();
        let loaded = load(path.to_str().unwrap(), &[], None)?;
        let plan = Plan::build(&loaded)?;
        Ok((loaded, plan))
    }

    fn find<'a>(plan: &'a Plan, name: &str) -> &'a Load {
        plan.phases[0].loads.iter().find(|load| load.name == name).unwrap()
    }

    #[test]
    fn a_scenario_with_k6_names_has_the_plan_of_plimsolls_names() {
        let (_, plan) = planned(TYPED).unwrap();
        let (ingest, users) = (find(&plan, "ingest"), find(&plan, "users"));
        assert_eq!(ingest.arrivals, Arrivals::Constant { rate: 1000.0, connections: 100 });
        assert_eq!(ingest.timing.graceful_stop, Some(Span::from_ns(500_000_000)));
        assert_eq!(users.timing.start, Span::from_secs(120));
        assert_eq!(users.arrivals.connections(), 10);
        assert_eq!(users.end(plan.phases[0].stop), Some(Span::from_secs(220)));
        // The phase has no stop condition, so it lasts as long as its longest load.
        assert_eq!(plan.phases[0].stop.duration, Some(Span::from_secs(300)));
        let wanted: Vec<_> = plan.expectations.iter().map(|it| (it.metric.name, it.abort_after)).collect();
        assert_eq!(
            wanted,
            [
                ("skipped", None),
                ("response", None),
                ("response", Some(Span::from_secs(10))),
                ("errors", None),
                ("response", None)
            ]
        );
    }

    #[test]
    fn a_scenario_with_k6_names_reads_back_from_a_run_directory() {
        let (loaded, _) = planned(TYPED).unwrap();
        let (again, _) = planned(&loaded.resolved().unwrap()).unwrap();
        assert_eq!(again.scenario.phases, loaded.scenario.phases);
        assert_eq!(again.scenario.expect, loaded.scenario.expect);
        let tree = loaded.tree().unwrap();
        assert_eq!(loaded.with_tree(tree).unwrap().scenario, loaded.scenario);
    }

    #[test]
    fn a_mistake_in_k6_names_is_refused_with_its_place() {
        for (typed, slip, part) in [
            ("timeUnit", "timeunit", "did you mean `timeUnit`?"),
            ("constant-arrival-rate", "constant-arrivals-rate", "did you mean `constant-arrival-rate`?"),
            ("startTime", "starttime", "did you mean `startTime`?"),
            ("kind: write", "load: write", "every operation has the tag `load` already"),
            ("kind:write", "kind:read", "kind: write"),
            ("p(95)<500", "p95<500", "write for example"),
            ("abortOnFail", "abortOnfail", "unknown key `abortOnfail`"),
            ("think: 1s", "think: 1", "a duration such as 1s"),
        ] {
            let message = format!("{:#}", planned(&TYPED.replace(typed, slip)).unwrap_err());
            assert!(message.contains(part), "{slip}: {message}");
        }
    }

    #[test]
    fn a_scenario_without_k6_names_is_written_without_them() {
        let tree = load("bulk-baseline", &[], None).unwrap().tree().unwrap();
        let load = &tree["phases"][0]["load"]["insert"];
        let keys: Vec<_> = load.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["operation", "arrivals", "overdue"]);
        let all = tree["expect"].as_object().unwrap().values().flat_map(|list| list.as_array().unwrap());
        assert!(all.into_iter().all(Value::is_string));
    }

    #[test]
    fn the_schema_names_both_spellings() {
        let schema = schemars::schema_for!(Scenario);
        let schema = schema.as_value();
        let load = &schema["$defs"]["Load"]["properties"];
        assert_eq!(load["startTime"]["description"], "`start`, as k6 writes it.");
        assert!(load["gracefulStop"].is_object() && schema["properties"]["thresholds"].is_object());
    }
}
