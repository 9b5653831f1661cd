//! Tests the endpoints that SciCat's clients use.

use serde_json::{Value, json};

use super::bench::{block, raw, serve};
use super::client::{Client, encoded};

#[tokio::test]
async fn the_upkeep_counts_a_block_that_a_crash_left_uncounted() {
    let service = serve("upkeep", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let blocks = service.context().state.database.collection::<bson::Document>("OrigDatablock");
    let left =
        bson::doc! {"_id": "b", "datasetId": "p/1", "size": 15_i64, "fileCount": 5_i64, "uncounted": true};
    blocks.insert_one(left).await.unwrap();
    let wait = async {
        while ann.get("/api/v3/datasets/p%2F1").await.is(200)["size"] != json!(15) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), wait).await.unwrap();
    service.stop().await;
}

#[tokio::test]
async fn a_dataset_lives_from_login_to_removal() {
    let service = serve("life", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let created = ann.post("/api/v3/Datasets", &raw("a/b")).await.is(201);
    assert_eq!((&created["pid"], &created["principalInvestigator"]), (&json!("a/b"), &json!("bench")));
    assert_eq!(created["principalInvestigators"], json!(["bench"]));
    assert_eq!(created["scientificMetadata"]["length"]["valueSI"], json!(0.005));
    ann.post("/api/v3/datasets", &raw("a/b")).await.is(409);

    let path = format!("/api/v3/Datasets/{}", encoded("a/b"));
    ann.post(&format!("{path}/OrigDatablocks"), &block("a/b", 3)).await.is(201);
    ann.post("/api/v4/origdatablocks", &block("a/b", 2)).await.is(201);
    let read = ann.get(&path).await.is(200);
    assert_eq!(
        (&read["size"], &read["numberOfFiles"], &read["history"]),
        (&json!(10), &json!(5), &json!([]))
    );
    let blocks = ann.get(&format!("{path}/origdatablocks")).await.is(200);
    assert_eq!(
        blocks
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["dataFileList"].as_array().unwrap().len())
            .sum::<usize>(),
        5
    );

    let attachment =
        json!({"thumbnail": "data:image/png;base64,AA==", "caption": "c", "ownerGroup": "group1"});
    ann.post(&format!("{path}/attachments"), &attachment).await.is(201);
    assert_eq!(ann.get(&format!("{path}/attachments/count")).await.is(200), json!({"count": 1}));

    let changed = ann.patch(&path, &[], &json!({"description": "new"})).await.is(200);
    assert_eq!((&changed["description"], &changed["updatedBy"]), (&json!("new"), &json!("ann")));
    let history = &ann.get(&path).await.is(200)["history"];
    assert_eq!(history[0]["description"], json!({"previousValue": null, "currentValue": "new"}));

    let v4 = format!("/api/v4/datasets/{}?include=attachments&include=origdatablocks", encoded("a/b"));
    let read = ann.get(&v4).await.is(200);
    assert_eq!(
        (read["attachments"].as_array().unwrap().len(), read["origdatablocks"].as_array().unwrap().len()),
        (1, 2)
    );
    assert!(read.get("principalInvestigator").is_none());

    ann.delete(&path).await.is(403);
    let mut cleaner = Client::user(service.address(), "cleaner").await;
    assert_eq!(cleaner.delete(&path).await.is(200)["pid"], "a/b");
    let gone = ann.get(&path).await.is(404);
    assert_eq!(gone, json!({"message": "dataset: a/b not found", "error": "Not Found", "statusCode": 404}));
    service.stop().await;
}

#[tokio::test]
async fn a_login_has_the_form_that_clients_read() {
    let service = serve("login", "").await;
    let mut client = Client::connect(service.address()).await;
    let body = json!({"username": "ann", "password": "ann-secret"});
    let session = client.post("/api/v3/Auth/Login/", &body).await.is(201);
    assert_eq!(session["id"], session["access_token"]);
    assert_eq!((&session["ttl"], &session["user"]["username"]), (&json!(3600), &json!("ann")));
    let refused =
        client.post("/api/v3/auth/login", &json!({"username": "ann", "password": "x"})).await.is(401);
    assert_eq!(refused, json!({"message": "Unauthorized", "statusCode": 401}));
    client.get("/api/v3/users/my/self").await.is(401);
    let token = session["id"].as_str().unwrap();
    let identity = client.get(&format!("/api/v3/Users/my/identity?access_token={token}")).await.is(200);
    assert_eq!(identity["profile"]["accessGroups"], json!(["group1"]));
    let id = session["userId"].as_str().unwrap();
    client.get(&format!("/api/v3/users/{id}/userIdentity?access_token={token}")).await.is(200);
    client.get(&format!("/api/v3/users/other/userIdentity?access_token={token}")).await.is(403);
    service.stop().await;
}

