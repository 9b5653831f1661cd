//! Tests the promises of the workflow engine's store on a real server.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_postgres::server::{self, Server};
use plimsoll_postgres::workflow::Postgres;
use plimsoll_workflow::contract;
use plimsoll_workflow::definition::Version;
use plimsoll_workflow::instance::{Signal, Status};
use plimsoll_workflow::port::{Clock, Find, Inserted, LeaseRequest, Record, Store, StoreError, partition_of};
use plimsoll_workflow::worker::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use tokio_postgres::NoTls;

use crate::server::start;

const PARTITIONS: u16 = 8;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The URI of a database of the server.
fn database(server: &Server, name: &str) -> String {
    server.uri().replace("/postgres", &format!("/{name}"))
}

async fn create(server: &Server, name: &str) {
    let (client, connection) = tokio_postgres::connect(&server.uri(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
}

#[test]
fn the_store_keeps_every_promise() {
    let server = start(&server::Settings::default());
    let next = AtomicU32::new(0);
    let empty = || async {
        let name = format!("store_{}", next.fetch_add(1, Ordering::Relaxed));
        create(&server, &name).await;
        Postgres::open(&database(&server, &name), 4, PARTITIONS).await.unwrap()
    };
    runtime().block_on(async {
        contract::check(empty).await.unwrap();
        contract::check_concurrency(&empty().await).await.unwrap();
        let pass = || sleep(Duration::from_millis(120));
        contract::check_expiry(&empty().await, 100, pass).await.unwrap();
    });
}

/// Forwards connections to a server, and counts the bytes that it sends.
async fn counted(upstream: SocketAddr) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counter = count.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = TcpStream::connect(upstream).await.unwrap().into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            let counter = counter.clone();
            tokio::spawn(async move {
                let mut room = vec![0; 64 << 10];
                while let Ok(read @ 1..) = from_server.read(&mut room).await {
                    counter.fetch_add(read as u64, Ordering::Relaxed);
                    to_client.write_all(&room[..read]).await.unwrap();
                }
            });
        }
    });
    (address, count)
}

#[test]
fn a_scan_reads_the_state_of_an_instance_once_for_all_of_its_signals() {
    let server = start(&server::Settings::default());
    runtime().block_on(async {
        create(&server, "hot").await;
        let uri = database(&server, "hot");
        let (_, rest) = uri.split_once('@').unwrap();
        let (authority, _) = rest.split_once('/').unwrap();
        let (proxy, count) = counted(authority.parse().unwrap()).await;
        let store = Postgres::open(&uri.replace(authority, &proxy.to_string()), 2, PARTITIONS).await.unwrap();
        let large = record("i", vec![1; 256 << 10]);
        store.start(&[large]).await.unwrap();
        let signals: Vec<_> =
            (0..200).map(|id| Signal::named("i", id.to_string(), "go", serde_json::Value::Null, 1)).collect();
        store.publish(&signals).await.unwrap();
        let before = count.load(Ordering::Relaxed);
        let all: Vec<_> = (0..PARTITIONS).collect();
        let due = store.due(&all, 10, 1_000).await.unwrap();
        assert_eq!((due.signals.len(), due.records.len()), (200, 1));
        let bytes = count.load(Ordering::Relaxed) - before;
        assert!(bytes < 1 << 20, "{bytes} bytes");
    });
}

#[test]
fn a_store_that_is_missing_is_not_created_by_readers() {
    let server = start(&server::Settings::default());
    runtime().block_on(async {
        create(&server, "missing").await;
        let uri = database(&server, "missing");
        for _ in 0..2 {
            let error = Postgres::open_existing(&uri, 2).await.unwrap_err();
            assert!(error.to_string().contains("no workflow store here"), "{error}");
        }
        Postgres::open(&uri, 2, 7).await.unwrap();
        assert_eq!(Postgres::open_existing(&uri, 2).await.unwrap().partitions(), 7);
    });
}

