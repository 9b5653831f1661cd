//! Tests killed servers and interrupted runs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use plimsoll_host::embedded::{self, Options};
use plimsoll_host::{Cache, Profile, Server, Storage};
use plimsoll_measure::clock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{
    endlessly_patient, guarded, impatient, inserts, json, plimsoll, plimsoll_with, python, scenario, server,
    stderr, uri,
};

/// The time limit for a run to record its first seconds.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(dir: &Path, server: &str, out: &Path) -> Child {
    start_scenario(dir, &impatient(&inserts("faults", 100, "{duration: 120s}")), server, out)
}

fn start_scenario(dir: &Path, text: &str, server: &str, out: &Path) -> Child {
    let file = scenario(dir, text);
    let args = ["run", file.to_str().unwrap(), "--server", server, "--out", out.to_str().unwrap(), "--json"];
    plimsoll().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a run has recorded `seconds` seconds of load.
fn wait_for_load(out: &Path, seconds: usize) {
    wait_for(out, r#""event":"interval""#, seconds);
}

/// Waits until the events of a run contain a text this often.
pub fn wait_for(out: &Path, text: &str, count: usize) {
    for _ in 0..PATIENCE.as_millis() / 50 {
        let events = fs::read_to_string(out.join("events.ndjson")).unwrap_or_default();
        if events.matches(text).count() >= count {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("the run recorded no {text}");
}

pub fn interrupt(child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

/// Kills a server with -9 in the middle of a run at full load, restarts it, audits, and compares with
/// pymongo.
fn kill_in_the_middle(profile: Profile) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut server = server(profile, &[]);
    let run = start(dir.path(), &uri(&server), &out);
    wait_for_load(&out, 2);
    server.kill().unwrap();
    let run = run.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(3), "{}", stderr(&run));
    let events = fs::read_to_string(out.join("events.ndjson")).unwrap();
    assert!(events.contains(r#""unreachable_ns":"#), "the silence of the server is recorded");
    let summary = json(&run);
    assert_eq!(
        (&summary["interrupted"], &summary["integrity"]["proof"]),
        (&true.into(), &"not_audited".into())
    );
    server.restart().unwrap();
    let receipts = dir.path().join("receipts");
    let audited =
        plimsoll_with(&["audit", out.to_str().unwrap(), "--json", "--receipts", receipts.to_str().unwrap()]);
    let findings = json(&audited);
    let lost = findings["lost"].as_u64().unwrap();
    assert_eq!(audited.status.code(), Some(if lost > 0 { 4 } else { 0 }), "{}", stderr(&audited));
    assert_eq!(findings["acknowledged"], summary["integrity"]["acknowledged"]);
    assert!(findings["acknowledged"].as_u64().unwrap() > 1000, "{findings}");
    assert_eq!(
        (&findings["phantom"], &findings["duplicated"], &findings["corrupted"]),
        (&0.into(), &0.into(), &0.into())
    );
    compare_with_pymongo(&server, "plimsoll_test.faults", &receipts, lost);
    findings
}

/// Searches each acknowledged ID with an independent client, which must miss the same IDs.
fn compare_with_pymongo(server: &Server, collection: &str, receipts: &Path, lost: u64) {
    const SCRIPT: &str = "\
import sys, pymongo
uri, acknowledged, collection = sys.argv[1:]
database, collection = collection.split('.')
present = {str(d['_id']) for d in pymongo.MongoClient(uri)[database][collection].find({}, {'_id': 1})}
missing = [line for line in open(acknowledged).read().split() if line not in present]
print('\\n'.join(missing))
";
    let acknowledged = receipts.join("acknowledged.txt");
    let output = Command::new(python())
        .args(["-c", SCRIPT, &uri(server)])
        .arg(&acknowledged)
        .arg(collection)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let ids = |text: String| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    let missed = ids(String::from_utf8(output.stdout).unwrap());
    assert_eq!(missed, ids(fs::read_to_string(receipts.join("lost.txt")).unwrap()));
    assert_eq!(missed.len() as u64, lost);
}

#[test]
fn the_journaled_profile_loses_nothing_to_kill_9() {
    assert_eq!(kill_in_the_middle(Profile::Journaled)["lost"], 0);
}

#[test]
fn the_relaxed_profile_loses_exactly_what_an_independent_client_misses() {
    // The number of lost documents depends on the moment; both audits must agree.
    kill_in_the_middle(Profile::Relaxed);
}

#[test]
fn a_restarted_server_is_reached_again() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut server = server(Profile::Journaled, &[]);
    let allowed = "expect: {'insert.errors{class:connection_lost}': ['rate<0.9']}\n";
    let file = scenario(dir.path(), &format!("{}{allowed}", inserts("back", 100, "{duration: 6s}")));
    let args =
        ["run", file.to_str().unwrap(), "--server", &uri(&server), "--out", out.to_str().unwrap(), "--json"];
    let run = plimsoll().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_load(&out, 2);
    server.restart().unwrap();
    let run = run.wait_with_output().unwrap();
    let summary = json(&run);
    assert_eq!(run.status.code(), Some(0), "{summary}");
    assert!(summary["client"]["reconnects"].as_u64().unwrap() > 0);
    assert_eq!(summary["integrity"]["lost"], 0);
    assert_eq!(summary["integrity"]["proof"], "proven");
}

#[test]
fn ctrl_c_keeps_the_measurements_and_leaves_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let run = start(dir.path(), "embedded", &out);
    wait_for_load(&out, 2);
    interrupt(&run);
    let run = run.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(130), "{}", stderr(&run));
    let summary = json(&run);
    assert_eq!((&summary["interrupted"], &summary["verdict"]), (&true.into(), &"invalid".into()));
    assert_eq!(summary["integrity"]["acknowledged"], summary["integrity"]["found"]);
    let address = summary["server"]["addresses"][0].as_str().unwrap();
    assert!(TcpStream::connect(address).is_err(), "the server at {address} was left behind");
}

#[test]
fn two_signals_at_once_are_one_request_to_stop() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let run = start(dir.path(), "embedded", &out);
    wait_for_load(&out, 1);
    interrupt(&run);
    sleep(Duration::from_millis(10));
    interrupt(&run);
    let run = run.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(130), "{}", stderr(&run));
    assert_eq!(json(&run)["integrity"]["proof"], "proven");
    assert!(out.join("run.json").is_file());
}

