//! Tests the login at an issuer, with a local one.

use std::fs;
use std::path::Path;

use plimsoll_catalogue::oidc::{Fault, Now, Pending, Section};
use plimsoll_catalogue::serve::{Catalogue, Running, start};
use plimsoll_service::{Clock, Product, settings};
use serde_json::{Value, json};

use super::bench::{raw, serve};
use super::client::{Answer, Client};
use super::issuer::{Issuer, SECRET, encoded};
use crate::server;

const BEGIN: &str = "/api/v3/auth/oidc";
const PAGE: &str = "https://scicat.example.org/auth-callback";

/// A catalogue whose users log in at an issuer.
async fn with_issuer(name: &str, issuer: &Issuer, more: &str) -> Running {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("secret"), format!("{SECRET}\n")).unwrap();
    let text = format!(
        "listen: 127.0.0.1:0\ndatabase: {{uri: '{}', name: web_{name}}}\nroles: {{create_dataset_with_pid_groups: [group1]}}\n\
         login: {{oidc: {{issuer: '{}', client_id: catalogue, client_secret_file: secret,\n\
         callback: 'https://scicat.example.org/api/v3/auth/oidc/callback'{more}}}}}\n",
        server::uri(server::shared()),
        issuer.url()
    );
    start(Catalogue::build(settings::read(&text).unwrap(), directory.path()).unwrap()).await.unwrap()
}

/// A header of an answer.
fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let line = answer.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name}: {}", answer.head))
}

