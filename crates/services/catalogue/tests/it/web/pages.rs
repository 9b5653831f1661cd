//! Tests the pages for browsers: they list, find and show what the caller may read, and nothing else.

use serde_json::json;

use super::bench::{block, raw, serve};
use super::client::{Answer, Client};

/// The text of a page with this status, which loads nothing from elsewhere.
#[track_caller]
fn page(answer: Answer, status: u16) -> String {
    let text = String::from_utf8(answer.body).unwrap();
    assert_eq!(answer.status, status, "{text}");
    assert!(answer.head.contains("content-type: text/html; charset=utf-8"), "{}", answer.head);
    assert!(answer.head.contains("content-security-policy: default-src 'none'"), "{}", answer.head);
    assert!(!text.contains("<script") && !text.contains("//"), "{text}");
    text
}

#[tokio::test]
async fn pages_list_find_and_show_published_datasets() {
    let service = serve("pages", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    for number in 0..30 {
        let mut body = raw(&format!("p/{number:02}"));
        body["datasetName"] = format!("scan <{number:02}>").into();
        body["isPublished"] = (number != 29).into();
        body["keywords"] = json!([format!("k{}", number % 2)]);
        ann.post("/api/v3/datasets", &body).await.is(201);
    }
    let mut browser = Client::connect(service.address()).await;
    let first = page(browser.get("/").await, 200);
    assert!(first.contains("29 datasets") && first.contains("scan &lt;28&gt;"), "{first}");
    assert!(first.contains("href=\"/datasets/p%2F28\"") && !first.contains("p/29"), "{first}");
    let next = first.split("href=\"").find_map(|link| link.split_once("\">Next page")).unwrap().0;
    let second = page(browser.get(&next.replace("&amp;", "&")).await, 200);
    assert!(second.contains("scan &lt;00&gt;") && !second.contains("scan &lt;28&gt;"), "{second}");
    let found = page(browser.get("/?text=%3C07&keyword=k1").await, 200);
    assert!(found.contains("1 dataset ·") && found.contains("p/07"), "{found}");
    let values = page(browser.get("/?values=on").await, 200);
    assert!(values.contains("keyword=k1&amp;values=on"), "{values}");
    page(browser.get("/?after=forged").await, 400);
    let style = browser.get("/style.css").await;
    assert!(style.status == 200 && style.head.contains("content-type: text/css"), "{}", style.head);
    page(browser.get("/datasets/p%2F29").await, 403);
    page(browser.get("/datasets/none").await, 404);
    service.stop().await;
}

#[tokio::test]
async fn the_page_of_a_dataset_has_its_metadata_files_and_history() {
    let service = serve("page_of_one", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    let mut body = raw("p/1");
    body["isPublished"] = true.into();
    ann.post("/api/v3/datasets", &body).await.is(201);
    ann.post("/api/v3/origdatablocks", &block("p/1", 250)).await.is(201);
    ann.patch("/api/v3/datasets/p%2F1", &[], &json!({"comment": "<i>new</i>"})).await.is(200);
    let image = json!({"thumbnail": "data:image/png;base64,AA==", "caption": "c"});
    ann.post("/api/v3/datasets/p%2F1/attachments", &image).await.is(201);
    let mut browser = Client::connect(service.address()).await;
    let shown = page(browser.get("/datasets/p%2F1").await, 200);
    for part in [
        "<td>5 mm</td>",
        "<td>bench</td>",
        "1 to 100 of 250",
        ">99.dat<",
        "&lt;i&gt;new&lt;/i&gt;",
        "data:image/png",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains(">100.dat<"), "{shown}");
    let last = page(browser.get("/datasets/p%2F1?skip=200").await, 200);
    assert!(
        last.contains("201 to 250 of 250") && last.contains(">249.dat<") && !last.contains("Next files"),
        "{last}"
    );
    page(browser.get("/datasets/p%2F1?skip=x").await, 400);
    service.stop().await;
}

#[tokio::test]
async fn a_browser_logs_in_and_sees_what_its_user_may_read_and_only_pages_read_its_cookie() {
    let service = serve("page_login", "").await;
    let mut ann = Client::user(service.address(), "ann").await;
    ann.post("/api/v3/datasets", &raw("p/own")).await.is(201);
    let mut browser = Client::connect(service.address()).await;
    let form = ("content-type", "application/x-www-form-urlencoded");
    assert!(page(browser.get("/").await, 200).contains("href=\"/login\""));
    page(browser.get("/login").await, 200);
    let wrong = browser.send("POST", "/login", &[form], b"username=ann&password=x").await;
    assert!(page(wrong, 401).contains("is wrong"));
    let secret = b"username=ann&password=ann%2Dsecret";
    let foreign = [form, ("sec-fetch-site", "cross-site")];
    assert_eq!(browser.send("POST", "/login", &foreign, secret).await.status, 403);
    let session = browser.send("POST", "/login", &[form], secret).await;
    assert_eq!(session.status, 303, "{}", session.head);
    let cookie = session.head.split("set-cookie: ").nth(1).unwrap().lines().next().unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Lax") && !cookie.contains("Secure"), "{cookie}");
    let behind_a_proxy =
        browser.send("POST", "/login", &[form, ("x-forwarded-proto", "https")], secret).await;
    assert!(behind_a_proxy.head.contains("; Secure\r\n"), "{}", behind_a_proxy.head);
    let cookie = [("cookie", cookie.split(';').next().unwrap())];
    let own = browser.send("GET", "/datasets/p%2Fown", &cookie, b"").await;
    assert!(page(own, 200).contains("ann <button>Log out"));
    assert_eq!(browser.get("/datasets/p%2Fown").await.status, 403);
    assert_eq!(browser.send("GET", "/api/v3/datasets/p%2Fown", &cookie, b"").await.status, 403);
    let left = browser.send("POST", "/logout", &[form, cookie[0]], b"").await;
    assert!(left.status == 303 && left.head.contains("Max-Age=0"), "{}", left.head);
    service.stop().await;
}
