//! Tests bad input: one clear error names the place and the remedy, before any load is sent.

use std::net::TcpListener;
use std::process::Output;

use crate::program::{fits_60, guarded, inserts, json, plimsoll, plimsoll_with, scenario, shared, stderr};

/// Runs a scenario text and checks the exit code and a part of the only message.
fn check(text: &str, args: &[&str], code: i32, parts: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), text);
    let out = dir.path().join("run");
    let mut all = vec!["run", file.to_str().unwrap(), "--out", out.to_str().unwrap(), "--quiet"];
    all.extend(args);
    let output = plimsoll_with(&all);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
    output
}

fn good() -> String {
    inserts("bad_input", 10, "{documents: 100}")
}

#[test]
fn a_misspelt_key() {
    let text = good().replace("batch:", "bacth:");
    check(&text, &[], 2, &["scenario.yaml", "line 10", "unknown key `bacth`", "did you mean `batch`?"]);
}

#[test]
fn the_switch_for_no_calibration_takes_the_usual_values() {
    for value in ["1", "0", "yes", "off", "true", ""] {
        let mut command = plimsoll();
        let output =
            command.env("PLIMSOLL_NO_CALIBRATION", value).args(["run", "no-such-scenario"]).output().unwrap();
        let message = stderr(&output);
        assert!(
            message.contains("no-such-scenario") && !message.contains("invalid value"),
            "{value}: {message}"
        );
    }
}

#[test]
fn a_wrong_type() {
    check(&good().replace("batch: 10", "batch: many"), &[], 2, &["scenario.yaml", "line 10", "many"]);
}

#[test]
fn an_unknown_generator() {
    let text = good().replace("$text", "$txt");
    check(&text, &[], 2, &["document.text", "unknown generator \"$txt\"", "did you mean \"$text\"?"]);
}

#[test]
fn an_unreachable_host() {
    let uri = "mongodb://no-such-host.invalid:27017/?directConnection=true";
    check(&good(), &["--server", uri], 3, &["no-such-host.invalid:27017", "check the host name"]);
}

#[test]
fn a_refused_connection() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let uri = format!("mongodb://127.0.0.1:{port}");
    check(&good(), &["--server", &uri], 3, &["refused the connection", "start the server there"]);
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &good());
    let out = dir.path().join("run");
    plimsoll_with(&["run", file.to_str().unwrap(), "--server", &uri, "--out", out.to_str().unwrap()]);
    assert!(!out.exists(), "a run that did not begin leaves no run directory");
}

#[test]
fn an_unacknowledged_write_concern_is_refused() {
    let uri = shared().replace("/?", "/?w=0&");
    check(&good(), &["--server", &uri], 2, &["the server's address says w=0", "`write_concern: {w: 0}`"]);
    let text = good().replace("{w: 1, j: true}", "{w: 0, j: true}");
    check(&text, &[], 2, &["write_concern", "w: 0", "keep one of them"]);
    let other = shared().replace("/?", "/?w=majority&");
    check(&inserts("promised", 10, "{documents: 100}"), &["--server", &other], 0, &[]);
}

#[test]
fn settings_of_connections_that_do_not_apply_are_refused() {
    let each = "        connections: {per_operation: true}\n    stop:";
    let churning = good().replace("    stop:", each);
    for (text, args, part) in [
        (format!("{churning}client: driver\n"), vec![], "the official driver keeps a pool"),
        (churning.clone(), vec!["--hosts", "a:1,b:2"], "several servers keep their connections"),
        (format!("{}connections: {{max: 5}}\n", good()), vec![], "connections.max: the lean client has exactly"),
        (good().replace("batch: 10", "write_concern: {w: 0}"), vec![], "insert.write_concern: w: 0 asks for no answer"),
        (good().replace("batch: 10", "read_preference: nearest"), vec![], "unknown key `read_preference`"),
        (
            "title: t\nhttp: {url: 'http://127.0.0.1:1'}\nconnections: {per_operation: true}\nphases:\n  - load:\n      \
             a: {request: {get: /}, arrivals: {closed: {writers: 1}}}\n    stop: {operations: 1}\n"
                .to_owned(),
            vec![],
            "requests_per_connection: 1",
        ),
    ] {
        check(&text, &args, 2, &[part]);
    }
}