/// A login that a browser has begun: the URL at the issuer and the cookie.
async fn begun(client: &mut Client, more: &str) -> (String, String) {
    let answer = client.get(&format!("{BEGIN}{more}")).await;
    assert_eq!(answer.status, 302, "{}", answer.head);
    let cookie = header(&answer, "set-cookie");
    for part in ["Path=/api/v3/auth/oidc/callback;", "Max-Age=600;", "HttpOnly", "SameSite=Lax", "Secure"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    (header(&answer, "location").to_owned(), cookie.split(';').next().unwrap().to_owned())
}

async fn finished(client: &mut Client, (code, state): &(String, String), cookie: &str) -> Answer {
    let path = format!("{BEGIN}/callback?code={code}&state={state}");
    client.send("GET", &path, &[("cookie", &format!("other=1; {cookie}"))], b"").await
}

/// Logs in and returns the answer of the callback.
async fn login(client: &mut Client, issuer: &Issuer) -> Answer {
    let (url, cookie) = begun(client, "").await;
    finished(client, &issuer.log_in(&url), &cookie).await
}

#[tokio::test]
async fn a_user_of_the_issuer_works_with_the_groups_of_the_token() {
    let issuer = Issuer::start().await;
    let service = with_issuer("oidc", &issuer, "").await;
    let mut client = Client::connect(service.address()).await;
    let session = login(&mut client, &issuer).await.is(200);
    client.token = session["access_token"].as_str().map(str::to_owned);
    assert_eq!(
        (&session["user"]["username"], &session["user"]["authStrategy"]),
        (&json!("ann"), &json!("oidc"))
    );
    let identity = client.get("/api/v3/users/my/identity").await.is(200);
    assert_eq!(identity["profile"]["accessGroups"], json!(["group1", "readers"]));
    assert_eq!((&identity["provider"], &identity["userId"]), (&json!("oidc"), &session["userId"]));
    client.post("/api/v3/datasets", &raw("p/1")).await.is(201);
    let mut foreign = raw("p/2");
    foreign["ownerGroup"] = "group2".into();
    client.post("/api/v3/datasets", &foreign).await.is(403);
    let again = login(&mut client, &issuer).await.is(200);
    assert_eq!(again["userId"], session["userId"], "the key of a user stays");
    assert_eq!(issuer.asked("/keys"), 1, "the keys are kept");
    service.stop().await;
}

#[tokio::test]
async fn the_frontend_gets_the_token_as_scicat_sends_it() {
    let issuer = Issuer::start().await;
    let service = with_issuer("oidc_page", &issuer, &format!(", success: '{PAGE}'")).await;
    let mut client = Client::connect(service.address()).await;
    let (url, cookie) = begun(&mut client, "?returnUrl=%2Fdatasets%3Fa%3D1").await;
    let answer = finished(&mut client, &issuer.log_in(&url), &cookie).await;
    assert_eq!(answer.status, 302);
    let location = header(&answer, "location").to_owned();
    let (page, query) = location.split_once('?').unwrap();
    let parameters: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((page, names), (PAGE, vec!["access-token", "user-id", "returnUrl"]));
    assert_eq!(parameters[2].1, "/datasets?a=1");
    assert!(header(&answer, "set-cookie").contains("Max-Age=0"));
    assert_eq!(header(&answer, "cache-control"), "no-store");
    client.token = Some(parameters[0].1.clone());
    assert_eq!(client.get("/api/v3/users/my/self").await.is(200)["username"], "ann");
    service.stop().await;
}

/// A login is finished only by the browser that began it, once, with its state.
#[tokio::test]
async fn a_login_of_another_browser_is_refused() {
    let issuer = Issuer::start().await;
    let service = with_issuer("oidc_state", &issuer, "").await;
    let mut client = Client::connect(service.address()).await;
    let ((url, cookie), (_, other)) = (begun(&mut client, "").await, begun(&mut client, "").await);
    let login = issuer.log_in(&url);
    finished(&mut client, &login, "").await.is(401);
    finished(&mut client, &login, &other).await.is(401);
    finished(&mut client, &login, &format!("{cookie}x")).await.is(401);
    finished(&mut client, &(login.0.clone(), "x".into()), &cookie).await.is(401);
    finished(&mut client, &(String::new(), login.1.clone()), &cookie).await.is(401);
    assert_eq!(issuer.asked("/token"), 0);
    finished(&mut client, &("guessed".into(), login.1.clone()), &cookie).await.is(401);
    let session = finished(&mut client, &login, &cookie).await.is(200);
    finished(&mut client, &login, &cookie).await.is(401);
    // A token of a session begins no login.
    let token = format!("oidc-login={}", session["access_token"].as_str().unwrap());
    finished(&mut client, &login, &token).await.is(401);
    service.stop().await;
}

#[tokio::test]
async fn a_wrong_token_of_the_issuer_is_refused() {
    let issuer = Issuer::start().await;
    let service = with_issuer("oidc_claims", &issuer, "").await;
    let mut client = Client::connect(service.address()).await;
    for wrong in [
        json!({"nonce": "of another login"}),
        json!({"aud": "another client"}),
        json!({"iss": "https://another.example.org"}),
        json!({"exp": 5}),
        json!({"sub": null}),
    ] {
        issuer.claim(wrong.clone());
        let answer = login(&mut client, &issuer).await;
        assert_eq!(answer.status, 401, "{wrong}");
    }
    issuer.claim(json!({}));
    login(&mut client, &issuer).await.is(200);
    service.stop().await;
}

async fn exchanged(client: &mut Client, token: impl Into<Value>) -> Answer {
    client.post("/api/v3/auth/oidc/token", &json!({"idToken": token.into()})).await
}

#[tokio::test]
async fn a_token_of_the_issuer_is_exchanged_for_one_of_the_catalogue() {
    let issuer = Issuer::start().await;
    let service = with_issuer("oidc_exchange", &issuer, "").await;
    let mut client = Client::connect(service.address()).await;
    let session = exchanged(&mut client, issuer.id_token()).await.is(201);
    assert_eq!(session["userId"], login(&mut client, &issuer).await.is(200)["userId"], "the same user");
    client.token = session["access_token"].as_str().map(str::to_owned);
    let identity = client.get("/api/v3/users/my/identity").await.is(200);
    assert_eq!(identity["profile"]["accessGroups"], json!(["group1", "readers"]));
    assert_eq!(identity["provider"], "oidc");
    service.stop().await;
}

/// The same token with another header and without a signature, or with the old one.
fn with_header(token: &str, header: &Value, keeps_signature: bool) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let signature = if keeps_signature { parts[2] } else { "" };
    format!("{}.{}.{signature}", encoded(header.to_string()), parts[1])
}

#[tokio::test]
async fn a_forged_or_foreign_token_is_not_exchanged() {
    let issuer = Issuer::start().await;
    let service = with_issuer("oidc_forged", &issuer, "").await;
    let mut client = Client::connect(service.address()).await;
    for wrong in [
        json!({"aud": "another client"}),
        json!({"aud": ["catalogue", "another client"]}),
        json!({"azp": "another client"}),
        json!({"aud": null}),
        json!({"iss": "https://another.example.org"}),
        json!({"iss": null}),
        json!({"exp": 5}),
        json!({"exp": null}),
        json!({"nbf": 32_503_680_000_u64}),
        json!({"iat": 32_503_680_000_u64}),
        json!({"sub": null}),
    ] {
        issuer.claim(wrong.clone());
        assert_eq!(exchanged(&mut client, issuer.id_token()).await.status, 401, "{wrong}");
    }
    issuer.claim(json!({}));
    let (token, other) = (issuer.id_token(), Issuer::start().await.id_token());
    let parts: Vec<&str> = token.split('.').collect();
    let admin = encoded(json!({"iss": issuer.url(), "aud": "catalogue", "groups": ["admin"]}).to_string());
    for (forged, words) in [
        (with_header(&token, &json!({"alg": "none"}), false), "alg none"),
        (with_header(&token, &json!({"alg": "none", "kid": "first"}), true), "alg none with a signature"),
        (with_header(&token, &json!({"alg": "HS256", "kid": "first"}), true), "alg HS256"),
        (format!("{}.{admin}.{}", parts[0], parts[2]), "other claims"),
        (format!("{}.{}.", parts[0], parts[1]), "no signature"),
        (format!("{}.{}", parts[0], parts[1]), "two parts"),
        (other, "the key of another issuer"),
        (login(&mut client, &issuer).await.is(200)["access_token"].as_str().unwrap().into(), "our own token"),
    ] {
        assert_eq!(exchanged(&mut client, forged).await.status, 401, "{words}");
    }
    for invalid in [json!(null), json!(""), json!(5), json!([&token])] {
        let refused = exchanged(&mut client, invalid.clone()).await.is(400);
        assert!(refused["message"].as_str().unwrap().contains("idToken"), "{invalid}: {refused}");
    }
    exchanged(&mut client, "x".repeat(100_000)).await.is(413);
    exchanged(&mut client, token).await.is(201);
    service.stop().await;
}