#[test]
fn an_existing_store_is_opened_while_a_transaction_writes_to_it() {
    let server = start(&server::Settings::default());
    runtime().block_on(async {
        let uri = server.uri();
        Postgres::open(&uri, 1, PARTITIONS).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&uri, NoTls).await.unwrap();
        tokio::spawn(connection);
        let change = "BEGIN; INSERT INTO plimsoll_workflow.owners VALUES ('ann', 0); \
             LOCK TABLE plimsoll_workflow.instances, plimsoll_workflow.signals IN ROW EXCLUSIVE MODE";
        client.batch_execute(change).await.unwrap();
        let open = Postgres::open(&uri, 1, PARTITIONS);
        timeout(Duration::from_secs(10), open).await.unwrap().unwrap();
        // An interrupted creation is completed, and an earlier version's index is replaced.
        let earlier = "ROLLBACK; DELETE FROM plimsoll_workflow.partitions WHERE partition > 3; \
             DROP INDEX plimsoll_workflow.instances_status; \
             CREATE INDEX instances_halted ON plimsoll_workflow.instances (status, id) WHERE status = 'parked'";
        client.batch_execute(earlier).await.unwrap();
        let store = Postgres::open(&uri, 1, PARTITIONS).await.unwrap();
        let all = LeaseRequest { owner: "ann".into(), ttl_ms: 1_000, want: 100, release: Vec::new() };
        assert_eq!(store.lease(&all).await.unwrap().held.len(), usize::from(PARTITIONS));
        let indexes = "SELECT string_agg(indexrelname::text, ' ' ORDER BY indexrelname) FROM pg_stat_user_indexes \
             WHERE indexrelname IN ('instances_halted', 'instances_status')";
        let indexes: String = client.query_one(indexes, &[]).await.unwrap().get(0);
        assert_eq!(indexes, "instances_status");
    });
}