#[test]
fn more_documents_than_fit_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("no_room", 10, "{documents: 1_000_000}")
        + "matrix: {axes: [{name: batch, values: {small: {phases.0.load.insert.operation.insert.batch: 10}}}]}\n";
    let file = scenario(dir.path(), &text);
    let small = dir.path().join("small");
    std::fs::create_dir(&small).unwrap();
    // The data directory of a started server lies on a file system of 8 MB.
    let script = r#"mount -t tmpfs -o size=8m tmpfs "$1" && TMPDIR="$1" exec "$2" run "$3" --out "$4" --server embedded"#;
    let out = dir.path().join("matrix");
    let output = std::process::Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
        .args([small.as_os_str(), env!("CARGO_BIN_EXE_plimsoll").as_ref(), file.as_os_str(), out.as_os_str()])
        .output()
        .unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for part in ["the disk: up to", "are needed at once", "8.00 MiB are free", "TMPDIR"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!out.exists(), "no run began");
}

#[test]
fn a_limit_of_documents_without_inserts() {
    let text = good().replace(
        "    stop: {documents: 100}\n",
        "    stop: {documents: 100}\n  - load:\n      find: {operation: {find: {}}, arrivals: {closed: {writers: 1}}}\n    \
         stop: {documents: 5}\n",
    );
    check(
        &text,
        &[],
        2,
        &["phases.1", "no load inserts any, so the phase", "stop by duration or operations"],
    );
}

#[test]
fn a_process_fault_on_a_foreign_server() {
    let text = good().replace(
        "    stop: {documents: 100}\n",
        "    stop: {duration: 5s}\n    faults: [{at: 1s, inject: {kill: {down: 1s}}}]\n",
    );
    check(
        &text,
        &["--server", &shared()],
        2,
        &["`kill` needs a server that Plimsoll started", "--server embedded"],
    );
}

#[test]
fn invalid_faults() {
    for (fault, part) in [
        ("{at: 9s, inject: {kill: {down: 1s}}}", "kill: it begins at 9 s, after the phase ended at 5 s"),
        ("{at: 1s, every: 1s, inject: {freeze: {lasts: 2s}}}", "freeze: it repeats before it ends"),
        ("{at: 1s, inject: {network: {lasts: 1s, how: cutt}}}", "unknown choice `cutt`"),
    ] {
        let text = good().replace(
            "    stop: {documents: 100}\n",
            &format!("    stop: {{duration: 5s}}\n    faults: [{fault}]\n"),
        );
        check(&text, &[], 2, &[part]);
    }
}

#[test]
fn sharding_on_a_server_that_is_not_a_mongos() {
    let text = inserts("unsharded", 10, "{documents: 100}");
    check(
        &format!("{text}shard: {{key: {{_id: hashed}}}}\n"),
        &["--server", &shared()],
        2,
        &["is not a mongos", "leave out `shard`"],
    );
    check(
        &format!("{text}shard: {{key: {{_id: 1}}, chunks: 1}}\n"),
        &[],
        2,
        &["shard.chunks: 1; give a number from 2"],
    );
}

#[test]
fn a_wrong_password() {
    let server = guarded();
    let uri = |password| format!("mongodb://ann:{password}@{}/?directConnection=true", server.address());
    check(
        &good(),
        &["--server", &uri("wrong")],
        3,
        &["authentication of \"ann\"", "check user, password and authSource"],
    );
    check(&good(), &["--server", &uri("right")], 0, &[]);
}

#[test]
fn a_collection_that_is_not_empty() {
    let text = inserts("not_empty", 10, "{documents: 100}");
    let server = shared();
    check(&text, &["--server", &server], 0, &[]);
    check(
        &text,
        &["--server", &server],
        2,
        &["plimsoll_test.not_empty is not empty (100 documents)", "existing: append"],
    );
    check(&text, &["--server", &server, "--set", "existing=append"], 0, &[]);
    check(&text, &["--server", &server, "--set", "existing=drop"], 0, &[]);
}

#[test]
fn a_document_over_16_mib() {
    let text = good().replace("bytes: 40", "bytes: 17_000_000");
    check(&text, &[], 2, &["over MongoDB's limit of 16777216"]);
}

#[test]
fn no_space_for_the_run_directory() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &good());
    let small = dir.path().join("small");
    std::fs::create_dir(&small).unwrap();
    // A file system of 1 MB in its own mount namespace.
    let script =
        r#"mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" run "$3" --out "$1/run" --server "$4" --quiet"#;
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let output = std::process::Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
        .args([small.as_os_str(), program.as_ref(), file.as_os_str(), shared().as_ref()])
        .output()
        .unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("no space left for the run directory") && message.contains("--out"),
        "{message}"
    );
}

