//! Tests loads that open a connection for each operation.

use std::path::Path;
use std::process::Command;

use bson::rawdoc;
use serde_json::{Value, json};

use crate::operations::{all_held, ask, shipped};
use crate::program::{impatient, inserts, json, plimsoll_with, scenario, shared, stderr};

/// A scenario of finds by key after 200 inserts; `connections` is the setting of the finds.
fn finds(collection: &str, connections: &str, operations: u32) -> String {
    let fill = inserts(collection, 50, "{documents: 200}");
    format!(
        "{fill}  - load:\n      find:\n        operation: {{find: {{}}}}\n        arrivals: {{closed: {{writers: 2}}}}\n        \
         connections: {connections}\n    stop: {{operations: {operations}}}\n"
    )
}

/// The number of connections that the shared server has accepted.
fn accepted() -> i64 {
    let status = ask(&rawdoc! {"serverStatus": 1});
    let created = status.get_document("connections").unwrap().get("totalCreated").unwrap();
    created.as_i64().or_else(|| created.as_i32().map(i64::from)).unwrap()
}

#[test]
fn the_shipped_scenario_opens_a_connection_for_each_find() {
    for (each, opened) in [(false, false), (true, true)] {
        let before = accepted();
        let each = format!("phases.1.load.find.connections.per_operation={each}");
        let more = [
            "matrix=null",
            "existing=drop",
            "phases.1.stop={operations: 300}",
            "phases.1.load.find.arrivals.poisson.rate=600",
            &each,
        ];
        let run = shipped("connection-churn", &more);
        let found = &run["operations"]["find"];
        assert_eq!((&found["count"], all_held(&run)), (&json!(300), true), "{run}");
        assert_eq!(run["client"]["reconnects"], 0, "a closed connection is not a lost one");
        // Other tests share the server.
        assert!(!opened || accepted() - before >= 300, "{before}");
    }
}

/// Runs a scenario on its own server, in a network with few local ports. A used port stays occupied for a
/// minute.
fn run_with_few_ports(text: &str, dir: &Path) -> (Option<i32>, Value, String) {
    let file = scenario(dir, text);
    let script = r#"ip link set lo up && cd /proc/sys/net/ipv4 && echo 0 > tcp_tw_reuse &&
        echo "40000 40099" > ip_local_port_range && exec "$1" run "$2" --out "$3" --server embedded --json"#;
    let mut command = Command::new("unshare");
    command.args(["--net", "--map-root-user", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_plimsoll")]);
    command.args([file, dir.join("run")]).env("PLIMSOLL_NO_CALIBRATION", "1");
    let output = command.output().unwrap();
    (output.status.code(), json(&output), stderr(&output))
}

#[test]
fn an_exhausted_port_range_is_a_class_of_errors_and_does_not_end_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let text = finds("few_ports", "{per_operation: true}", 200) + "expect: {find.errors: ['count<200']}\n";
    let (_, run, messages) = run_with_few_ports(&impatient(&text), dir.path());
    let found = &run["operations"]["find"];
    let (done, refused) =
        (found["count"].as_u64().unwrap(), found["errors"]["no_local_port"].as_u64().unwrap());
    assert!(done > 0 && refused > 0 && done + refused == 200, "{found}: {messages}");
    let error = &found["first_errors"]["no_local_port"]["message"];
    assert!(
        error.as_str().unwrap().starts_with("no local port is free for a connection to 127.0.0.1:"),
        "{error}"
    );
}

#[test]
fn an_option_that_the_official_driver_lacks_is_refused_before_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("lean_option", 10, "{documents: 10}"));
    // Without TLS the option has no effect with either client. The driver refuses it before it connects.
    for (client, tls, code) in [("lean", "", 0), ("driver", "&tls=true", 2)] {
        let server = format!("{}{tls}&tlsAllowInvalidHostnames=true", shared());
        let (out, client) = (dir.path().join(client), format!("client={client}"));
        let args =
            ["run", file.to_str().unwrap(), "--server", &server, "--set", &client, "--set", "existing=drop"];
        let output = plimsoll_with(&[&args[..], &["--out", out.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(code), "{client}: {}", stderr(&output));
        let refusal =
            "tlsAllowInvalidHostnames in the server's address: the official driver does not have it";
        assert_eq!(stderr(&output).contains(refusal), code == 2, "{client}: {}", stderr(&output));
    }
}