/// Reads the server's counts of scans, which reflect the plans that really ran.
#[test]
fn no_statement_reads_a_whole_large_table_in_steady_state() {
    let server = start(&server::Settings::default());
    runtime().block_on(async {
        let (client, connection) = tokio_postgres::connect(&server.uri(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let store = Postgres::open(&server.uri(), 1, PARTITIONS).await.unwrap();
        contract::fill(&store, 3_000).await.unwrap();
        client.batch_execute("ANALYZE; SELECT pg_stat_reset()").await.unwrap();
        contract::steady(&store).await.unwrap();
        drop(store);
        let scans = "SELECT relname::text, seq_scan, idx_scan FROM pg_stat_user_tables \
             WHERE relname IN ('instances', 'signals', 'dead', 'tasks') ORDER BY relname";
        let counts = loop {
            let rows = client.query(scans, &[]).await.unwrap();
            let counts: Vec<(String, i64, i64)> =
                rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
            // The server's process reports its counts when its connection ends.
            if counts.iter().all(|(_, sequential, indexed)| sequential + indexed > 0) {
                break counts;
            }
            sleep(Duration::from_millis(50)).await;
        };
        for (table, sequential, indexed) in counts {
            assert_eq!(sequential, 0, "{table} is read as a whole, and {indexed} times by an index");
        }
        let unused = "SELECT string_agg(indexrelname, ', ') FROM pg_stat_user_indexes \
             WHERE idx_scan = 0 AND relname IN ('instances', 'signals', 'tasks')";
        let unused: Option<String> = client.query_one(unused, &[]).await.unwrap().get(0);
        assert_eq!(unused, None, "indexes that no plan uses");
    });
}

#[test]
fn a_search_by_status_reads_only_instances_of_that_status() {
    let server = start(&server::Settings::default());
    runtime().block_on(async {
        let (client, connection) = tokio_postgres::connect(&server.uri(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let open = || async { Postgres::open(&server.uri(), 1, PARTITIONS).await.unwrap() };
        // All of them run.
        contract::fill(&open().await, 3_000).await.unwrap();
        for status in [Status::Done, Status::Parked, Status::Compensating] {
            client.batch_execute("ANALYZE; SELECT pg_stat_reset()").await.unwrap();
            let store = open().await;
            let find = Find { status: Some(status), limit: 10, ..Find::default() };
            assert_eq!(store.find(&find).await.unwrap(), []);
            drop(store);
            let counts = "SELECT coalesce(seq_scan + idx_scan, 0), coalesce(seq_tup_read + idx_tup_fetch, 0) \
                 FROM pg_stat_user_tables WHERE relname = 'instances'";
            let read: i64 = loop {
                // The server's process reports its counts when its connection ends.
                let row = client.query_one(counts, &[]).await.unwrap();
                if row.get::<_, i64>(0) > 0 {
                    break row.get(1);
                }
                sleep(Duration::from_millis(50)).await;
            };
            assert!(read < 20, "{read} instances were read to find none that is {}", status.name());
        }
    });
}

#[test]
fn rows_of_a_later_version_hide_no_others() {
    let server = start(&server::Settings::default());
    runtime().block_on(async {
        let store = Postgres::open(&server.uri(), 1, PARTITIONS).await.unwrap();
        let damage = || async {
            let (client, connection) = tokio_postgres::connect(&server.uri(), NoTls).await.unwrap();
            tokio::spawn(connection);
            let statements = "SET search_path = plimsoll_workflow; \
                UPDATE instances SET status = 'later' WHERE id = 'b'; UPDATE signals SET body = '{' WHERE instance = 'b'; \
                UPDATE dead SET reason = 'later' WHERE instance = 'a'; UPDATE tasks SET body = '{' WHERE id = 'b/2'; \
                UPDATE definitions SET body = '{' WHERE name = 'b'";
            client.batch_execute(statements).await.unwrap();
        };
        contract::check_damage(&store, damage).await.unwrap();
    });
}

struct Now;

impl Clock for Now {
    fn now_ms(&self) -> u64 {
        plimsoll_measure::clock::wall_ms()
    }

    async fn until(&self, at_ms: u64) {
        sleep(Duration::from_millis(at_ms.saturating_sub(self.now_ms()))).await;
    }
}

/// The time from the start of an instance in one process to its end in another process that scans every
/// `poll_ms`, in milliseconds.
async fn latency_ms(uri: &str, listens: bool, poll_ms: u64) -> u64 {
    let open = || async { Postgres::open(uri, 2, PARTITIONS).await.unwrap() };
    let settings = Settings {
        listens,
        poll_max_ms: poll_ms,
        poll_min_ms: poll_ms,
        ..Settings::new(format!("{listens}"))
    };
    contract::news_ms(open().await, open().await, settings, Now).await.unwrap()
}

#[test]
fn work_of_another_process_begins_at_its_news_and_without_them_at_the_next_scan() {
    let server = start(&server::Settings::default());
    runtime().block_on(async {
        let with_news_ms = latency_ms(&server.uri(), true, 20_000).await;
        assert!(with_news_ms < 10_000, "{with_news_ms}");
        let without_ms = latency_ms(&server.uri(), false, 1_500).await;
        assert!(without_ms < 60_000, "{without_ms}");
    });
}

#[test]
fn a_key_that_no_index_can_hold_is_refused_and_a_batch_of_large_bodies_is_not() {
    let server = start(&server::Settings::default());
    runtime().block_on(async {
        let store = Postgres::open(&server.uri(), 1, PARTITIONS).await.unwrap();
        // Bytes that cannot be compressed, so that the server meets its limit.
        let mut random = plimsoll_measure::random::Random::new(1);
        let key: String = (0..20_000).map(|_| char::from(b'a' + (random.bits() % 26) as u8)).collect();
        let long = Record { key: Some(key), ..record("long", vec![1]) };
        let error = store.start(&[record("short", vec![1]), long]).await.unwrap_err();
        let reason = error.reason();
        assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
        // program_limit_exceeded
        assert_eq!(reason.name, "SQLSTATE 54000", "{error:?}");
        assert!(reason.message.contains("index row"), "{error:?}");
        let large: Vec<_> =
            (0..9).map(|number| record(&format!("large{number}"), vec![1; 8 << 20])).collect();
        assert_eq!(store.start(&large).await, Ok(vec![Inserted::New; 9]));
    });
}

fn record(id: &str, body: Vec<u8>) -> Record {
    Record {
        id: id.into(),
        partition: partition_of(id, PARTITIONS),
        version: 1,
        epoch: 0,
        status: Status::Running,
        due_ms: None,
        definition: Version { name: "d".into(), hash: "h".into() },
        key: None,
        note: None,
        body,
        changed_ms: 1,
    }
}

#[test]
fn a_store_works_again_after_the_server_was_killed_and_keeps_its_number_of_partitions() {
    let mut server = start(&server::Settings::default());
    let runtime = runtime();
    runtime.block_on(async {
        let uri = server.uri();
        let store = Postgres::open(&uri, 1, PARTITIONS).await.unwrap();
        let one = Find { limit: 1, ..Find::default() };
        assert!(store.find(&one).await.unwrap().is_empty());
        server.kill().unwrap();
        // A process of the server ends once it notices that the postmaster is dead.
        let dead = async {
            loop {
                match store.find(&one).await {
                    Ok(_) => sleep(Duration::from_millis(10)).await,
                    Err(error) => break error,
                }
            }
        };
        let dead = timeout(Duration::from_secs(30), dead).await.unwrap();
        assert!(matches!(dead, StoreError::Unavailable(_)), "{dead:?}");
        server.restart().unwrap();
        assert!(store.find(&one).await.unwrap().is_empty());
        assert_eq!(Postgres::open(&uri, 1, 64).await.unwrap().partitions(), PARTITIONS);
    });
}

#[test]
fn an_invalid_uri_and_unsupported_parameters_are_refused_by_name() {
    runtime().block_on(async {
        let error =
            |uri: &'static str| async move { Postgres::open(uri, 1, 1).await.unwrap_err().to_string() };
        assert!(error("nonsense").await.contains("the URI of PostgreSQL"));
        let unsupported = error("postgres://u@127.0.0.1/d?sslmode=allow").await;
        assert!(unsupported.contains("sslmode=allow is unsupported"), "{unsupported}");
        assert!(error("postgres://u@127.0.0.1/d?sslcrl=a").await.contains("sslcrl"));
        let refused = error("postgres://u@127.0.0.1:1/d").await;
        assert!(refused.contains("unavailable"), "{refused}");
    });
}

/// A certificate for these names, and its key, as files.
fn certificate(dir: &Path, name: &str, hosts: &[&str]) -> (String, String) {
    let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    let made = rcgen::generate_simple_self_signed(hosts).unwrap();
    let path = |ending: &str| dir.join(format!("{name}.{ending}"));
    let (certificate, key) = (path("crt"), path("key"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    // The server refuses a key that others can read.
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    (certificate.to_str().unwrap().to_owned(), key.to_str().unwrap().to_owned())
}

/// A server with a certificate.
fn with_certificate((certificate, key): &(String, String)) -> Server {
    let parameters = [("ssl", "on"), ("ssl_cert_file", certificate), ("ssl_key_file", key)];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
    start(&server::Settings { parameters: parameters.into(), ..server::Settings::default() })
}

#[test]
fn a_store_asks_for_tls_and_checks_the_certificate_as_its_uri_says() {
    let dir = tempfile::tempdir().unwrap();
    let right = certificate(dir.path(), "right", &["127.0.0.1"]);
    let wrong_host = certificate(dir.path(), "wrong", &["elsewhere.example"]);
    runtime().block_on(async {
        let open = |server: &Server, query: &str| {
            let uri = format!("{}?{query}", server.uri());
            async move { Postgres::open(&uri, 1, PARTITIONS).await.map(drop).map_err(|error| error.to_string()) }
        };
        let check = |mode: &str, authorities: &str| format!("sslmode={mode}&sslrootcert={authorities}");
        let server = with_certificate(&right);
        assert_eq!(open(&server, "sslmode=require").await, Ok(()));
        assert_eq!(open(&server, &check("verify-full", &right.0)).await, Ok(()));
        let unknown = [check("verify-full", &wrong_host.0), check("require", &wrong_host.0)];
        for query in unknown {
            let refused = open(&server, &query).await.unwrap_err();
            assert!(refused.contains("certificate"), "{query}: {refused}");
        }
        let server = with_certificate(&wrong_host);
        assert_eq!(open(&server, &check("verify-ca", &wrong_host.0)).await, Ok(()));
        let refused = open(&server, &check("verify-full", &wrong_host.0)).await.unwrap_err();
        assert!(refused.contains("not valid for name"), "{refused}");
    });
}

#[test]
fn every_connection_of_a_store_has_the_tls_of_its_uri() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = certificate(dir.path(), "server", &["127.0.0.1"]);
    let server = with_certificate(&certificate);
    runtime().block_on(async {
        let (client, connection) = tokio_postgres::connect(&server.uri(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let encrypted = "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
             WHERE application_name = 'plimsoll-workflow'";
        for (query, is_encrypted) in [("", false), ("?sslmode=prefer", false), ("?sslmode=require", true)] {
            let store = Postgres::open(&format!("{}{query}", server.uri()), 1, PARTITIONS).await.unwrap();
            timeout(Duration::from_secs(60), store.news()).await.unwrap();
            assert!(store.is_listening());
            store.backlog(1, 1).await.unwrap();
            // Connections of the last store end soon.
            let counts = loop {
                let row = client.query_one(encrypted, &[]).await.unwrap();
                let counts: (i64, i64) = (row.get(0), row.get(1));
                if counts.0 == 2 {
                    break counts;
                }
                sleep(Duration::from_millis(20)).await;
            };
            assert_eq!(counts, (2, if is_encrypted { 2 } else { 0 }), "{query}");
        }
    });
}

#[test]
fn a_server_without_tls_is_refused_if_the_uri_asks_for_it() {
    let server = start(&server::Settings::default());
    runtime().block_on(async {
        let uri = format!("{}?sslmode=verify-full", server.uri());
        let refused = Postgres::open(&uri, 1, PARTITIONS).await.unwrap_err().to_string();
        assert!(refused.contains("does not support TLS"), "{refused}");
    });
}
