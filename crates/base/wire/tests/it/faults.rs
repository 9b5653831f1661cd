//! Tests servers that stay silent, close the connection, or send false lengths or invalid replies.

use std::net::TcpListener;
use std::time::Duration;

use bson::{RawDocumentBuf, rawdoc};
use plimsoll_wire::{
    Cause, Class, ConnectOptions, Connection, Credential, Error, FindReply, FindRequest, FindSpec, Limits,
    Outcome, Proof, WriteBatch, WriteKind, WriteReply, WriteSpec,
};

use crate::client::{connect, run};
use crate::fake::{self, Peer, serve, serve_greeted};
use crate::server::Server;

type Spans = Vec<(u32, u32, Outcome)>;

/// Writes six documents in frames of two to a server that runs `act` after the handshake.
fn outcomes(ordered: bool, act: impl FnOnce(Peer) + Send + 'static) -> (Spans, bool, String) {
    let address = serve_greeted(act);
    run(async {
        let mut connection = connect(&address).await;
        connection.set_timeout(Some(Duration::from_millis(100)));
        let spec = WriteSpec { ordered, ..WriteSpec::new(WriteKind::Insert, "d", "c") };
        let mut batch = WriteBatch::new(&spec, &Limits { max_write_batch: 2, ..Limits::default() }).unwrap();
        for id in 0..6 {
            batch.push(|out| out.extend_from_slice(rawdoc! {"_id": id}.as_bytes())).unwrap();
        }
        let mut reply = WriteReply::new();
        connection.write(&mut batch, &mut reply).await;
        let spans = reply.spans().iter().map(|span| (span.first, span.count, span.outcome)).collect();
        let message = reply.first_error().map(|(_, message)| message.to_owned()).unwrap_or_default();
        (spans, connection.is_broken(), message)
    })
}

fn acknowledge(peer: &mut Peer) {
    let (request_id, _) = peer.request();
    peer.reply(request_id, &rawdoc! {"n": 2, "ok": 1.0});
}

fn in_the_second_frame(outcome: Outcome) -> Spans {
    vec![(0, 2, Outcome::Acknowledged), (2, 2, outcome), (4, 2, Outcome::NotSent)]
}

#[test]
fn a_server_that_goes_silent_leaves_its_frame_unknown_and_the_connection_broken() {
    let (spans, broken, _) = outcomes(true, |mut peer| {
        acknowledge(&mut peer);
        peer.request();
        peer.stay_silent();
    });
    assert_eq!(spans, in_the_second_frame(Outcome::Unknown(Cause::Timeout)));
    assert!(broken);
}

#[test]
fn a_server_that_closes_leaves_its_frame_unknown_and_the_connection_broken() {
    let (spans, broken, _) = outcomes(false, |mut peer| {
        acknowledge(&mut peer);
        peer.request();
    });
    assert_eq!(spans, in_the_second_frame(Outcome::Unknown(Cause::ConnectionLost)));
    assert!(broken);
}

#[test]
fn a_reply_cut_at_any_byte_leaves_its_frame_unknown() {
    let whole = fake::message(0, &rawdoc! {"n": 2, "ok": 1.0}).len();
    for len in 0..whole {
        let (spans, broken, _) = outcomes(true, move |mut peer| {
            acknowledge(&mut peer);
            let (request_id, _) = peer.request();
            peer.send(&fake::message(request_id, &rawdoc! {"n": 2, "ok": 1.0})[..len]);
        });
        assert_eq!(spans, in_the_second_frame(Outcome::Unknown(Cause::ConnectionLost)), "cut at {len}");
        assert!(broken);
    }
}

#[test]
fn an_invalid_reply_leaves_its_frame_unknown_and_is_reported() {
    type Nonsense = fn(i32) -> Vec<u8>;
    let nonsense: [Nonsense; 7] = [
        |_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        |_| vec![0; 64],
        |_| vec![0xff; 64],
        |id| fake::message(id + 1, &rawdoc! {"n": 2, "ok": 1.0}),
        |id| fake::message(id, &rawdoc! {"n": 2}),
        |id| [fake::message(id, &rawdoc! {"n": 2, "ok": 1.0}), vec![1]].concat(),
        |id| fake::message(id, &rawdoc! {"n": 1, "ok": 1.0, "writeErrors": [{"index": 2, "code": 1}]}),
    ];
    for (place, nonsense) in nonsense.into_iter().enumerate() {
        let (spans, broken, message) = outcomes(true, move |mut peer| {
            acknowledge(&mut peer);
            let (request_id, _) = peer.request();
            peer.send(&nonsense(request_id));
            peer.stay_silent();
        });
        assert_eq!(spans, in_the_second_frame(Outcome::Unknown(Cause::ConnectionLost)), "nonsense {place}");
        assert!(broken && !message.is_empty());
    }
}