#[test]
fn ctrl_c_during_the_read_back_leaves_a_complete_load_complete() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let file = scenario(dir.path(), &inserts("read_back", 1000, "{documents: 400_000}"));
    let args =
        ["run", file.to_str().unwrap(), "--server", "embedded", "--out", out.to_str().unwrap(), "--json"];
    let run = plimsoll().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&out, r#""event":"auditing""#, 1);
    interrupt(&run);
    let run = run.wait_with_output().unwrap();
    let summary = json(&run);
    assert_eq!(run.status.code(), Some(0), "{summary}");
    assert_eq!((&summary["interrupted"], &summary["verdict"]), (&false.into(), &"pass".into()));
    assert_eq!((&summary["integrity"]["found"], &summary["integrity"]["lost"]), (&400_000.into(), &0.into()));
    let events = fs::read_to_string(out.join("events.ndjson")).unwrap();
    assert!(events.contains("reading back; Ctrl-C again ends at once"), "{}", stderr(&run));
}

#[test]
fn ctrl_c_is_answered_while_the_server_hangs_in_the_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let run =
        start_scenario(dir.path(), &inserts("read_hangs", 1000, "{documents: 200_000}"), "embedded", &out);
    wait_for(&out, r#""event":"auditing""#, 1);
    let servers = children(&run);
    let all = |signal| servers.iter().for_each(|server| kill_process(*server, signal).unwrap());
    all(Signal::STOP);
    interrupt(&run);
    wait_for(&out, "reading back; Ctrl-C again ends at once", 1);
    all(Signal::CONT);
    let run = run.wait_with_output().unwrap();
    let summary = json(&run);
    assert_eq!((run.status.code(), &summary["interrupted"]), (Some(0), &false.into()), "{summary}");
    assert_eq!((&summary["integrity"]["found"], &summary["integrity"]["lost"]), (&200_000.into(), &0.into()));
}

