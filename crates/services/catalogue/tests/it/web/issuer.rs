//! Serves an issuer of OpenID Connect for tests, on this machine and with its own keys.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use plimsoll_service::Clock;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The secret of the catalogue at the issuer.
pub const SECRET: &str = "secret of the client";

/// An issuer. It ends with the test.
#[derive(Clone)]
pub struct Issuer {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    key: EcdsaKeyPair,
    key_id: String,
    /// The next claims of ID tokens, in addition to the usual ones.
    more: Value,
    userinfo: Value,
    /// The parameters of each login that was begun, by its code.
    codes: HashMap<String, HashMap<String, String>>,
    /// The paths that were asked for.
    asked: Vec<String>,
}

fn key() -> EcdsaKeyPair {
    let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
    let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).unwrap()
}

pub fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

impl Issuer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let state = State {
            key: key(),
            key_id: "first".into(),
            more: json!({}),
            userinfo: json!({"sub": "subject"}),
            codes: HashMap::new(),
            asked: Vec::new(),
        };
        let issuer = Self { address: listener.local_addr().unwrap(), state: Arc::new(Mutex::new(state)) };
        let serving = issuer.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let issuer = serving.clone();
                tokio::spawn(async move { issuer.answer(stream).await });
            }
        });
        issuer
    }

    /// An issuer at an address where no server listens.
    pub fn closed(self) -> Self {
        Self { address: SocketAddr::from(([127, 0, 0, 1], 1)), ..self }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets further claims of the next ID tokens; null removes a claim.
    pub fn claim(&self, more: Value) {
        self.state.lock().unwrap().more = more;
    }

    pub fn userinfo(&self, userinfo: Value) {
        self.state.lock().unwrap().userinfo = userinfo;
    }

    /// Signs with another key from now on.
    pub fn rotate(&self) {
        let mut state = self.state.lock().unwrap();
        (state.key, state.key_id) = (key(), "second".into());
    }

    /// An ID token that another client of the issuer has got.
    pub fn id_token(&self) -> String {
        self.state.lock().unwrap().id_token(&self.url(), "of another client")
    }

    /// How often a path was asked for.
    pub fn asked(&self, path: &str) -> usize {
        self.state.lock().unwrap().asked.iter().filter(|it| *it == path).count()
    }

    /// The user logs in at a URL. Returns the code.
    pub fn log_in(&self, url: &str) -> (String, String) {
        let query = url.strip_prefix(&format!("{}/authorize?", self.url())).unwrap();
        let pairs = form_urlencoded::parse(query.as_bytes()).into_owned();
        let parameters: HashMap<String, String> = pairs.collect();
        assert_eq!(parameters["response_type"], "code");
        assert_eq!(parameters["code_challenge_method"], "S256");
        let mut state = self.state.lock().unwrap();
        let code = format!("code-{}", state.codes.len());
        let of_login = parameters["state"].clone();
        state.codes.insert(code.clone(), parameters);
        (code, of_login)
    }

    async fn answer(&self, mut stream: TcpStream) {
        let mut request = Vec::new();
        let (head, body) = loop {
            if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                return;
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |it| it.parse().unwrap()) {
                break (head.to_owned(), body.to_owned());
            }
        };
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let (status, answer) = self.answer_to(&path, &head, &body);
        let text = answer.to_string();
        let length = text.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + &text).as_bytes()).await.unwrap_or_default();
    }

    fn answer_to(&self, path: &str, head: &str, body: &str) -> (u16, Value) {
        let url = self.url();
        let mut state = self.state.lock().unwrap();
        state.asked.push(path.to_owned());
        match path {
            "/.well-known/openid-configuration" => (
                200,
                json!({
                    "issuer": url, "authorization_endpoint": format!("{url}/authorize"), "jwks_uri": format!("{url}/keys"),
                    "token_endpoint": format!("{url}/token"), "userinfo_endpoint": format!("{url}/userinfo"),
                }),
            ),
            "/keys" => (200, json!({"keys": [state.public()]})),
            "/userinfo" if head.contains("authorization: Bearer access") => (200, state.userinfo.clone()),
            "/token" => state.token(&url, head, body),
            _ => (404, json!({})),
        }
    }
}

impl State {
    fn public(&self) -> Value {
        let point = &self.key.public_key().as_ref()[1..];
        json!({"kty": "EC", "crv": "P-256", "kid": self.key_id, "x": encoded(&point[..32]), "y": encoded(&point[32..])})
    }

    /// The tokens of a code, which counts once.
    fn token(&mut self, url: &str, head: &str, body: &str) -> (u16, Value) {
        let form: HashMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let Some(login) = self.codes.remove(&form["code"]) else {
            return (400, json!({"error": "invalid_grant"}));
        };
        let secret: String = form_urlencoded::byte_serialize(SECRET.as_bytes()).collect();
        let basic = base64::prelude::BASE64_STANDARD.encode(format!("catalogue:{secret}"));
        let challenge = encoded(digest(&SHA256, form["code_verifier"].as_bytes()));
        let is_right = head.contains(&format!("authorization: Basic {basic}"))
            && form["grant_type"] == "authorization_code"
            && form["redirect_uri"] == login["redirect_uri"]
            && challenge == login["code_challenge"];
        if !is_right {
            return (401, json!({"error": "invalid_client"}));
        }
        let token = self.id_token(url, &login["nonce"]);
        (200, json!({"id_token": token, "access_token": "access", "token_type": "Bearer"}))
    }

    /// An ID token, valid for five minutes.
    fn id_token(&self, url: &str, nonce: &str) -> String {
        let now_s = Clock::start().now_ms() / 1_000;
        let mut claims = json!({
            "iss": url, "aud": "catalogue", "sub": "subject", "iat": now_s, "exp": now_s + 300, "nonce": nonce,
            "preferred_username": "ann", "email": "ann@x.org", "groups": ["group1", "readers"],
        });
        for (name, value) in self.more.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        let header = json!({"alg": "ES256", "kid": self.key_id});
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", encoded(signature))
    }
}