#[tokio::test]
async fn groups_that_the_token_lacks_come_from_the_endpoint_of_the_issuer() {
    let issuer = Issuer::start().await;
    let service = with_issuer("oidc_groups", &issuer, "").await;
    let mut client = Client::connect(service.address()).await;
    issuer.claim(json!({"groups": null}));
    issuer.userinfo(json!({"sub": "subject", "groups": ["group7"]}));
    let session = login(&mut client, &issuer).await.is(200);
    client.token = session["access_token"].as_str().map(str::to_owned);
    let identity = client.get("/api/v3/users/my/identity").await.is(200);
    assert_eq!(identity["profile"]["accessGroups"], json!(["group7"]));
    issuer.userinfo(json!({"sub": "another", "groups": ["admin"]}));
    login(&mut client, &issuer).await.is(401);
    service.stop().await;
}

#[tokio::test]
async fn new_keys_of_the_issuer_are_read_once_a_minute() {
    let issuer = Issuer::start().await;
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("secret"), SECRET).unwrap();
    let section = json!({
        "issuer": issuer.url(), "client_id": "catalogue", "client_secret_file": "secret", "callback": "https://c.example.org/cb",
    });
    let provider = serde_json::from_value::<Section>(section).unwrap().build(directory.path()).unwrap();
    let ms = Clock::start().now_ms();
    for (seconds, is_known, reads) in
        [(0, true, 1), (59, false, 1), (60, true, 2), (3_659, true, 2), (3_660, true, 3)]
    {
        if seconds == 59 {
            issuer.rotate();
        }
        let (pending, now) = (Pending::begin(None, ms).unwrap(), Now { ns: seconds * 1_000_000_000, ms });
        let (code, _) = issuer.log_in(&provider.login_url(&pending, now).await.unwrap());
        let user = provider.user(&code, &pending, now).await;
        assert_eq!((user.is_ok(), issuer.asked("/keys")), (is_known, reads), "{seconds} s: {user:?}");
    }
}

#[tokio::test]
async fn a_failed_issuer_is_not_asked_again_at_once() {
    let issuer = Issuer::start().await;
    let url = format!("{}/unknown", issuer.url());
    let section = json!({"issuer": url, "client_id": "catalogue", "callback": "https://c.example.org/cb"});
    let provider = serde_json::from_value::<Section>(section).unwrap().build(Path::new(".")).unwrap();
    for (seconds, reads) in [(0, 1), (29, 1), (30, 2)] {
        let now = Now { ns: seconds * 1_000_000_000, ms: 0 };
        let fault = provider.login_url(&Pending::begin(None, 0).unwrap(), now).await.unwrap_err();
        assert!(matches!(&fault, Fault::Unreachable(why) if why.contains("404")), "{fault}");
        assert_eq!(issuer.asked("/unknown/.well-known/openid-configuration"), reads, "{seconds} s");
    }
}

#[tokio::test]
async fn a_catalogue_without_an_issuer_has_no_such_login() {
    let service = serve("oidc_off", "").await;
    let mut client = Client::connect(service.address()).await;
    let refused: Value = client.get(BEGIN).await.is(404);
    assert!(refused["message"].as_str().unwrap().contains("login.oidc"), "{refused}");
    client.get("/api/v3/auth/oidc/callback?code=a&state=b").await.is(404);
    exchanged(&mut client, "a.b.c").await.is(404);
    service.stop().await;
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_is_no_fault_of_the_user() {
    let closed = Issuer::start().await.closed();
    let service = with_issuer("oidc_down", &closed, "").await;
    let mut client = Client::connect(service.address()).await;
    assert_eq!(client.get(BEGIN).await.is(503)["message"], "the issuer of logins failed: retry");
    service.stop().await;
}