#[tokio::test]
async fn queries_of_both_versions_find_the_dataset() {
    let service = serve("queries", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    for pid in ["p/1", "p/2", "p/3"] {
        ann.post("/api/v3/datasets", &raw(pid)).await.is(201);
    }
    let mut found = async |path: &str, query: &[(&str, Value)]| {
        let query: Vec<_> =
            query.iter().map(|(name, value)| format!("{name}={}", encoded(&value.to_string()))).collect();
        ann.get(&format!("{path}?{}", query.join("&"))).await.is(200)
    };
    let fields = json!({"mode": {}, "pid": "p/2"});
    let limits = json!({"skip": 0, "limit": 25, "order": "creationTime:desc"});
    let full = found("/api/v3/Datasets/fullquery", &[("fields", fields), ("limits", limits)]).await;
    assert_eq!((full.as_array().unwrap().len(), &full[0]["pid"]), (1, &json!("p/2")));
    let facets =
        found("/api/v3/datasets/fullfacet", &[("fields", json!({})), ("facets", json!(["type"]))]).await;
    assert_eq!(facets, json!([{"all": [{"totalSets": 3}], "type": [{"_id": "raw", "count": 3}]}]));
    let filter =
        json!({"where": {"pid": {"inq": ["p/1", "p/3"]}}, "include": [{"relation": "origdatablocks"}]});
    let listed = found("/api/v3/Datasets", &[("filter", filter.clone())]).await;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["origdatablocks"]), (2, &json!([])));
    assert_eq!(found("/api/v3/datasets/count", &[("filter", filter)]).await, json!({"count": 2}));
    let none = json!({"where": {"pid": "none"}});
    assert_eq!(found("/api/v3/datasets/findOne", &[("filter", none)]).await, Value::Null);
    let one = json!({"where": {"pid": "p/1"}, "fields": ["pid", "datasetName"]});
    assert_eq!(
        found("/api/v4/datasets/findOne", &[("filter", one)]).await,
        json!({"pid": "p/1", "datasetName": "x"})
    );
    let page = json!({"limits": {"limit": 2}});
    let first = found("/api/v4/datasets", &[("filter", page.clone())]).await;
    assert_eq!(first.as_array().unwrap().len(), 2);
    let first =
        ann.get(&format!("/api/v4/datasets?after=&filter={}", encoded(&page.to_string()))).await.is(200);
    let next = first["next"].as_str().unwrap();
    let second = ann
        .get(&format!("/api/v4/datasets?after={next}&filter={}", encoded(&page.to_string())))
        .await
        .is(200);
    assert_eq!((second["datasets"].as_array().unwrap().len(), &second["next"]), (1, &Value::Null));
    service.stop().await;
}

