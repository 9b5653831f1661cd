//! Tests blocks whose files arrive as lines.

use std::fmt::Write as _;

use serde_json::json;

use super::bench::{block, raw, serve};
use super::client::Client;

pub const PATH: &str = "/api/v4/origdatablocks/stream?datasetId=p%2F1&chkAlg=sha256";
pub const LINES: [(&str, &str); 1] = [("content-type", "application/x-ndjson")];

pub fn lines(files: usize) -> String {
    let mut text = String::new();
    for n in 0..files {
        let checksum = "0123456789abcdef".repeat(4);
        let time = "2017-07-24T13:56:30.000Z";
        writeln!(
            text,
            r#"{{"path":"{n:08}.dat","size":2,"time":"{time}","chk":"{checksum}","perm":"-rw-r--r--"}}"#
        )
        .unwrap();
    }
    text
}

#[tokio::test]
async fn a_block_of_many_lines_is_one_block() {
    const FILES: usize = 60_000;
    let service = serve("stream", "limits: {body_bytes_max: 1000000}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let added = ann.send("POST", PATH, &LINES, lines(FILES).as_bytes()).await.is(201);
    assert_eq!(
        (&added["numberOfFiles"], &added["size"], &added["chkAlg"]),
        (&json!(FILES), &json!(2 * FILES), &json!("sha256"))
    );
    let dataset = ann.get("/api/v3/datasets/p%2F1").await.is(200);
    assert_eq!((&dataset["numberOfFiles"], &dataset["size"]), (&json!(FILES), &json!(2 * FILES)));
    let blocks = ann.get("/api/v3/datasets/p%2F1/origdatablocks").await.is(200);
    let files = blocks[0]["dataFileList"].as_array().unwrap();
    assert_eq!((blocks.as_array().unwrap().len(), files.len()), (1, FILES));
    assert_eq!(files[FILES - 1]["path"], format!("{:08}.dat", FILES - 1));
    service.stop().await;
}

#[tokio::test]
async fn a_faulty_line_refuses_the_block_and_leaves_nothing() {
    let service = serve("stream_faulty", "limits: {body_bytes_max: 65536}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    for (text, said) in [
        (lines(50_000) + "{\"path\": 1}\n", "line 50001: path must be a string"),
        ("{}\n".into(), "line 1: path should not be empty"),
        ("\n\n{\n".into(), "line 3: EOF"),
        ("\n".into(), "send at least one file"),
    ] {
        let refused = ann.send("POST", PATH, &LINES, text.as_bytes()).await.is(400);
        assert!(refused["message"][0].as_str().unwrap().starts_with(said), "{refused}");
    }
    ann.send("POST", PATH, &LINES, "x".repeat(100_000).as_bytes()).await.is(413);
    let mut ann = Client::user(service.address(), "ann").await;
    ann.send("POST", PATH, &[("content-type", "application/json")], b"{}").await.is(415);
    let mut nobody = Client::connect(service.address()).await;
    nobody.send("POST", PATH, &LINES, lines(1).as_bytes()).await.is(403);
    let mut bob = Client::user(service.address(), "bob").await;
    bob.send("POST", PATH, &LINES, lines(1).as_bytes()).await.is(403);
    let state = &service.context().state;
    for name in ["OrigDatablock", "OrigDatablockPart", "OrigDatablockStaging"] {
        let left =
            state.database.collection::<bson::Document>(name).count_documents(bson::doc! {}).await.unwrap();
        assert_eq!(left, 0, "{name}");
    }
    service.stop().await;
}

/// Waits until the service answers that many requests.
async fn in_flight(client: &mut Client, requests: usize) {
    let line = format!("catalogue_http_requests_in_flight {requests}\n");
    let wait = async {
        while !String::from_utf8(client.get("/metrics").await.body).unwrap().contains(&line) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), wait).await.unwrap();
}

#[tokio::test]
async fn open_streams_take_no_memory_from_other_bodies() {
    let service = serve("stream_open", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut stream = Client::connect(service.address()).await;
        stream.token = ann.token.clone();
        stream.begin(PATH, &lines(2)).await;
        open.push(stream);
    }
    in_flight(&mut ann, open.len()).await;
    let mut bob = Client::user(service.address(), "bob").await;
    bob.get("/api/v3/auth/whoami").await.is(200);
    for mut stream in open {
        stream.piece("").await;
        assert_eq!(stream.answer().await.is(201)["numberOfFiles"], json!(2));
    }
    service.stop().await;
}