#[test]
fn a_read_back_whose_connection_is_lost_reads_again_a_few_times() {
    let dir = tempfile::tempdir().unwrap();
    let (out, server) = (dir.path().join("run"), server(Profile::Journaled, &[]));
    let file = scenario(dir.path(), &inserts("lost_in_read_back", 1000, "{documents: 5_000}"));
    let out = out.to_str().unwrap();
    let args = ["run", file.to_str().unwrap(), "--server", &uri(&server), "--out", out, "--json"];
    let run = plimsoll_with(&args);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    for (cuts, code) in [(2, 0), (3, 3)] {
        let relay =
            format!("mongodb://{}/?directConnection=true", cutting(server.address().to_string(), cuts));
        let audit = plimsoll_with(&["audit", out, "--server", &relay, "--json"]);
        assert_eq!(audit.status.code(), Some(code), "{cuts}: {}", stderr(&audit));
        assert_eq!(json(&audit)["found"], if code == 0 { 5_000 } else { 0 });
    }
}

/// Serves `server` at another address. Cuts the first `cuts` connections on which the server sends more than 100 kB.
fn cutting(server: String, cuts: u32) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, left) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(cuts)));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let behind = TcpStream::connect(&server).unwrap();
            let back = (behind.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || relay(client, behind, &AtomicU32::new(0)));
            let left = Arc::clone(&left);
            thread::spawn(move || relay(back.0, back.1, &left));
        }
    });
    address
}

/// Copies bytes until one end closes, or until 100 kB if connections are left to cut.
fn relay(mut from: TcpStream, mut to: TcpStream, left: &AtomicU32) {
    let (mut bytes, mut buffer) = (0, vec![0; 64 << 10]);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        bytes += count;
        let cut = |left: u32| left.checked_sub(1);
        let is_cut = bytes > 100_000 && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, cut).is_ok();
        if is_cut || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // An end that is already closed needs no shutdown.
    [from, to].iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
}

#[test]
fn a_ctrl_c_before_the_load_ends_a_run_that_waits_for_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = format!("mongodb://{silent}/?serverSelectionTimeoutMS=60000");
    let mut run = start(dir.path(), &server, &out);
    let mut printed = BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(printed.any(|line| line.contains("no answer yet")), "the wait is announced");
    let interrupted = clock::now();
    interrupt(&run);
    let ended = run.wait().unwrap();
    let took_s = clock::now().since(interrupted) as f64 / 1e9;
    let rest: Vec<_> = printed.collect();
    assert_eq!(ended.code(), Some(130), "{rest:?}");
    assert!(took_s < 10.0, "{took_s} s");
    assert!(rest.iter().any(|line| line.contains("stopped before the load")), "{rest:?}");
    assert!(!out.exists(), "a run without results leaves no directory");
}

#[test]
fn a_second_ctrl_c_aborts_the_program_and_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let text = endlessly_patient(&inserts("faults", 100, "{duration: 120s}"));
    let run = start_scenario(dir.path(), &text, "embedded", &out);
    wait_for_load(&out, 1);
    let address = started_at(&out);
    // No further write is answered, so that the run cannot end in order.
    let servers = children(&run);
    assert!(!servers.is_empty(), "the run has no server");
    servers.into_iter().for_each(|server| kill_process(server, Signal::STOP).unwrap());
    interrupt(&run);
    sleep(Duration::from_millis(1100));
    interrupt(&run);
    let ended = run.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), out.join("run.json").is_file()), (Some(130), false));
    let printed = stderr(&ended);
    let last = printed.trim_end().lines().last().unwrap();
    let seconds =
        format!("see its seconds with `plimsoll show {} --replay`; its server ended with it", out.display());
    assert!(last.contains(&seconds) && !last.contains("plimsoll audit"), "{printed}");
    let shown = plimsoll_with(&["show", out.to_str().unwrap()]);
    let advice = format!("if its server still runs, `plimsoll audit {} --server ADDRESS`", out.display());
    assert!(stderr(&shown).contains(&advice), "{}", stderr(&shown));
    let gone = || TcpStream::connect(&address).is_err();
    assert!(
        (0..100).any(|_| gone() || {
            sleep(Duration::from_millis(50));
            false
        }),
        "{address} was left behind"
    );
}