#[tokio::test]
async fn a_cursor_pages_a_list_without_an_order_and_refuses_another_order() {
    let service = serve("followed", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let mut created: Vec<String> = (0..20).map(|number| format!("p/{number:02}")).collect();
    for pid in &created {
        ann.post("/api/v3/datasets", &raw(pid)).await.is(201);
    }
    let filter = |limits: Value| encoded(&json!({"limits": limits, "fields": ["owner"]}).to_string());
    let seven = filter(json!({"limit": 7}));
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = ann.get(&format!("/api/v3/datasets?after={after}&filter={seven}")).await.is(200);
        let datasets = page["datasets"].as_array().unwrap();
        found.extend(datasets.iter().map(|it| it["pid"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    created.reverse();
    found.sort();
    found.reverse();
    assert_eq!(found, created);
    for limits in [json!({"order": "size:desc"}), json!({"order": "createdAt:asc"})] {
        let refused = ann.get(&format!("/api/v3/datasets?after=&filter={}", filter(limits))).await.is(400);
        assert!(refused["message"].as_str().unwrap().contains("creationTime"), "{refused}");
    }
    let other = filter(json!({"order": "size:desc"}));
    ann.get(&format!("/api/v3/datasets?after={after}&filter={other}")).await.is(400);
    let sorted = encoded(&json!({"limits": {"sort": {"owner": "asc"}}}).to_string());
    ann.get(&format!("/api/v4/datasets?after=&filter={sorted}")).await.is(400);
    service.stop().await;
}

#[tokio::test]
async fn a_change_is_conditional_and_a_merge_patch_removes() {
    let service = serve("conditional", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let created = ann.post("/api/v3/datasets", &raw("p")).await.is(201);
    let path = "/api/v4/datasets/p";
    let since = created["updatedAt"].as_str().unwrap();
    let body = json!({"description": "d"});
    ann.patch(path, &[("if-unmodified-since", since)], &body).await.is(200);
    let stale =
        ann.patch(path, &[("if-unmodified-since", since)], &json!({"description": "e"})).await.is(412);
    assert_eq!(stale["error"], "Precondition Failed");
    ann.patch(path, &[("if-unmodified-since", "soon")], &body).await.is(400);
    let merge = [("content-type", "application/merge-patch+json")];
    let changed = ann.patch(path, &merge, &json!({"description": null})).await.is(200);
    assert!(changed.get("description").is_none());
    service.stop().await;
}

#[tokio::test]
async fn a_size_is_verified_and_health_is_shown() {
    let service = serve("verify", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    ann.post("/api/v3/origdatablocks", &block("p/1", 4)).await.is(201);
    let counts = json!({"size": 8, "numberOfFiles": 4});
    let verified = ann.post("/api/v4/datasets/p%2F1/size/verify", &json!({})).await.is(200);
    assert_eq!(verified, json!({"right": true, "stated": counts, "counted": counts}));
    assert_eq!(ann.get("/api/v3/health").await.is(200)["status"], "ok");
    service.stop().await;
}

#[tokio::test]
async fn a_life_cycle_is_changed_alone() {
    let service = serve("lifecycle", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p")).await.is(201);
    let path = "/api/v3/Datasets/p/datasetLifecycle";
    let changed =
        ann.patch(path, &[], &json!({"archivable": false, "archiveStatusMessage": "stored"})).await.is(200);
    assert_eq!(changed["datasetlifecycle"]["archiveStatusMessage"], "stored");
    let read = ann.get("/api/v4/datasets/p/datasetlifecycle").await.is(200);
    assert_eq!((&read["archivable"], &read["isOnCentralDisk"]), (&json!(false), &json!(true)));
    ann.patch(path, &[], &json!({"owner": "eve"})).await.is(400);
    let mut bob = Client::user(service.address(), "bob").await;
    bob.patch(path, &[], &json!({"archivable": true})).await.is(403);
    assert_eq!(ann.get("/api/v3/datasets/p/datablocks/count").await.is(200), json!({"count": 0}));
    assert_eq!(ann.get("/api/v3/datasets/p/thumbnail").await.is(200), json!({}));
    service.stop().await;
}

#[tokio::test]
async fn keys_of_metadata_are_listed_for_their_readers() {
    let service = serve("metadata", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p")).await.is(201);
    let fields = encoded(r#"{"metadataKey": "len"}"#);
    let path = format!("/api/v4/datasets/metadataKeys?fields={fields}");
    let later = bson::DateTime::from_millis(service.context().clock.now_ms() + 60_000);
    service.context().state.store.collect_keys(later).await.unwrap();
    assert_eq!(ann.get(&path).await.is(200), json!(["length"]));
    let mut nobody = Client::connect(service.address()).await;
    assert_eq!(nobody.get(&path).await.is(200), json!([]));
    service.stop().await;
}

#[tokio::test]
async fn a_replaced_dataset_keeps_its_files() {
    let service = serve("replaced", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    ann.post("/api/v3/origdatablocks", &block("p/1", 4)).await.is(201);
    let mut body = raw("p/1");
    body["owner"] = "eve".into();
    body.as_object_mut().unwrap().remove("scientificMetadata");
    let replaced = ann.put("/api/v3/datasets/p%2F1", &body).await.is(200);
    assert_eq!(
        (&replaced["owner"], &replaced["size"], &replaced["scientificMetadata"]),
        (&json!("eve"), &json!(8), &json!({}))
    );
    ann.put("/api/v3/datasets/p%2F1", &raw("p/2")).await.is(400);
    ann.put("/api/v3/datasets/p%2F1", &json!({"owner": "x"})).await.is(400);
    ann.put("/api/v3/datasets/p%2F9", &raw("p/9")).await.is(404);
    service.stop().await;
}

#[tokio::test]
async fn an_unchanged_answer_is_sent_once() {
    let service = serve("tagged", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p")).await.is(201);
    let path = "/api/v4/datasets/p";
    let first = ann.get(path).await;
    let tag = first.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    let again = ann.send("GET", path, &[("if-none-match", &tag)], b"").await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    ann.patch(path, &[], &json!({"description": "new"})).await.is(200);
    assert_eq!(ann.send("GET", path, &[("if-none-match", &tag)], b"").await.is(200)["description"], "new");
    service.stop().await;
}

#[tokio::test]
async fn a_query_that_the_server_refuses_is_a_bad_request() {
    let service = serve("refused_query", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    for filter in [
        json!({"where": {"datasetName": {"like": "*abc*"}}}),
        json!({"where": {"datasetName": {"like": "a{2,1}"}}}),
    ] {
        let filter = encoded(&filter.to_string());
        ann.get(&format!("/api/v3/datasets?filter={filter}")).await.is(400);
    }
    service.stop().await;
}