#[test]
fn a_server_that_is_not_primary_rejects_its_frame_and_no_later_frame_is_sent() {
    let (spans, broken, message) = outcomes(false, |mut peer| {
        acknowledge(&mut peer);
        let (request_id, _) = peer.request();
        peer.reply(request_id, &rawdoc! {"ok": 0.0, "code": 10107, "errmsg": "not primary"});
        peer.stay_silent();
    });
    assert_eq!(spans, in_the_second_frame(Outcome::Rejected(Class::NotPrimary)));
    assert!(!broken && message == "not primary");
}

#[test]
fn a_reply_in_many_small_pieces_is_joined() {
    let (spans, broken, _) = outcomes(true, |mut peer| {
        for _ in 0..3 {
            let (request_id, _) = peer.request();
            for byte in fake::message(request_id, &rawdoc! {"n": 2, "ok": 1.0}) {
                peer.send(&[byte]);
            }
        }
    });
    assert_eq!((spans, broken), (vec![(0, 6, Outcome::Acknowledged)], false));
}

#[test]
fn a_killed_server_breaks_the_connection_which_sends_no_more_requests() {
    let mut server = Server::start(&[]);
    run(async {
        let mut connection = connect(server.address()).await;
        server.kill();
        assert!(matches!(connection.ping().await.unwrap_err(), Error::Lost { .. }));
        assert!(connection.is_broken());
        assert!(matches!(connection.ping().await.unwrap_err(), Error::Broken { .. }));
        let spec = WriteSpec::new(WriteKind::Insert, "d", "c");
        let mut batch = WriteBatch::new(&spec, &connection.limits()).unwrap();
        batch.push(|out| out.extend_from_slice(rawdoc! {"_id": 1}.as_bytes())).unwrap();
        let mut reply = WriteReply::new();
        connection.write(&mut batch, &mut reply).await;
        assert_eq!(reply.spans()[0].outcome, Outcome::NotSent);
        assert_eq!((reply.commands, reply.bytes_sent), (0, 0));
    });
}

#[test]
fn an_abandoned_command_breaks_the_connection() {
    let address = serve_greeted(|peer| peer.stay_silent());
    run(async {
        let mut connection = connect(&address).await;
        let abandoned = tokio::time::timeout(Duration::from_millis(20), connection.ping()).await;
        assert!(abandoned.is_err() && connection.is_broken());
    });
}

#[test]
fn a_find_on_a_silent_server_ends_at_its_time_limit() {
    let address = serve_greeted(|peer| peer.stay_silent());
    run(async {
        let mut connection = connect(&address).await;
        connection.set_timeout(Some(Duration::from_millis(50)));
        let mut request = FindRequest::new(&FindSpec::new("d", "c"), &connection.limits()).unwrap();
        let error = connection.find(&mut request, &mut FindReply::new()).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    });
}

fn connect_error(address: &str) -> Error {
    let options = ConnectOptions {
        connect_timeout: Duration::from_millis(300),
        ..ConnectOptions::new(address.parse().unwrap())
    };
    run(Connection::connect(&options)).unwrap_err()
}

fn greeting(body: RawDocumentBuf) -> String {
    serve(move |mut peer| {
        let (request_id, _) = peer.request();
        peer.reply(request_id, &body);
        peer.stay_silent();
    })
}

#[test]
fn every_connection_failure_has_its_own_error() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = connect_error(&free);
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    let error = connect_error("no-such-host.invalid:1");
    assert!(matches!(error, Error::Unreachable { .. } | Error::Timeout { .. }), "{error:?}");
    let error = connect_error(&serve(|peer| peer.stay_silent()));
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    for garbage in [b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(), b"SSH-2.0-OpenSSH_9.2\r\n", &[0; 40], b""]
    {
        let error = connect_error(&serve(move |mut peer| {
            peer.request();
            peer.send(garbage);
        }));
        assert!(matches!(error, Error::NotMongo { .. }), "{error:?}");
    }
    let error = connect_error(&greeting(rawdoc! {"ok": 1.0, "maxWireVersion": 8}));
    assert!(matches!(error, Error::TooOld { max_wire_version: 8, .. }), "{error:?}");
    let error = connect_error(&serve(|mut peer| {
        for _ in ["hello", "isMaster"] {
            let (request_id, _) = peer.request();
            peer.reply(request_id, &rawdoc! {"ok": 0.0, "code": 59, "errmsg": "no such command"});
        }
    }));
    assert!(matches!(error, Error::TooOld { .. }), "{error:?}");
}