/// The processes that a run has started.
fn children(run: &Child) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{}/task", run.id())).unwrap();
    let listed =
        tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default());
    let ids = listed.collect::<Vec<_>>().join(" ");
    ids.split_whitespace().map(|id| Pid::from_raw(id.parse().unwrap()).unwrap()).collect()
}

fn started_at(out: &Path) -> String {
    let events = fs::read_to_string(out.join("events.ndjson")).unwrap();
    let started: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    started["server"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned()
}

/// Runs a modified shipped scenario on an embedded server, and keeps its storage.
fn shipped(name: &str, profile: &str, changes: &[&str], out: &Path) -> Value {
    let mut args = vec!["run", name, "--server", profile, "--out", out.to_str().unwrap(), "--json", "--keep"];
    changes.iter().for_each(|change| args.extend(["--set", change]));
    let output = plimsoll_with(&args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)))
}

fn seconds(fault: &Value, key: &str) -> f64 {
    fault[key].as_f64().unwrap_or_else(|| panic!("{key} is missing: {fault}"))
}

/// Kills the server twice at full load; the audit and an independent client agree on the losses.
fn kill_twice(server: &str, profile: Profile) -> Value {
    let changes = ["phases.0.stop.duration=18s", "phases.0.faults.0.times=2", "phases.0.faults.0.every=8s"];
    strike_and_compare(("kill", "kill"), "plimsoll.kill", (server, profile), &changes)
}

/// Cuts the power once at full load; the audit and an independent client agree on the losses.
fn lose_power(server: &str, profile: Profile) -> Value {
    let changes = ["phases.0.stop.duration=8s", "phases.0.faults.0.times=1"];
    strike_and_compare(("power-loss", "power loss"), "plimsoll.power", (server, profile), &changes)
}

fn strike_and_compare(
    (scenario, name): (&str, &str),
    collection: &str,
    (server, profile): (&str, Profile),
    changes: &[&str],
) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let run = shipped(scenario, server, changes, &out);
    let faults = run["faults"].as_array().unwrap();
    assert_eq!(faults.len(), if name == "kill" { 2 } else { 1 }, "{faults:?}");
    for fault in faults {
        assert_eq!(fault["name"], name);
        assert!(seconds(fault, "outage_s") >= 0.5, "{fault}");
        assert!(seconds(fault, "first_error_s") >= seconds(fault, "from_s"), "{fault}");
        // On a busy machine recovery may last until the next kill.
        let again = fault["first_success_s"].as_f64();
        assert!(again.is_none_or(|again| again >= seconds(fault, "from_s") + 0.5), "{fault}");
        assert!(fault["errors"]["connection_lost"].as_u64().is_some_and(|count| count > 0), "{fault}");
    }
    assert_eq!((&run["integrity"]["proof"], &run["interrupted"]), (&"proven".into(), &false.into()));
    let options = Options { profile, storage: Storage::At(out.join("storage")), ..Options::default() };
    let server = embedded::start(&Cache::locate().unwrap(), &options).unwrap();
    let receipts = dir.path().join("receipts");
    let (out, to) = (out.to_str().unwrap(), receipts.to_str().unwrap());
    let findings =
        json(&plimsoll_with(&["audit", out, "--server", &uri(&server), "--json", "--receipts", to]));
    assert_eq!(findings["lost"], run["integrity"]["lost"]);
    compare_with_pymongo(&server, collection, &receipts, findings["lost"].as_u64().unwrap());
    run
}

