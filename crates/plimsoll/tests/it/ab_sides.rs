//! Tests complete comparisons of two servers, two clients and two programs.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use plimsoll_host::{Profile, Server};
use plimsoll_wire::{ConnectOptions, Connection};
use serde_json::{Value, json};

use crate::program::{fits_60, inserts, json, plimsoll_with, scenario, server, shared, stderr, uri};

const PAIRS: usize = 8;

/// Runs a complete comparison, checks the exit code against its verdict, and returns it with its directory.
fn compared(dir: &Path, text: &str, args: &[&str]) -> (Value, PathBuf) {
    let (file, out) = (scenario(dir, text), dir.join("ab"));
    let fixed = ["ab", file.to_str().unwrap(), "--pairs", "8", "--out", out.to_str().unwrap()];
    let output = fits_60(dir, &[&fixed[..], args].concat(), &[0, 99]);
    let found = json(&plimsoll_with(&["show", out.to_str().unwrap(), "--json"]));
    let is_worse = found["metrics"].as_array().unwrap().iter().any(|metric| metric["verdict"] == "worse");
    // Either of two similar sides may be the better one on this machine, but a verdict is always possible.
    assert_ne!(found["verdict"], "no_verdict", "{found}");
    assert_eq!(output.status.code(), Some(if is_worse { 99 } else { 0 }), "{found}");
    assert_eq!(found["method"], json!({"kind": "exact", "pairs": PAIRS}));
    for side in [&found["a"], &found["b"]] {
        assert_eq!(side["runs"].as_array().unwrap().len(), PAIRS, "{side}");
        let sound = (&side["kept"], &side["idle"], &side["failed"]);
        assert_eq!(sound, (&json!(true), &json!(0), &json!(0)), "{side}");
    }
    let page = fs::read_to_string(out.join("comparison.html")).unwrap();
    assert!(page.contains("001-a/report.html") && page.contains("008-b/report.html"));
    (found, out)
}

/// A value of every run of a side.
fn values(out: &Path, side: &str, pointer: &str) -> Vec<Value> {
    let of = |pair: usize| {
        let text = fs::read_to_string(out.join(format!("{pair:03}-{side}/run.json"))).unwrap();
        let run: Value = serde_json::from_str(&text).unwrap();
        run.pointer(pointer).unwrap().clone()
    };
    (1..=PAIRS).map(of).collect()
}

/// Keys in which A and B differ.
fn differences(found: &Value) -> Vec<&str> {
    found["differences"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect()
}

/// The names of the collections on a server, in these tests' database.
fn collections(server: &Server) -> Vec<String> {
    let options = ConnectOptions::new(server.address().to_string().parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reply = runtime.block_on(async {
        let mut connection = Connection::connect(&options).await.unwrap();
        connection.command("plimsoll_test", &bson::rawdoc! {"listCollections": 1}).await.unwrap()
    });
    let reply = bson::Document::try_from(reply.as_ref()).unwrap();
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.iter().map(|it| it.as_document().unwrap().get_str("name").unwrap().to_owned()).collect()
}

#[test]
fn two_servers_are_measured_in_turns_and_their_collections_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let text = inserts("ab_servers", 50, "{documents: 1_000}");
    let (one, other) = (server(Profile::Relaxed, &[]), server(Profile::Relaxed, &[]));
    let (a, b) = (format!("server={}", uri(&one)), format!("server={}", uri(&other)));
    let (found, out) = compared(dir.path(), &text, &["--a", &a, "--b", &b]);
    assert!(differences(&found).iter().all(|path| path.starts_with("server")), "{found}");
    for (side, server) in [("a", &one), ("b", &other)] {
        let address = json!([server.address().to_string()]);
        assert_eq!(values(&out, side, "/server/addresses"), vec![address; PAIRS], "{side}");
        assert_eq!(values(&out, side, "/integrity/found"), vec![json!(1_000); PAIRS], "{side}");
        assert_eq!(collections(server), [] as [String; 0], "{side}");
    }
}

/// Tests that `cargo xtask test --all` runs.
mod long {
    use super::*;

    #[test]
    #[ignore = "long: cargo xtask test --all runs it"]
    fn two_clients_are_measured_in_turns_on_one_server() {
        let dir = tempfile::tempdir().unwrap();
        let text = inserts("ab_clients", 10, "{documents: 1_000}");
        let server = shared();
        let words = ["--server", &server, "--a", "set client=lean", "--b", "set client=driver"];
        let (found, out) = compared(dir.path(), &text, &words);
        assert_eq!(differences(&found), ["client"], "{found}");
        assert_eq!(
            (&found["a"]["name"], &found["b"]["name"]),
            (&json!("client=lean"), &json!("client=driver")),
            "{found}"
        );
        let clients = ["a", "b"].map(|side| values(&out, side, "/scenario/client"));
        for of_one in &clients {
            assert!(of_one.iter().all(|client| *client == of_one[0]), "{clients:?}");
        }
        assert_ne!(clients[0][0], clients[1][0]);
        let costs: Vec<_> = found["metrics"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert!(costs.contains(&&json!("client.cpu_us_per_operation")), "{costs:?}");
    }

    #[test]
    #[ignore = "long: cargo xtask test --all runs it"]
    fn two_programs_are_measured_in_turns_and_a_copy_is_the_same_program() {
        let dir = tempfile::tempdir().unwrap();
        let text = inserts("ab_programs", 50, "{documents: 1_000}");
        let other = dir.path().join("plimsoll-other");
        fs::copy(env!("CARGO_BIN_EXE_plimsoll"), &other).unwrap();
        let (server, binary) = (shared(), format!("binary={}", other.display()));
        let words = ["--server", &server, "--b", &binary];
        let file = scenario(dir.path(), &text);
        let refused = plimsoll_with(&[&["ab", file.to_str().unwrap()], &words[..]].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("A and B are identical"), "{}", stderr(&refused));

        // A program ignores bytes after its end.
        OpenOptions::new().append(true).open(&other).unwrap().write_all(b"\n").unwrap();
        let (found, out) = compared(dir.path(), &text, &words);
        assert_eq!(differences(&found), [""; 0], "both report the same version: {found}");
        assert_eq!(found["b"]["name"], json!(binary));
        assert_eq!(values(&out, "b", "/integrity/found"), vec![json!(1_000); PAIRS]);
    }
}
