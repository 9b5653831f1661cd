//! Tests a small form of the shipped baseline, as CI runs it: on its own service, and against a running
//! service.

use std::path::Path;

use serde_json::Value;

use crate::program::{json, plimsoll_with, shared};
use crate::service::Service;

/// The database of both tests: the running service serves the data that the first run filled in.
const DATABASE: &str = "baseline_short";
/// The number of sensors, and of users, of the small baseline.
const FEW: u64 = 20;

/// Runs the baseline for four seconds, on few sensors and users, without the thresholds, which a busy machine
/// would break.
fn run(dir: &Path, args: &[&str]) -> Value {
    let family = |load: &str, place: &str, prefix: &str| {
        format!(
            "phases.0.load.{load}.request.{place}={{$family: {{prefix: {prefix}-, count: {FEW}, digits: 1}}}}"
        )
    };
    let values = [
        "phases.0.stop.duration=4s".to_owned(),
        "expect={errors: [\"count==0\"], checks: [\"rate==1\"]}".to_owned(),
        family("ingest", "body.sensorId", "sensor"),
        family("feed", "with.user", "user"),
        family("statistics", "with.sensor", "sensor"),
    ];
    let out = dir.join("run");
    let mut words = vec!["run", "baseline-short", "--json", "--out", out.to_str().unwrap()];
    words.extend(values.iter().flat_map(|value| ["--set", value.as_str()]));
    words.extend(args);
    json(&plimsoll_with(&words))
}

/// Checks that every due operation was sent and answered as expected.
#[track_caller]
fn check(run: &Value) {
    for (operation, status, count) in
        [("ingest", "201", 800), ("feed", "200", 160), ("statistics", "200", 20)]
    {
        let answers = run["answers"].as_array().unwrap();
        let answers = answers.iter().find(|it| it["operation"] == operation).unwrap();
        assert_eq!(answers["statuses"][status], count, "{run}");
        for check in answers["checks"].as_array().unwrap() {
            assert_eq!(
                (&check["passed"], &check["failed"]),
                (&count.into(), &0.into()),
                "{operation}: {check}"
            );
        }
        assert!(
            answers["checks"].as_array().unwrap().len() > 1,
            "more than the status is checked: {answers}"
        );
    }
    for expectation in run["expectations"].as_array().unwrap() {
        assert_eq!(expectation["held"], true, "{expectation}");
    }
}

#[test]
fn the_ci_baseline_passes_all_checks() {
    let dir = tempfile::tempdir().unwrap();
    let fill = format!(
        "service.telemetry.fill={{sensors: {FEW}, over: 1h, every: 30s, users: {FEW}, follows: 3, activities: 4}}"
    );
    let database = format!("service.telemetry.settings.database.name={DATABASE}");
    let set = ["--set", &fill, "--set", &database];
    check(&run(dir.path(), &[&set[..], &["--server", &shared()]].concat()));
    // The same against a running service with the same data.
    let (service, dir) = (Service::on_shared(DATABASE), tempfile::tempdir().unwrap());
    let url = format!("http://{}", service.address);
    check(&run(dir.path(), &["--set", "service=null", "--server", &url]));
}

#[test]
fn the_baseline_fails_on_empty_answers() {
    let dir = tempfile::tempdir().unwrap();
    let fill = "service.telemetry.fill={sensors: 20, over: 5m, every: 30s, users: 20}";
    let database = "service.telemetry.settings.database.name=baseline_empty";
    let run = run(dir.path(), &["--set", fill, "--set", database, "--server", &shared()]);
    assert_eq!(run["verdict"], "fail", "{run}");
    for operation in ["feed", "statistics"] {
        assert_eq!(
            run["operations"][operation]["count"], 0,
            "every answer was 200, and none contained enough: {run}"
        );
    }
}
