//! Tests SCRAM-SHA-256 against a real server that requires it.

use bson::rawdoc;
use plimsoll_wire::{ConnectOptions, Connection, Credential, Error};

use crate::client::run;
use crate::server::Server;

/// The user's name. It has neither `,` nor `=`: the embedded server does not undo RFC 5802's escapes of them.
const USER: &str = "ann";
/// A password that SASLprep changes: it removes the soft hyphen, and replaces the Roman numeral nine by `IX`.
const PASSWORD: &str = "p\u{ad}ß=,\u{2168}";

fn options(server: &Server, credential: Option<Credential>) -> ConnectOptions {
    ConnectOptions { credential, ..ConnectOptions::new(server.address().parse().unwrap()) }
}

async fn server_with_user() -> Server {
    let server = Server::start(&["--auth"]);
    let mut connection = Connection::connect(&options(&server, None)).await.unwrap();
    let create = rawdoc! {
        "createUser": USER, "pwd": PASSWORD, "roles": [{"role": "root", "db": "admin"}],
        "mechanisms": ["SCRAM-SHA-256"],
    };
    connection.command("admin", &create).await.unwrap();
    server
}

#[test]
fn the_right_password_connects_and_every_failure_names_its_remedy() {
    run(async {
        let server = server_with_user().await;
        let credential = Credential::new(USER, PASSWORD, "admin");
        for _ in 0..2 {
            let mut connection =
                Connection::connect(&options(&server, Some(credential.clone()))).await.unwrap();
            connection.command("auth", &rawdoc! {"insert": "c", "documents": [{"x": 1}]}).await.unwrap();
        }
        for wrong in [
            Credential::new(USER, "wrong", "admin"),
            Credential::new("nobody", PASSWORD, "admin"),
            Credential::new(USER, PASSWORD, "elsewhere"),
        ] {
            let error = Connection::connect(&options(&server, Some(wrong))).await.unwrap_err();
            assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
            assert!(error.to_string().contains("check user, password and authSource"), "{error}");
        }
    });
}

#[test]
fn a_server_that_requires_a_user_refuses_commands_without_one() {
    run(async {
        let server = server_with_user().await;
        let mut connection = Connection::connect(&options(&server, None)).await.unwrap();
        let error =
            connection.command("auth", &rawdoc! {"insert": "c", "documents": [{"x": 1}]}).await.unwrap_err();
        assert!(matches!(&error, Error::Server(error) if error.code == 13), "{error:?}");
    });
}
