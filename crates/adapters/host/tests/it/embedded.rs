//! Tests the embedded server: start, stop, kill, pause, kept storage, probe and registry.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use bson::{Bson, RawDocumentBuf, doc, rawdoc};
use plimsoll_host::embedded::{self, Options};
use plimsoll_host::probe::{Probe, Product};
use plimsoll_host::registry::Registry;
use plimsoll_host::{Cache, Ending, Profile, Snapshots, Storage, process};
use plimsoll_measure::clock;
use plimsoll_measure::environment::{ServerFacts, ServerKind};
use plimsoll_wire::{ConnectOptions, Connection};

use crate::fixture::{ask, block_on, cache, connect_options, count, eventually, insert, options, start};

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn the_server_starts_answers_stops_and_leaves_nothing_behind() {
    let mut server = start(Profile::Relaxed);
    let (pid, storage) = (server.pid().unwrap(), server.storage().to_owned());
    assert_eq!(ask(&server, doc! {"ping": 1}).get_f64("ok").unwrap(), 1.0);
    assert!(process::is_alive(pid) && storage.exists());
    assert_eq!(server.stop(LIMIT).unwrap(), Ending::Graceful);
    assert!(!process::is_alive(pid));
    drop(server);
    assert!(!storage.exists());
}

#[test]
fn a_panic_leaves_nothing_behind() {
    let (send, receive) = std::sync::mpsc::channel();
    let panicked = thread::spawn(move || {
        let server = start(Profile::Relaxed);
        send.send((server.pid().unwrap(), server.storage().to_owned())).unwrap();
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    let (pid, storage) = receive.recv().unwrap();
    assert!(!process::is_alive(pid) && !storage.exists());
}

/// A process that owns a server.
struct Owner {
    process: Child,
    server_pid: u32,
    storage: PathBuf,
}

impl Owner {
    fn start(temporary: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "embedded::run_a_server_until_killed"])
            .env("TMPDIR", temporary)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said = lines.into_iter().find_map(|line| Some(line.split_once("owns ")?.1.to_owned())).unwrap();
        let (pid, storage) = said.split_once(' ').unwrap();
        Owner { process, server_pid: pid.parse().unwrap(), storage: storage.into() }
    }

    /// `Child::kill` sends SIGKILL.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
#[ignore = "the process that another test kills"]
fn run_a_server_until_killed() {
    let server = start(Profile::Relaxed);
    println!("owns {} {}", server.pid().unwrap(), server.storage().display());
    thread::sleep(Duration::from_secs(120));
}

#[test]
fn kill_9_of_the_owner_ends_the_server_and_the_next_start_sweeps_its_storage() {
    let temporary = tempfile::tempdir().unwrap();
    let mut first = Owner::start(temporary.path());
    first.kill();
    eventually("the server dies with its owner", || !process::is_alive(first.server_pid));
    // Threads of a dying process keep its files, including the lock, a little longer than its first thread.
    let lock = first.storage.join("lock");
    eventually("the server releases its lock", || File::open(&lock).unwrap().try_lock().is_ok());
    assert!(first.storage.exists(), "the killed owner could not remove its storage");
    let mut second = Owner::start(temporary.path());
    assert!(!first.storage.exists() && second.storage.exists());
    second.kill();
    eventually("the server dies with its owner", || !process::is_alive(second.server_pid));
}

#[test]
fn a_journaled_server_keeps_acknowledged_writes_and_its_address_over_kill_9() {
    let mut server = start(Profile::Journaled);
    let (address, pid) = (server.address(), server.pid());
    insert(&server, 500);
    server.kill().unwrap();
    assert_eq!(server.pid(), None);
    server.restart().unwrap();
    assert_eq!((server.address(), count(&server)), (address, 500));
    assert_ne!(server.pid(), pid);
}

#[test]
fn a_paused_server_answers_when_it_is_resumed() {
    let server = start(Profile::Relaxed);
    server.pause().unwrap();
    let start = clock::now();
    let answered = thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&server, doc! {"ping": 1}));
        thread::sleep(Duration::from_millis(200));
        server.resume().unwrap();
        asked.join().unwrap()
    });
    assert_eq!(answered.get_f64("ok").unwrap(), 1.0);
    assert!(clock::now().since(start) >= 200 * clock::MILLISECOND_NS);
}

