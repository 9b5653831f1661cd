//! Tests single attachments: they are read, changed, replaced and removed by their key.

use serde_json::{Value, json};

use super::bench::{raw, serve};
use super::client::Client;

const V3: &str = "/api/v3/datasets/p%2F1/Attachments";

/// An attachment of the dataset `p/1`. Returns its key.
async fn attached(client: &mut Client) -> String {
    let body = json!({"thumbnail": "data:image/png;base64,AA==", "caption": "c", "ownerGroup": "group1"});
    let added = client.post(V3, &body).await.is(201);
    added["aid"].as_str().unwrap().to_owned()
}

async fn count(client: &mut Client) -> Value {
    client.get(&format!("{V3}/count")).await.is(200)["count"].clone()
}

#[tokio::test]
async fn an_attachment_is_changed_replaced_and_removed_by_its_key() {
    let service = serve("one_attachment", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let id = attached(&mut ann).await;
    let (v3, v4) = (format!("{V3}/{id}"), format!("/api/v4/attachments/{id}"));
    let changed = ann.put(&v3, &json!({"caption": "new"})).await.is(200);
    assert_eq!((&changed["caption"], &changed["ownerGroup"]), (&json!("new"), &json!("group1")));
    assert_eq!(ann.get(&v4).await.is(200), changed);
    assert_eq!(
        ann.patch(&v4, &[], &json!({"caption": "newer"})).await.is(200)["thumbnail"],
        changed["thumbnail"]
    );
    let body = json!({"caption": "bare", "relationships": [{"targetId": "p/1", "targetType": "dataset"}]});
    let replaced = ann.put(&v4, &body).await.is(200);
    assert_eq!((&replaced["aid"], replaced.get("thumbnail")), (&json!(id), None));
    for body in
        [json!({"aid": "other"}), json!({"relationships": []}), json!({"thumbnail": 5}), json!({"$set": 1})]
    {
        ann.put(&v3, &body).await.is(400);
    }
    ann.put(&v4, &json!({"caption": "no dataset"})).await.is(400);
    ann.put(&v3, &json!({"datasetId": "p/none"})).await.is(404);
    assert_eq!(count(&mut ann).await, json!(1));
    assert_eq!(ann.delete(&v3).await.is(200)["aid"], json!(id));
    for path in [&v3, &v4] {
        ann.delete(path).await.is(404);
        ann.put(path, &json!({"caption": "c"})).await.is(404);
    }
    assert_eq!(count(&mut ann).await, json!(0));
    service.stop().await;
}

#[tokio::test]
async fn a_moved_attachment_has_the_access_of_its_new_dataset() {
    let service = serve("moved_attachment", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let mut bob = Client::user(service.address(), "bob").await;
    for (pid, is_published) in [("p/1", true), ("p/2", false)] {
        let mut body = raw(pid);
        body["isPublished"] = is_published.into();
        ann.post("/api/v3/datasets", &body).await.is(201);
    }
    let added = ann.post(V3, &json!({"caption": "c"})).await.is(201);
    let v4 = format!("/api/v4/attachments/{}", added["aid"].as_str().unwrap());
    bob.get(&v4).await.is(200);
    let moved = ann.patch(&v4, &[], &json!({"datasetId": "p/2"})).await.is(200);
    assert_eq!((&moved["isPublished"], &moved["ownerGroup"]), (&json!(false), &json!("group1")));
    bob.get(&v4).await.is(403);
    assert_eq!(ann.get(&v4).await.is(200), moved);
    let replaced = ann.put(&v4, &json!({"caption": "bare", "datasetId": "p/2"})).await.is(200);
    assert_eq!(ann.get(&v4).await.is(200), replaced, "its owner still reads it");
    bob.get(&v4).await.is(403);
    service.stop().await;
}

#[tokio::test]
async fn a_thumbnail_is_the_first_image_and_reads_no_other() {
    let service = serve("thumbnail", "limits: {answers_bytes_max: 800000}").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let thumbnail = "/api/v3/datasets/p%2F1/thumbnail";
    for (aid, image) in [("d", None), ("c", Some("c")), ("b", Some("b")), ("a", None)] {
        let image = image.map(|image| image.repeat(15_000));
        let body = json!({"aid": aid, "thumbnail": image, "caption": "c".repeat(8_000)});
        assert!(ann.get(thumbnail).await.status == 200);
        ann.post(V3, &body).await.is(201);
    }
    assert_eq!(ann.get(thumbnail).await.is(200), json!({"thumbnail": "b".repeat(15_000)}));
    service.stop().await;
}

#[tokio::test]
async fn an_attachment_of_others_is_neither_changed_nor_removed() {
    let service = serve("foreign_attachment", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let id = attached(&mut ann).await;
    let (v3, v4) = (format!("{V3}/{id}"), format!("/api/v4/attachments/{id}"));
    let mut bob = Client::user(service.address(), "bob").await;
    let mut body = raw("p/2");
    body["ownerGroup"] = "group2".into();
    bob.post("/api/v3/datasets", &body).await.is(201);
    let mut nobody = Client::connect(service.address()).await;
    for client in [&mut bob, &mut nobody] {
        client.get(&v4).await.is(403);
        for path in [&v3, &v4] {
            client.put(path, &json!({"caption": "x", "datasetId": "p/1"})).await.is(403);
            client.delete(path).await.is(403);
        }
    }
    bob.delete(&format!("/api/v3/datasets/p%2F2/attachments/{id}")).await.is(404);
    let to_others = json!({"relationships": [{"targetId": "p/2", "targetType": "dataset"}]});
    ann.patch(&v4, &[], &to_others).await.is(403);
    assert_eq!(count(&mut ann).await, json!(1));
    service.stop().await;
}
