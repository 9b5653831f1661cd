//! Tests that no request reads or changes data of others.

use std::path::Path;

use plimsoll_catalogue::serve::start;
use plimsoll_catalogue::settings::Typed;
use plimsoll_service::settings;
use serde_json::{Value, json};

use super::bench::{block, raw, serve};
use super::client::{Client, encoded};

#[tokio::test]
async fn foreign_data_is_neither_read_nor_changed() {
    let service = serve("foreign", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("secret/1")).await.is(201);
    let path = "/api/v3/datasets/secret%2F1";
    let mut bob = Client::user(service.address(), "bob").await;
    let mut nobody = Client::connect(service.address()).await;
    for client in [&mut bob, &mut nobody] {
        let refused = client.get(path).await.is(403);
        assert_eq!(
            refused,
            json!({"message": "Unauthorized access", "error": "Forbidden", "statusCode": 403})
        );
        client.patch(path, &[], &json!({"ownerGroup": "group2"})).await.is(403);
        client.delete(path).await.is(403);
        client.post("/api/v3/origdatablocks", &block("secret/1", 1)).await.is(403);
        client.get(&format!("{path}/origdatablocks")).await.is(403);
        client.get("/api/v4/datasets/public/secret%2F1").await.is(404);
    }
    nobody.get("/api/v4/datasets").await.is(403);
    nobody.post("/api/v3/datasets", &raw("x")).await.is(403);
    nobody.post("/api/v4/datasets/isValid", &raw("x")).await.is(403);
    bob.post("/api/v3/datasets", &raw("x")).await.is(403);
    for (method, path) in [
        ("POST", "/api/v3/datasets"),
        ("POST", "/api/v4/attachments"),
        ("PATCH", path),
        ("PUT", path),
        ("PATCH", "/api/v3/datasets/secret%2F1/datasetlifecycle"),
    ] {
        let json = [("content-type", "application/json")];
        let refused = nobody.send(method, path, &json, b"no JSON").await;
        assert_eq!(refused.status, 403, "{method} {path}: the body of a stranger is not parsed");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_new_dataset_under_an_old_pid_shows_nothing_of_the_old_one() {
    let service = serve("reborn", "").await;
    let path = "/api/v3/datasets/reborn%2F1";
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("reborn/1")).await.is(201);
    ann.patch(path, &[], &json!({"comment": "hidden words"})).await.is(200);
    ann.patch(path, &[], &json!({"comment": "others"})).await.is(200);
    assert_eq!(ann.get(path).await.is(200)["history"].as_array().unwrap().len(), 2);
    let mut cleaner = Client::user(service.address(), "cleaner").await;
    cleaner.delete(path).await.is(200);
    let mut bob = Client::user(service.address(), "bob").await;
    let mut body = raw("reborn/1");
    body["ownerGroup"] = "group2".into();
    bob.post("/api/v3/datasets", &body).await.is(201);
    assert_eq!(bob.get(path).await.is(200)["history"], json!([]));
    bob.patch(path, &[], &json!({"comment": "new"})).await.is(200);
    let history = bob.get(path).await.is(200)["history"].clone();
    assert_eq!(
        (history.as_array().unwrap().len(), &history[0]["comment"]["currentValue"]),
        (1, &json!("new"))
    );
    service.stop().await;
}

#[tokio::test]
async fn hostile_queries_show_nothing_of_others() {
    let service = serve("hostile", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("secret/1")).await.is(201);
    let mut nobody = Client::connect(service.address()).await;
    for fields in [
        json!({"isPublished": false}),
        json!({"mode": {"$or": [{"isPublished": false}, {"isPublished": true}]}}),
        json!({"userGroups": ["group1", "admin"], "ownerGroup": ["group1"]}),
        json!({"mode": {"ownerGroup": {"$exists": true}}}),
        json!({"mode": {"$nor": [{"isPublished": true}]}}),
        json!({"sharedWith": ["ann@x.org"]}),
    ] {
        let fields = encoded(&fields.to_string());
        let found = nobody.get(&format!("/api/v3/datasets/fullquery?fields={fields}")).await.is(200);
        assert_eq!(found, json!([]));
        let facets = nobody
            .get(&format!("/api/v3/datasets/fullfacet?fields={fields}&facets=%5B%22pid%22%5D"))
            .await
            .is(200);
        assert_eq!(facets, json!([{"all": [], "pid": []}]));
    }
    for (parameter, text) in [
        ("fields", r#"{"$where":"sleep(1000)"}"#),
        ("fields", r#"{"mode":{"$expr":{"$function":{}}}}"#),
        ("fields", "{"),
        ("fields", r#"{"pid":{"$regex":"(a+)+$"}}"#),
        ("limits", r#"{"limit":1e9}"#),
        ("limits", r#"{"order":"$where:desc"}"#),
    ] {
        let path = format!("/api/v3/datasets/fullquery?{parameter}={}", encoded(text));
        let refused = nobody.get(&path).await.is(400);
        assert_eq!(
            (&refused["error"], &refused["statusCode"]),
            (&json!("Bad Request"), &json!(400)),
            "{text}"
        );
    }
    assert_eq!(nobody.get("/api/v3/datasets/fullquery?fields=%FF%FE").await.status, 400);
    service.stop().await;
}

#[tokio::test]
async fn an_owner_hands_no_dataset_to_a_foreign_group() {
    let service = serve("handed", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let path = "/api/v3/datasets/p%2F1";
    ann.patch(path, &[], &json!({"ownerGroup": "group2"})).await.is(403);
    ann.patch(path, &[], &json!({"ownerGroup": "group1", "comment": "c"})).await.is(200);
    let mut body = raw("p/1");
    body["ownerGroup"] = "group2".into();
    body.as_object_mut().unwrap().remove("pid");
    ann.put(path, &body).await.is(403);
    let mut admin = Client::user(service.address(), "admin").await;
    admin.patch(path, &[], &json!({"ownerGroup": "group2"})).await.is(200);
    ann.get(path).await.is(403);
    service.stop().await;
}

#[tokio::test]
async fn published_data_is_open_to_everyone() {
    let service = serve("published", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("open/1")).await.is(201);
    ann.patch("/api/v3/datasets/open%2F1", &[], &json!({"isPublished": true})).await.is(200);
    let mut nobody = Client::connect(service.address()).await;
    assert_eq!(nobody.get("/api/v4/datasets/public/open%2F1").await.is(200)["pid"], "open/1");
    assert_eq!(nobody.get("/api/v3/datasets/fullquery").await.is(200).as_array().unwrap().len(), 1);
    assert_eq!(nobody.get("/api/v4/datasets/public").await.is(200).as_array().unwrap().len(), 1);
    assert_eq!(nobody.get("/api/v4/datasets/public/count").await.is(200), json!({"count": 1}));
    assert_eq!(nobody.get("/api/v4/datasets/public/findOne").await.is(200)["pid"], "open/1");
    ann.post("/api/v3/datasets", &raw("closed/1")).await.is(201);
    assert_eq!(
        ann.get("/api/v4/datasets/public/fullfacet").await.is(200),
        json!([{"all": [{"totalSets": 1}]}])
    );
    assert_eq!(ann.get("/api/v4/datasets/fullfacet").await.is(200), json!([{"all": [{"totalSets": 2}]}]));
    for path in ["fullfacet", "count", "findOne"] {
        nobody.get(&format!("/api/v4/datasets/{path}")).await.is(403);
    }
    service.stop().await;
}

#[tokio::test]
async fn an_answer_beyond_the_memory_is_refused() {
    let service = serve("memory", "limits: {answers_bytes_max: 400000}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let large = json!({"thumbnail": "x".repeat(10_000), "caption": "c"});
    for _ in 0..2 {
        ann.post("/api/v3/datasets/p%2F1/attachments", &large).await.is(201);
    }
    let refused = ann.get("/api/v3/datasets/p%2F1/attachments").await.is(400);
    assert!(refused["message"].as_str().unwrap().starts_with("the answer is too large"), "{refused}");
    assert_eq!(ann.get("/api/v3/datasets/p%2F1").await.is(200)["pid"], "p/1");
    service.stop().await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let service = serve("large", "limits: {body_bytes_max: 1000}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let refused = ann.post("/api/v3/origdatablocks", &block("p", 1_000)).await.is(413);
    let expected =
        json!({"statusCode": 413, "message": "request entity too large", "error": "Payload Too Large"});
    assert_eq!(refused, expected);
    let mut ann = Client::user(service.address(), "ann").await;
    let unknown = ann.get("/api/v3/nothing").await.is(404);
    assert_eq!(unknown["error"], Value::from("Not Found"));
    service.stop().await;
}

/// The headers of a preflight request from a page of an origin.
fn preflight(origin: &str) -> [(&str, &str); 3] {
    [
        ("origin", origin),
        ("access-control-request-method", "PATCH"),
        ("access-control-request-headers", "authorization,content-type"),
    ]
}

#[tokio::test]
async fn pages_of_listed_origins_use_the_catalogue_and_others_do_not() {
    const PAGE: &str = "https://data.example.org";
    let service = serve("pages_listed", "cors: {origins: ['https://data.example.org']}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let path = "/api/v3/Datasets/p%2F1";
    let token = ann.token.take();
    let allowed = ann.send("OPTIONS", path, &preflight(PAGE), b"").await;
    assert_eq!((allowed.status, allowed.body.len()), (204, 0));
    for line in [
        "access-control-allow-origin: https://data.example.org",
        "access-control-allow-methods: GET, HEAD, POST, PUT, PATCH, DELETE",
        "access-control-allow-headers: authorization,content-type",
        "vary: origin",
    ] {
        assert!(allowed.head.contains(line), "{line}: {}", allowed.head);
    }
    for origin in ["https://data.example.org.evil.org", "http://data.example.org", "null"] {
        let refused = ann.send("OPTIONS", path, &preflight(origin), b"").await;
        assert_eq!(refused.status, 405, "{origin}");
        assert!(!refused.head.contains("access-control-"), "{}", refused.head);
        let answer = ann.send("GET", "/api/v3/datasets", &[("origin", origin)], b"").await;
        assert!(answer.status == 200 && !answer.head.contains("access-control-"), "{}", answer.head);
    }
    let origin = [("origin", PAGE)];
    assert_eq!(ann.send("OPTIONS", path, &origin, b"").await.status, 405, "no preflight request");
    for (path, status) in [(path, 403), ("/api/v3/unheard", 404), ("/api/v3/datasets", 200)] {
        let answer = ann.send("GET", path, &origin, b"").await;
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.head.contains("access-control-allow-origin: https://data.example.org"), "{path}");
    }
    ann.token = token;
    let change = [("origin", PAGE), ("content-type", "application/json")];
    let changed = ann.send("PATCH", path, &change, br#"{"comment": "c"}"#).await;
    assert_eq!((changed.status, changed.head.contains("access-control-allow-origin: ")), (200, true));
    service.stop().await;
}

#[tokio::test]
async fn without_a_list_no_page_uses_the_catalogue_and_with_a_star_every_page_does() {
    for (name, more, status) in [("no_pages", "", 405), ("all_pages", "cors: {origins: ['*']}", 204)] {
        let service = serve(name, more).await;
        let mut page = Client::connect(service.address()).await;
        let answer = page.send("OPTIONS", "/api/v3/datasets", &preflight("https://a.org"), b"").await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.head.contains("access-control-allow-origin: *"), status == 204, "{}", answer.head);
        let answer = page.send("GET", "/api/v3/datasets", &[("origin", "https://a.org")], b"").await;
        assert_eq!(answer.head.contains("access-control-"), status == 204, "{}", answer.head);
        service.stop().await;
    }
}

#[tokio::test]
async fn failed_logins_for_a_name_are_limited() {
    let service = serve("guessed", "").await;
    let mut client = Client::connect(service.address()).await;
    let mut login = async |name: &str, password: &str| {
        client.post("/api/v3/auth/login", &json!({"username": name, "password": password})).await
    };
    for guess in 0..10 {
        login("ann", &format!("guess {guess}")).await.is(401);
    }
    for password in ["guess", "ann-secret"] {
        let refused = login("ann", password).await;
        assert!(refused.head.contains("retry-after: "), "{}", refused.head);
        let said = refused.is(429)["message"].as_str().unwrap().to_owned();
        assert!(said.starts_with("too many logins failed: retry in "), "{said}");
    }
    for _ in 0..20 {
        login("bob", "bob-secret").await.is(201);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_catalogue_without_a_database_does_not_start_and_keeps_the_password() {
    for (uri, said) in [
        ("mongodb://ann:hunter2@127.0.0.1:1/?serverSelectionTimeoutMS=100", "no server answers"),
        ("mongodb://ann:hunter2", "the connection string cannot be read"),
    ] {
        let typed: Typed =
            settings::read(&format!("listen: 127.0.0.1:0\ndatabase: {{uri: '{uri}'}}")).unwrap();
        let error = start(typed.build(Path::new(".")).unwrap()).await.err().unwrap().to_string();
        assert!(error.contains(said) && !error.contains("hunter2"), "{error}");
    }
}