#[tokio::test]
async fn a_line_of_a_slow_bulk_has_the_time_of_its_storage() {
    let service = serve("bulk_slow", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let mut slow = Client::connect(service.address()).await;
    slow.token = ann.token.clone();
    let mut body = raw("p/1");
    body.as_object_mut().unwrap().remove("principalInvestigator");
    slow.begin("/api/v4/datasets/bulk", &format!("{body}\n")).await;
    let wait = async {
        while String::from_utf8(ann.get("/metrics").await.body)
            .unwrap()
            .contains("catalogue_http_body_bytes 0\n")
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), wait).await.unwrap();
    // The job that collects keys follows the time of changes: it would pass the waiting line.
    let other = ann.post("/api/v3/datasets", &raw("p/2")).await.is(201);
    slow.piece("").await;
    slow.answer().await.is(201);
    let first = ann.get("/api/v3/datasets/p%2F1").await.is(200);
    for time in ["createdAt", "updatedAt"] {
        assert!(first[time].as_str() >= other[time].as_str(), "{first} {other}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_stream_beyond_the_memory_of_streams_is_refused_and_leaves_nothing() {
    let limits = "limits: {body_bytes_max: 100000, batch_bytes_max: 100000, bodies_bytes_max: 1000000}";
    let service = serve("stream_memory", limits).await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let refused = ann.send("POST", PATH, &LINES, lines(4_000).as_bytes()).await;
    assert_eq!(refused.status, 413, "it is larger than the memory of all streams");
    let mut ann = Client::user(service.address(), "ann").await;
    assert_eq!(ann.get("/api/v3/datasets/p%2F1").await.is(200)["numberOfFiles"], json!(0));
    ann.send("POST", PATH, &LINES, lines(100).as_bytes()).await.is(201);
    service.stop().await;
}

#[tokio::test]
async fn a_block_whose_answer_has_no_room_is_not_stored() {
    const FILES: usize = 50_000;
    let service = serve("stream_room", "limits: {answers_bytes_max: 32000000}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    ann.post("/api/v3/origdatablocks", &block("p/1", FILES)).await.is(400);
    let dataset = ann.get("/api/v3/datasets/p%2F1").await.is(200);
    assert_eq!(dataset["numberOfFiles"], json!(0), "a client that sends the block again would double it");
    ann.post("/api/v3/origdatablocks", &block("p/1", 10)).await.is(201);
    service.stop().await;
}

#[tokio::test]
async fn a_long_block_is_answered_with_all_its_files() {
    const FILES: usize = 60_000;
    let service = serve("stream_answer", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let added = ann.post("/api/v3/origdatablocks", &block("p/1", FILES)).await.is(201);
    let files = added["dataFileList"].as_array().unwrap();
    assert_eq!((files.len(), &files[FILES - 1]["path"]), (FILES, &json!(format!("{}.dat", FILES - 1))));
    service.stop().await;
}

#[tokio::test]
async fn many_datasets_are_created_with_a_result_for_each_line() {
    let service = serve("bulk", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let line = |pid: &str, group: &str| {
        let mut body = raw(pid);
        body.as_object_mut().unwrap().remove("principalInvestigator");
        body["ownerGroup"] = group.into();
        body.to_string()
    };
    let mut text: Vec<String> = (0..450).map(|n| line(&format!("p/{n}"), "group1")).collect();
    text.extend([
        line("p/7", "group1"),
        line("q", "group2"),
        "{".into(),
        json!({"ownerGroup": "group1"}).to_string(),
    ]);
    let path = "/api/v4/datasets/bulk";
    let answer = ann.send("POST", path, &LINES, text.join("\n").as_bytes()).await.is(201);
    assert_eq!((&answer["created"], &answer["failed"]), (&json!(450), &json!(4)));
    let status = |line: usize| answer["results"][line - 1]["statusCode"].as_u64().unwrap();
    assert_eq!([1, 450, 451, 452, 453, 454].map(status), [201, 201, 409, 403, 400, 400]);
    assert_eq!(answer["results"][449], json!({"line": 450, "statusCode": 201, "pid": "p/449"}));
    assert_eq!(ann.get("/api/v4/datasets/count").await.is(200), json!({"count": 450}));
    let mut nobody = Client::connect(service.address()).await;
    nobody.send("POST", path, &LINES, line("x", "group1").as_bytes()).await.is(403);
    service.stop().await;
}

/// A line of this process's status, in bytes.
fn memory_bytes(name: &str) -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: cargo xtask test --all runs it"]
async fn a_million_files_in_one_request_take_bounded_memory() {
    const FILES: usize = 1_000_000;
    let service = serve("stream_long", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let text = lines(FILES);
    // The client copies the text once to send it. The write resets the peak.
    let before = memory_bytes("VmRSS:") + text.len() as i64;
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let added = ann.send("POST", PATH, &LINES, text.as_bytes()).await.is(201);
    let grown = memory_bytes("VmHWM:") - before;
    assert_eq!(added["numberOfFiles"], json!(FILES));
    let dataset = ann.get("/api/v3/datasets/p%2F1").await.is(200);
    assert_eq!(dataset["numberOfFiles"], json!(FILES));
    assert!(grown < 200 << 20, "{} MiB", grown >> 20);
    service.stop().await;
}