#[test]
fn kept_storage_moves_and_starts_again_with_everything_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(Profile::Journaled);
    insert(&server, 300);
    let old = server.storage().to_owned();
    let kept = server.keep_storage(&directory.path().join("run/storage")).unwrap();
    assert!(!old.exists());
    let again = Options { storage: Storage::At(kept.clone()), ..options(Profile::Journaled) };
    let server = embedded::start(&cache(), &again).unwrap();
    assert_eq!(count(&server), 300);
    assert!(embedded::start(&cache(), &again).is_err(), "a second server on the same storage is refused");
    drop(server);
    assert!(kept.exists(), "named storage stays");
}

#[test]
fn the_probe_names_the_server() {
    let server = start(Profile::Relaxed);
    let mut facts = block_on(async {
        let mut probe = Probe::connect(&connect_options(&server)).await.unwrap();
        assert_eq!((probe.product(), probe.pid()), (Product::SecantusDb, server.pid()));
        probe.facts().await.unwrap()
    });
    server.describe(&mut facts);
    assert_eq!((facts.kind, facts.profile.as_deref()), (ServerKind::Embedded, Some("relaxed")));
    assert_eq!(facts.addresses, [server.address().to_string()]);
    assert_eq!(facts.product.as_deref(), Some("SecantusDB 0.5.3-beta.196"));
    assert_eq!(facts.storage_engine.as_deref(), Some("wiredTiger"));
    assert_eq!(facts.topology.as_deref(), Some("replica set secantus"));
    assert!(facts.default_write_concern.is_some() && !facts.parameters.is_empty());
    assert_ne!(facts, ServerFacts::default());
}

