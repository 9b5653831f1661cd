//! Tests the history of datasets: its pages, and that it shows nothing of others.

use serde_json::{Value, json};

use super::bench::{raw, serve};
use super::client::{Client, encoded};

fn path(filter: &Value, more: &str) -> String {
    format!("/api/v3/history{more}filter={}", encoded(&filter.to_string()))
}

#[tokio::test]
async fn the_history_has_pages_and_a_count() {
    let service = serve("history", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    for comment in ["a", "b", "c"] {
        ann.patch("/api/v3/datasets/p%2F1", &[], &json!({"comment": comment})).await.is(200);
    }
    let filter = json!({"subsystem": "Dataset", "documentId": "p/1"});
    let page = ann.get(&path(&filter, "?skip=1&limit=1&")).await.is(200);
    assert_eq!((&page["count"], &page["totalCount"]), (&json!(1), &json!(3)));
    assert_eq!((&page["skip"], &page["limit"]), (&json!(1), &json!(1)));
    let entry = &page["items"][0];
    assert_eq!((&entry["operation"], &entry["user"]), (&json!("update"), &json!("ann")));
    assert_eq!((&entry["before"]["comment"], &entry["after"]["comment"]), (&json!("a"), &json!("b")));
    assert_eq!(ann.get(&path(&filter, "/count?")).await.is(200), json!({"count": 3}));
    for more in ["?limit=0&", "?limit=1001&", "?skip=-1&"] {
        ann.get(&path(&filter, more)).await.is(400);
    }
    ann.get(&path(&json!({"subsystem": "Dataset", "documentId": {"$ne": ""}}), "?")).await.is(400);
    ann.get(&path(&json!({"subsystem": "Policy"}), "?")).await.is(400);
    service.stop().await;
}

#[tokio::test]
async fn the_history_shows_a_user_its_datasets_alone_and_an_admin_all() {
    let service = serve("history_foreign", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    ann.patch("/api/v3/datasets/p%2F1", &[], &json!({"comment": "hidden"})).await.is(200);
    let of_dataset = json!({"subsystem": "Dataset", "documentId": "p/1"});
    let all = json!({"subsystem": "Dataset"});
    let mut bob = Client::user(service.address(), "bob").await;
    let mut nobody = Client::connect(service.address()).await;
    for (filter, more) in [(&of_dataset, "?"), (&all, "?"), (&of_dataset, "/count?"), (&all, "/count?")] {
        bob.get(&path(filter, more)).await.is(403);
        nobody.get(&path(filter, more)).await.is(403);
    }
    ann.get(&path(&all, "?")).await.is(403);
    let mut cleaner = Client::user(service.address(), "cleaner").await;
    cleaner.delete("/api/v3/datasets/p%2F1").await.is(200);
    ann.get(&path(&of_dataset, "?")).await.is(404);
    let mut body = raw("p/1");
    body["ownerGroup"] = "group2".into();
    bob.post("/api/v3/datasets", &body).await.is(201);
    bob.patch("/api/v3/datasets/p%2F1", &[], &json!({"comment": "new"})).await.is(200);
    for filter in [&of_dataset, &json!({"subsystem": "Dataset", "documentId": "p/1", "operation": "delete"})]
    {
        let seen = bob.get(&path(filter, "?")).await.is(200);
        assert!(!seen.to_string().contains("hidden"), "{seen}");
    }
    assert_eq!(bob.get(&path(&of_dataset, "/count?")).await.is(200), json!({"count": 1}));
    let mut admin = Client::user(service.address(), "admin").await;
    assert_eq!(admin.get(&path(&all, "?")).await.is(200)["totalCount"], json!(3));
    let removed = json!({"subsystem": "Dataset", "operation": "delete"});
    let removed = admin.get(&path(&removed, "?")).await.is(200);
    assert_eq!(removed["items"][0]["before"]["comment"], "hidden");
    service.stop().await;
}
