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