#[test]
fn an_objective_that_cannot_hold_at_the_first_step() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("hopeless", 10, "{duration: 1s}")
        + "line: {start: 2000, objective: {response: ['max<1us']}}\n";
    let file = scenario(dir.path(), &text);
    let out = dir.path().join("run");
    let args = ["line", file.to_str().unwrap(), "--server", &shared(), "--out", out.to_str().unwrap()];
    fits_60(dir.path(), &args, &[99]);
    let run = json(&plimsoll_with(&["show", out.to_str().unwrap(), "--json"]));
    assert_eq!((&run["line"]["rate"], &run["verdict"]), (&serde_json::Value::Null, &"fail".into()));
    assert!(
        run["line"]["notes"][0].as_str().unwrap().starts_with("no rate held"),
        "{}",
        run["line"]["notes"]
    );
    assert!(!run["line"]["probes"][0]["reasons"][0].as_str().unwrap().is_empty());
}

#[test]
fn invalid_arguments() {
    let unknown = plimsoll_with(&["run", "bulk-basline"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("`bulk-baseline`"), "{}", stderr(&unknown));
    assert_eq!(plimsoll_with(&["rnu"]).status.code(), Some(2));
    check(&good(), &["--server", "embeded"], 2, &["mongodb://localhost:27017"]);
    check(&good(), &["--shard", "2/2"], 2, &["--shard 2/2", "for example 0/4"]);
    for server in ["embedded", "embedded:relaxed", "mongod"] {
        let parts = ["each shard would start its own server", "its address with --server"];
        check(&good(), &["--shard", "0/2", "--server", server], 2, &parts);
    }
    check(&good(), &["--set", "phases.3.stop=1"], 2, &["`phases` has no `3`"]);
    let nowhere = plimsoll().args(["show"]).current_dir("/").output().unwrap();
    assert!(stderr(&nowhere).contains("name a run directory"), "{}", stderr(&nowhere));
}

#[test]
fn a_malformed_uri_is_a_wrong_argument_and_an_unknown_option_a_warning() {
    for (uri, part) in [
        ("mongodb://localhost::27017", "several colons"),
        ("mongodb://localhost:0", "the port `0`"),
        ("mongodb://", "a host is missing"),
        ("mongodb://a,b/?directConnection=true", "takes one host"),
        ("mongodb://ann@localhost/?authMechanism=GSSAPI", "this build has no GSSAPI"),
        ("mongodb://localhost/?loadBalanced=true", "loadBalanced=true is unsupported"),
    ] {
        check(&good(), &["--server", uri], 2, &[part]);
    }
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), &inserts("stale_options", 10, "{documents: 100}"));
    let server = format!("{}&j=true&maxIdleTimeMS=soon", shared());
    let out = dir.path().join("run");
    let output =
        plimsoll_with(&["run", file.to_str().unwrap(), "--server", &server, "--out", out.to_str().unwrap()]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("the option `j` of the address is unknown"), "{said}");
    assert!(said.contains("`soon` is not an integer"), "{said}");
}

#[test]
fn a_unix_socket_is_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("mongodb.sock");
    forward(&socket, shared().trim_start_matches("mongodb://").split('/').next().unwrap());
    let uri = format!("mongodb://{}/?directConnection=true", socket.to_str().unwrap().replace('/', "%2F"));
    for client in ["lean", "driver"] {
        let text =
            format!("client: {client}\nexisting: drop\n{}", inserts("socket", 10, "{documents: 1_000}"));
        let file = scenario(dir.path(), &text);
        let out = dir.path().join(client);
        let args =
            ["run", file.to_str().unwrap(), "--server", &uri, "--json", "--out", out.to_str().unwrap()];
        let output = plimsoll_with(&args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let run = json(&output);
        assert_eq!(
            (&run["integrity"]["found"], &run["integrity"]["proof"]),
            (&1000.into(), &"proven".into())
        );
    }
}

/// Forwards every connection of a Unix socket to a server, until the test process ends.
fn forward(socket: &std::path::Path, server: &str) {
    let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
    let server = server.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut upstream) =
                (client.unwrap(), std::net::TcpStream::connect(&server).unwrap());
            let (mut back, mut from) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut client, &mut upstream);
                let _ = upstream.shutdown(std::net::Shutdown::Both);
            });
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut back);
                let _ = back.shutdown(std::net::Shutdown::Both);
            });
        }
    });
}