fn number(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

/// Adds to one document in transactions of a session; returns the number of transactions that met a conflict.
async fn add_in_transactions(server: &ConnectOptions, session: u8) -> u64 {
    let mut connection = Connection::connect(server).await.unwrap();
    let session = bson::Binary::from(bson::Uuid::from_bytes([session; 16]));
    let mut conflicts = 0;
    for number in 1..=100_i64 {
        let part = rawdoc! {"lsid": {"id": session.clone()}, "txnNumber": number, "autocommit": false};
        let with = |mut command: RawDocumentBuf| {
            part.iter().for_each(|it| it.map(|(key, value)| command.append(key, value)).unwrap());
            command
        };
        let update = rawdoc! {"q": {"_id": 0}, "u": {"$inc": {"n": 1}}};
        let update = rawdoc! {"update": "c", "updates": [update], "startTransaction": true};
        match connection.command("test", &with(update)).await {
            Ok(_) => {
                drop(connection.command("admin", &with(rawdoc! {"commitTransaction": 1})).await.unwrap())
            }
            Err(plimsoll_wire::Error::Server(error)) if error.code == 112 => conflicts += 1,
            Err(other) => panic!("{other}"),
        }
    }
    conflicts
}

#[test]
fn the_probe_counts_every_write_conflict_on_a_hot_document() {
    let server = start(Profile::Relaxed);
    ask(&server, doc! {"insert": "c", "documents": [{"_id": 0, "n": 0}]});
    let options = connect_options(&server);
    let sample = || {
        block_on(async {
            let mut probe = Probe::connect(&options).await.unwrap();
            probe.sample(clock::now()).await.unwrap().write_conflicts.unwrap()
        })
    };
    let before = sample();
    let conflicts: u64 = thread::scope(|scope| {
        let write = |session| {
            let options = &options;
            scope.spawn(move || block_on(add_in_transactions(options, session)))
        };
        let writers: Vec<_> = (1..=8).map(write).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert!(conflicts > 0, "no two of 800 transactions met");
    assert_eq!(sample() - before, conflicts);
    let found = ask(&server, doc! {"find": "c"});
    let found = &found.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0];
    let added = i64::try_from(800 - conflicts).unwrap();
    assert_eq!(found.as_document().unwrap().get("n").and_then(number), Some(added));
}

#[test]
fn the_samples_of_the_probe_move_with_the_load() {
    let server = start(Profile::Journaled);
    let start = clock::now();
    block_on(async {
        let mut probe = Probe::connect(&connect_options(&server)).await.unwrap();
        let before = probe.sample(start).await.unwrap();
        thread::scope(|scope| scope.spawn(|| insert(&server, 2000)).join().unwrap());
        let after = probe.sample(start).await.unwrap();
        assert!(after.at_ns > before.at_ns && after.round_trip_ns > 0);
        assert!(after.network_in_bytes > before.network_in_bytes);
        assert!(after.journal_bytes > before.journal_bytes);
        assert!(after.journal_syncs > before.journal_syncs);
        assert!(after.cache_dirty_bytes > before.cache_dirty_bytes);
        assert!(after.cpu_ns > before.cpu_ns && after.rss_bytes.is_some());
        assert_eq!(after.cache_bytes_max, Some(64 << 20));
        assert_eq!((after.inserts, after.write_tickets_out), (None, None));
        let stats = probe.collection_stats("test", "c").await.unwrap();
        assert_eq!((stats.documents, stats.storage_bytes), (Some(2000), None));
        assert_eq!(probe.collection_stats("test", "nothing").await.unwrap().documents.unwrap_or(0), 0);
    });
}

#[test]
fn a_detached_server_is_found_in_the_registry_and_stopped_through_it() {
    let directory = tempfile::tempdir().unwrap();
    let root = format!("secantus-mdb-{}", embedded::VERSION);
    std::os::unix::fs::symlink(cache().root().join(&root), directory.path().join(&root)).unwrap();
    let cache = Cache::at(directory.path());
    let entry = embedded::start_detached(&cache, &options(Profile::Relaxed)).unwrap();
    let registry = Registry::of(&cache).unwrap();
    assert_eq!(registry.running().unwrap(), std::slice::from_ref(&entry));
    assert_eq!(registry.stop(&entry, LIMIT).unwrap(), Ending::Graceful);
    assert!(registry.running().unwrap().is_empty());
    assert!(!process::is_alive(entry.pid) && !entry.storage.exists());
}

#[test]
fn a_wrong_argument_is_reported_in_the_servers_own_words() {
    let wrong = Options { args: vec!["--no-such-option".into()], ..options(Profile::Relaxed) };
    let text = embedded::start(&cache(), &wrong).unwrap_err().to_string();
    assert!(text.contains("no-such-option"), "{text}");
}

#[test]
fn a_snapshot_gives_another_server_the_same_data() {
    let cache = tempfile::tempdir().unwrap();
    let snapshots = Snapshots::of(&Cache::at(cache.path()));
    let mut first = start(Profile::Relaxed);
    insert(&first, 200);
    assert_eq!(first.take_snapshot(&snapshots, "200 documents").unwrap(), None);
    assert_eq!(count(&first), 200);
    let nowhere = Snapshots::of(&Cache::at(Path::new("/proc/none")));
    let reason = first.take_snapshot(&nowhere, "200 documents").unwrap().unwrap();
    assert!(reason.contains("/proc/none"), "{reason}");
    assert_eq!(count(&first), 200, "the server runs on");
    insert_further(&first);
    let mut second = start(Profile::Relaxed);
    let address = second.address();
    assert!(!second.use_snapshot(&snapshots, "300 documents").unwrap());
    assert!(second.use_snapshot(&snapshots, "200 documents").unwrap());
    assert_eq!((second.address(), count(&second), count(&first)), (address, 200, 201));
}

fn insert_further(server: &plimsoll_host::Server) {
    let reply = ask(server, doc! {"insert": "c", "documents": [{"_id": "further"}]});
    assert_eq!(reply.get_i32("n").unwrap(), 1);
}
