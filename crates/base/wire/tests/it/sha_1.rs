//! Tests SCRAM-SHA-1 against a scripted server that checks the proof, because the embedded server does not support it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bson::{RawDocumentBuf, rawdoc};
use hmac::digest::Digest;
use hmac::{Hmac, KeyInit, Mac};
use plimsoll_wire::{ConnectOptions, Connection, Credential, Error, Mechanism, Message, Proof};
use sha1::Sha1;

use crate::client::run;
use crate::fake::{self, Peer};

const SALT: &[u8] = b"a salt of 16 byt";
const ITERATIONS: u32 = 5000;
/// The MD5 of `ann:mongo:p=ß,`: MongoDB's stored digest of the password for SCRAM-SHA-1.
const DIGEST: &str = "3b1b4ead1c1b3c0804bd6fde5c58d5f9";

fn hmac(key: &[u8], message: &[u8]) -> [u8; 20] {
    let mut mac = Hmac::<Sha1>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// Answers `hello` with the user's mechanisms.
fn greet(peer: &mut Peer, mechanisms: &[&str]) {
    let (request_id, request) = peer.request();
    let asked = Message::parse(&request).unwrap().body.get_str("saslSupportedMechs").unwrap().to_owned();
    assert_eq!(asked, "users.ann");
    let mut hello = fake::hello();
    hello.append(bson::cstr!("saslSupportedMechs"), bson::RawArrayBuf::from_iter(mechanisms.iter().copied()));
    peer.reply(request_id, &hello);
}

/// Returns the next request's id, mechanism (if it names one) and payload. The request must use the user's database.
fn asked(peer: &mut Peer, command: &str) -> (i32, Option<String>, String) {
    let (request_id, request) = peer.request();
    let body = Message::parse(&request).unwrap().body;
    assert_eq!(body.iter().next().unwrap().unwrap().0.as_str(), command);
    assert_eq!(body.get_str("$db").unwrap(), "users");
    let payload = String::from_utf8(body.get_binary("payload").unwrap().bytes.to_vec()).unwrap();
    (request_id, body.get_str("mechanism").ok().map(str::to_owned), payload)
}

fn answer(payload: &str, done: bool) -> RawDocumentBuf {
    let bytes = payload.as_bytes().to_vec();
    let payload = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes };
    rawdoc! {"conversationId": 1, "payload": payload, "done": done, "ok": 1.0}
}

/// Plays the server's side of RFC 5802, with only StoredKey and ServerKey.
fn converse(peer: &mut Peer) {
    let salted = pbkdf2::pbkdf2_hmac_array::<Sha1, 20>(DIGEST.as_bytes(), SALT, ITERATIONS);
    let stored_key = Sha1::digest(hmac(&salted, b"Client Key"));
    let (request_id, mechanism, first) = asked(peer, "saslStart");
    assert_eq!(mechanism.as_deref(), Some("SCRAM-SHA-1"));
    let bare = first.strip_prefix("n,,").unwrap();
    let nonce = format!("{}of the server", bare.strip_prefix("n=ann,r=").unwrap());
    let server_first = format!("r={nonce},s={},i={ITERATIONS}", BASE64.encode(SALT));
    peer.reply(request_id, &answer(&server_first, false));

    let (request_id, _, last) = asked(peer, "saslContinue");
    let (without_proof, proof) = last.rsplit_once(",p=").unwrap();
    assert_eq!(without_proof, format!("c=biws,r={nonce}"));
    let auth_message = format!("{bare},{server_first},{without_proof}");
    let signature = hmac(&stored_key, auth_message.as_bytes());
    let proof = BASE64.decode(proof).unwrap();
    assert_eq!(proof.len(), signature.len());
    let client_key: Vec<u8> = proof.iter().zip(signature).map(|(proof, byte)| proof ^ byte).collect();
    if Sha1::digest(client_key) != stored_key {
        return peer.reply(request_id, &rawdoc! {"ok": 0.0, "code": 18, "errmsg": "Authentication failed."});
    }
    let signature = hmac(&hmac(&salted, b"Server Key"), auth_message.as_bytes());
    peer.reply(request_id, &answer(&format!("v={}", BASE64.encode(signature)), true));
}

/// Connects to a server where the user ann has `mechanisms`.
fn connect(mechanisms: &'static [&str], asked: Option<Mechanism>, password: &str) -> Result<(), Error> {
    let address = fake::serve(|mut peer| {
        greet(&mut peer, mechanisms);
        converse(&mut peer);
        let (request_id, _) = peer.request();
        peer.reply(request_id, &rawdoc! {"ok": 1.0});
    });
    let mut credential = Credential::new("ann", password, "users");
    credential.proof = Proof::Scram(asked);
    let options =
        ConnectOptions { credential: Some(credential), ..ConnectOptions::new(address.parse().unwrap()) };
    run(async { Connection::connect(&options).await?.ping().await })
}

#[test]
fn sha_1_is_used_if_the_user_has_no_other_mechanism_or_if_requested() {
    connect(&["SCRAM-SHA-1"], None, "p=ß,").unwrap();
    connect(&["SCRAM-SHA-1"], Some(Mechanism::ScramSha1), "p=ß,").unwrap();
    connect(&["SCRAM-SHA-1", "SCRAM-SHA-256"], Some(Mechanism::ScramSha1), "p=ß,").unwrap();
}

#[test]
fn a_wrong_password_and_a_missing_mechanism_name_the_remedy() {
    for (asked, password, said) in [
        (None, "wrong", "Authentication failed."),
        (
            Some(Mechanism::ScramSha256),
            "p=ß,",
            "no credential for SCRAM-SHA-256, only for SCRAM-SHA-1: set authMechanism",
        ),
    ] {
        let error = connect(&["SCRAM-SHA-1"], asked, password).unwrap_err();
        assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
        assert!(error.to_string().contains(said), "{error}");
        assert!(error.to_string().contains("check user, password and authSource"), "{error}");
    }
}