#[test]
fn a_reply_of_the_maximum_size_is_accepted_and_a_larger_one_is_refused_unread() {
    let address = serve_greeted(|mut peer| {
        let (request_id, _) = peer.request();
        peer.reply(request_id, &rawdoc! {"ok": 1.0, "text": "x".repeat(47_000_000)});
        peer.request();
        peer.send(&49_000_000_i32.to_le_bytes());
        peer.stay_silent();
    });
    run(async {
        let mut connection = connect(&address).await;
        connection.ping().await.unwrap();
        let error = connection.ping().await.unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
        assert!(connection.is_broken());
    });
}

/// The command that a client with this proof sends after its greeting.
fn shown(proof: Proof, user: &str) -> RawDocumentBuf {
    let (sent, received) = std::sync::mpsc::channel();
    let address = serve_greeted(move |mut peer| {
        let (request_id, bytes) = peer.request();
        sent.send(plimsoll_wire::Message::parse(&bytes).unwrap().body.to_owned()).unwrap();
        peer.reply(request_id, &rawdoc! {"ok": 1.0, "done": true});
        peer.stay_silent();
    });
    let mut credential = Credential::new(user, "word", "$external");
    credential.proof = proof;
    let options =
        ConnectOptions { credential: Some(credential), ..ConnectOptions::new(address.parse().unwrap()) };
    run(async { Connection::connect(&options).await.map(drop).unwrap() });
    received.recv().unwrap()
}

#[test]
fn the_mechanism_plain_sends_user_and_password_and_x509_sends_only_the_user() {
    let plain = shown(Proof::Plain, "ann");
    let text = |body: &RawDocumentBuf, key: &str| body.get_str(key).ok().map(str::to_owned);
    assert_eq!(
        (text(&plain, "mechanism"), text(&plain, "$db")),
        (Some("PLAIN".into()), Some("$external".into()))
    );
    assert_eq!(plain.get_binary("payload").unwrap().bytes, b"\0ann\0word");
    for (user, expected) in [("CN=ann", Some("CN=ann")), ("", None)] {
        let named = shown(Proof::Certificate, user);
        assert_eq!(
            (named.get_i32("authenticate").ok(), text(&named, "mechanism")),
            (Some(1), Some("MONGODB-X509".into()))
        );
        assert_eq!(
            (text(&named, "user").as_deref(), text(&named, "$db").as_deref()),
            (expected, Some("$external"))
        );
        assert!(named.get("payload").unwrap().is_none());
    }
}

#[test]
fn a_server_without_hello_is_greeted_by_its_former_name() {
    for refusal in [
        rawdoc! {"ok": 0.0, "code": 59, "errmsg": "no such command: 'hello'"},
        rawdoc! {"ok": 0.0, "code": 303, "errmsg": "Feature not supported: hello"},
        rawdoc! {"ok": 0.0, "errmsg": "no such cmd: hello"},
    ] {
        let address = serve(move |mut peer| {
            let (request_id, _) = peer.request();
            peer.reply(request_id, &refusal);
            let (request_id, bytes) = peer.request();
            assert!(plimsoll_wire::Message::parse(&bytes).unwrap().body.get_i32("isMaster").is_ok());
            peer.reply(request_id, &rawdoc! {"ismaster": true, "maxWireVersion": 13, "ok": 1.0});
            peer.stay_silent();
        });
        let options = ConnectOptions::new(address.parse().unwrap());
        run(async {
            let connection = Connection::connect(&options).await.unwrap();
            assert!(connection.hello().is_writable_primary);
        });
    }
}

#[test]
fn a_refusal_of_both_greetings_is_reported_with_its_reason() {
    let error = connect_error(&serve(|mut peer| {
        for code in [13, 59] {
            let (request_id, _) = peer.request();
            peer.reply(request_id, &rawdoc! {"ok": 0.0, "code": code, "errmsg": "not allowed"});
        }
    }));
    assert!(matches!(&error, Error::Server(refusal) if refusal.code == 13), "{error:?}");
}
