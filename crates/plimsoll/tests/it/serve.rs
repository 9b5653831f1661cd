//! Tests `plimsoll serve telemetry` as a process: start, stop and kill.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_process::procfs::started_by;
use plimsoll_run::signals::DEBOUNCE_NS;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{impatient, inserts, plimsoll, plimsoll_with, scenario, shared, stderr, stdout};
use crate::service::{Client, Service};
use crate::writer::{INGEST, Writer, reading, stored};

const START_MS: i64 = 1_790_000_000_000;
const WRITERS: usize = 8;
/// The number of acknowledged writes before the end.
const BEFORE: u64 = 600;

/// Sends readings, batches and activities until the connection ends or an answer is not 201.
fn load(address: &str, name: String, acknowledged: &AtomicU64) -> Writer {
    let (mut client, mut writer) = (Client::connect(address), Writer::new(name, START_MS - 1_000_000_000));
    while let Ok(201) = writer.send(&mut client) {
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    writer
}

/// Loads a service, ends it under load, starts another service on the same database, and checks that every
/// acknowledged write is stored.
fn ended_under_load(database: &str, end: impl FnOnce(&mut Service)) {
    let mut service = Service::on_shared(database);
    let acknowledged = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let (address, acknowledged) = (service.address.clone(), acknowledged.clone());
            thread::spawn(move || load(&address, format!("s{n}"), &acknowledged))
        })
        .collect();
    while acknowledged.load(Ordering::Relaxed) < BEFORE {
        assert!(service.process.try_wait().unwrap().is_none(), "the service ended by itself");
        thread::sleep(Duration::from_millis(2));
    }
    end(&mut service);
    let again = Service::on_shared(database);
    for writer in writers {
        let writer = writer.join().unwrap();
        writer.check(&mut again.client());
        writer.check_once(&mut again.client());
    }
}

#[test]
fn a_kill_under_load_loses_no_acknowledged_write() {
    ended_under_load("serve_killed", |service| {
        service.process.kill().unwrap();
        service.wait();
    });
}

#[test]
fn a_sigterm_under_load_finishes_accepted_requests() {
    ended_under_load("serve_terminated", |service| {
        // A wrapper such as `timeout` sends a copy at once.
        service.signal(Signal::TERM);
        service.signal(Signal::INT);
        assert_eq!(service.wait().code(), Some(0));
    });
}

#[test]
fn with_an_embedded_server_nothing_else_is_needed() {
    let mut service = Service::start(&["--server", "embedded:relaxed"]);
    let mut client = service.client();
    assert_eq!(client.send("POST", INGEST, &reading("s", START_MS - 1).to_string()).unwrap().0, 201);
    assert_eq!(stored(&mut client, "s", START_MS).len(), 1);
    assert_eq!(client.get("/readyz")["status"], "ready");
    service.signal(Signal::INT);
    assert_eq!(service.wait().code(), Some(0));
}

#[test]
fn with_its_own_storage_the_server_keeps_its_data() {
    let dir = tempfile::tempdir().unwrap();
    let storage = dir.path().join("data");
    let args = ["--server", "embedded", "--storage", storage.to_str().unwrap()];
    let mut service = Service::start(&args);
    let sent = service.client().send("POST", INGEST, &reading("s", START_MS - 1).to_string());
    assert_eq!(sent.unwrap().0, 201);
    service.signal(Signal::TERM);
    assert_eq!(service.wait().code(), Some(0));
    let again = Service::start(&args);
    assert_eq!(stored(&mut again.client(), "s", START_MS).len(), 1);
}

#[test]
fn a_started_server_has_the_requested_cache_and_temporary_storage_causes_a_warning() {
    let own = ["--server", "embedded:relaxed", "--cache", "77MiB"];
    let said = logged(&own, || assert!(is_running(["--cache-size", "77M"]), "no server has this cache"));
    for part in ["removed when this service ends", "--storage DIR"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    let dir = tempfile::tempdir().unwrap();
    let storage = dir.path().join("data");
    let kept = ["--server", "embedded:relaxed", "--storage", storage.to_str().unwrap()];
    let said = logged(&kept, || ());
    assert!(said.contains("listening") && !said.contains("temporary directory"), "{said}");
}

/// Whether a process was started with these two consecutive arguments.
fn is_running(words: [&str; 2]) -> bool {
    let words = words.join("\0");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(&words))
}