#[test]
fn a_server_that_hangs_shows_in_the_response_time_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let changes = ["phases.0.stop.duration=10s", "phases.0.faults.0.at=3s"];
    let run = shipped("hang", "embedded", &changes, &dir.path().join("run"));
    let fault = &run["faults"][0];
    // The server hangs for two seconds; on a busy machine the signal and the last answers arrive late.
    assert!(seconds(fault, "outage_s") >= 0.8, "{fault}");
    let held_again = fault["held_again_s"].as_f64();
    assert!(held_again.is_none_or(|held| held >= seconds(fault, "first_success_s")), "{fault}");
    let insert = &run["operations"]["insert"];
    assert!(insert["response_ns"]["max"].as_f64().unwrap() >= 0.8e9, "{insert}");
    // The embedded server drops some connections when it resumes; no other error may occur.
    assert!(insert["errors"].as_object().unwrap().keys().all(|class| class == "connection_lost"), "{insert}");
    assert_eq!((&run["integrity"]["lost"], &run["integrity"]["proof"]), (&0.into(), &"proven".into()));
}

#[test]
fn a_power_loss_takes_exactly_what_an_independent_client_misses() {
    // The relaxed profile syncs at checkpoints, a minute apart: all of the load before the loss is gone.
    let run = lose_power("embedded:relaxed", Profile::Relaxed);
    assert!(run["integrity"]["lost"].as_u64().unwrap() > 0, "{}", run["integrity"]);
}

#[test]
fn the_journaled_profile_loses_nothing_to_a_power_loss() {
    let run = lose_power("embedded", Profile::Journaled);
    assert_eq!(
        (&run["integrity"]["lost"], &run["verdict"]),
        (&0.into(), &"pass".into()),
        "{}",
        run["reasons"]
    );
}

#[test]
fn a_power_loss_needs_a_server_whose_writes_can_be_followed() {
    let refused = plimsoll_with(&["run", "power-loss", "--server", "mongodb://127.0.0.1:1"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("use --server embedded, or the fault `kill`"), "{}", stderr(&refused));
}

#[test]
fn a_network_fault_keeps_the_user_of_the_address_with_both_clients() {
    let (dir, server) = (tempfile::tempdir().unwrap(), guarded());
    let fault = "{at: 500ms, inject: {network: {lasts: 500ms, how: {delay: {by: 1ms, direction: both}}}}}";
    let text = inserts("behind", 10, &format!("{{duration: 2s}}\n    faults: [{fault}]"));
    let file = scenario(dir.path(), &text);
    let uri = format!("mongodb://ann:right@{}/?directConnection=true&compressors=zlib", server.address());
    for client in ["lean", "driver"] {
        let (out, set) = (dir.path().join(client), format!("client={client}"));
        let (file, to) = (file.to_str().unwrap(), out.to_str().unwrap());
        let named = format!("collection=plimsoll_test.behind_{client}");
        let args = ["run", file, "--server", &uri, "--set", &set, "--set", &named, "--out", to, "--json"];
        let output = plimsoll_with(&args);
        assert_eq!(output.status.code(), Some(0), "{client}: {}", stderr(&output));
        let run = json(&output);
        assert_eq!(run["integrity"]["proof"], "proven", "{client}: {}", run["integrity"]);
        assert!(run["faults"][0]["error"].is_null(), "{client}: {}", run["faults"]);
    }
}

/// Tests that `cargo xtask test --all` runs.
mod long {
    use super::*;

    #[test]
    #[ignore = "long: cargo xtask test --all runs it"]
    fn kills_on_the_timeline_lose_exactly_what_an_independent_client_misses() {
        kill_twice("embedded:relaxed", Profile::Relaxed);
    }

    #[test]
    #[ignore = "long: cargo xtask test --all runs it"]
    fn kills_on_the_timeline_lose_nothing_in_the_journaled_profile() {
        let run = kill_twice("embedded", Profile::Journaled);
        assert_eq!(
            (&run["integrity"]["lost"], &run["verdict"]),
            (&0.into(), &"pass".into()),
            "{}",
            run["reasons"]
        );
    }
}