#[test]
fn a_second_signal_aborts_it() {
    let mut service = Service::on_shared("serve_twice");
    let mut waiting = service.client();
    let head = format!("POST {INGEST} HTTP/1.1\r\nhost: t\r\ncontent-length: 10\r\n\r\n");
    waiting.0.get_mut().write_all(head.as_bytes()).unwrap();
    let mut client = service.client();
    let mut idle = service.client();
    while client.get("/healthz").is_null() {}
    service.signal(Signal::TERM);
    // The first signal has taken effect when idle connections are closed.
    while idle.send("GET", "/healthz", "").is_ok() {}
    assert!(service.process.try_wait().unwrap().is_none(), "the service waits for the request");
    thread::sleep(Duration::from_nanos(DEBOUNCE_NS));
    service.signal(Signal::TERM);
    assert_eq!(service.wait().code(), Some(130));
}

#[test]
fn settings_come_from_a_file_and_from_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("telemetry.yaml");
    std::fs::write(&path, "readings: {design: bucket, gather: 5ms}\nfeeds: {design: on_write}\n").unwrap();
    let path = path.to_str().unwrap();
    let output = plimsoll_with(&[
        "serve",
        "telemetry",
        "--config",
        path,
        "--set",
        "readings.gather=7ms",
        "--set",
        "limits.rate={per_s: 5, burst: 9}",
        "--listen",
        "127.0.0.1:9",
        "--print-settings",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in ["listen: \"127.0.0.1:9\"", "design: bucket", "gather: 7ms", "design: on_write", "burst: 9"] {
        assert!(text.replace("127.0.0.1:9\n", "\"127.0.0.1:9\"\n").contains(part), "{part} is not in {text}");
    }
    std::fs::write(path, &text).unwrap();
    let again = plimsoll_with(&["serve", "telemetry", "--config", path, "--print-settings"]);
    assert_eq!(stdout(&again), text, "the printed settings are read back");
}

#[test]
fn invalid_settings_are_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("telemetry.yaml");
    std::fs::write(&path, "readings:\n  desing: bucket\n").unwrap();
    for (args, code, part) in [
        (&["--listen", "0.0.0.0:0"][..], 2, "without `security` everyone"),
        (&["--config", path.to_str().unwrap()], 2, "desing"),
        (&["--config", path.to_str().unwrap()], 2, "telemetry.yaml: the settings cannot be read"),
        (&["--config", "none.yaml"], 2, "none.yaml"),
        (&["--set", "readings.gather=5"], 2, "a duration with its unit"),
        (&["--set", "readings.gather"], 2, "write path=value"),
        (
            &[
                "--set",
                "limits.rate.per_s=5",
                "--set",
                "limits.streams_max=-1",
                "--set",
                "limits.rate.burst=5",
            ],
            2,
            "--set limits.streams_max: ",
        ),
        (&["--set", "readings.commit=5"], 2, "commit"),
        (&["--server", "embeded"], 2, "mongodb://localhost:27017"),
        (&["--server", &shared(), "--storage", "x"], 2, "--storage: a running server has its own"),
        (&["--server", &shared(), "--cache", "64MB"], 2, "--cache: a running server has its own"),
        (&["--server", "embedded", "--cache", "much"], 2, "for example 512MB"),
        (
            &["--server", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300", "--listen", "127.0.0.1:0"],
            3,
            "127.0.0.1:1 refused the connection",
        ),
    ] {
        let output = plimsoll_with(&[&["serve", "telemetry"], args].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {part} is not in {said}");
        assert!(stdout(&output).is_empty());
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = plimsoll_with(&["serve", "telemetry", "--server", &shared(), "--listen", &address]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot listen on"), "{}", stderr(&output));
}

#[test]
fn a_server_that_a_run_refuses_is_refused_with_the_same_words_and_code() {
    let dir = tempfile::tempdir().unwrap();
    let path = scenario(dir.path(), &impatient(&inserts("served", 1, "{operations: 1}")));
    let error = |output: &Output| stderr(output).lines().last().unwrap_or_default().to_owned();
    for (uri, code) in [
        ("mongodb://127.0.0.1:1/?replicaSet", 2),
        ("mongodb://ann:a@b@127.0.0.1:1", 2),
        ("mongodb://127.0.0.1:port", 2),
        ("mongodb://127.0.0.1:1/?tls=true&ssl=false", 2),
        ("mongodb://127.0.0.1:1/?loadBalanced=true", 2),
        ("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300", 3),
    ] {
        let served = plimsoll_with(&["serve", "telemetry", "--server", uri, "--listen", "127.0.0.1:0"]);
        let run = plimsoll_with(&["run", path.to_str().unwrap(), "--server", uri, "--quiet"]);
        assert_eq!((served.status.code(), run.status.code()), (Some(code), Some(code)), "{uri}");
        assert_eq!(error(&served), error(&run), "{uri}");
        let said = stderr(&served);
        assert!(!said.contains("Kind:") && !said.contains("labels"), "{uri}: {said}");
        assert!(stdout(&served).is_empty());
    }
}

#[test]
fn options_of_the_uri_without_effect_are_warnings() {
    let uri = format!("{}&speed=high&timeoutMS=5000", shared());
    let said = logged(&["--server", &uri, "--set", "database.name=serve_option"], || ());
    for part in [
        "the option `speed` of the address is unknown and has no effect",
        "the option `timeoutMS` of the address has no effect here: the official driver connects",
        "listening",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn without_a_named_server_one_is_started_and_named() {
    // The PATH holds no mongod.
    let mut command = plimsoll();
    command.env("PATH", "");
    let said = logged_by(command, &[], || ());
    for part in ["starts the embedded server", "its data last only as long as the service", "--storage DIR"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    let dir = tempfile::tempdir().unwrap();
    let storage = dir.path().join("data");
    let mut command = plimsoll();
    command.env("PATH", "");
    let said = logged_by(command, &["--storage", storage.to_str().unwrap()], || assert!(storage.exists()));
    assert!(said.contains(&format!("its data lie in {}", storage.display())), "{said}");
    // A URI of the settings names a server.
    let named = ["serve", "telemetry", "--set", "database.uri=mongodb://127.0.0.1:1"];
    let output = plimsoll_with(&named);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

/// Serves until it prints its address, runs `meanwhile`, and ends it; returns the log.
fn logged(args: &[&str], meanwhile: impl FnOnce()) -> String {
    logged_by(plimsoll(), args, meanwhile)
}

fn logged_by(mut command: Command, args: &[&str], meanwhile: impl FnOnce()) -> String {
    let mut process = command
        .args(["serve", "telemetry", "--listen", "127.0.0.1:0"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
    meanwhile();
    let pid = Pid::from_raw(process.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    stderr(&process.wait_with_output().unwrap())
}

#[test]
fn without_security_the_log_warns() {
    let said = logged(&["--server", &shared(), "--set", "database.name=serve_log"], || ());
    for part in
        ["no security: everyone on this machine", "listening", "finishing accepted requests", "stopped"]
    {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn the_death_of_its_own_database_ends_the_service() {
    let process = plimsoll()
        .args(["serve", "telemetry", "--listen", "127.0.0.1:0", "--server", "embedded"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut process = process.unwrap();
    let mut url = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let database = started_by(process.id());
    assert_eq!(database.len(), 1, "the service starts one process: {database:?}");
    kill_process(Pid::from_raw(database[0].try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("the database died"), "{}", stderr(&output));
}
