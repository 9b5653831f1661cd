//! Tests TLS against a real server with a self-signed certificate.

use bson::rawdoc;
use plimsoll_wire::{ConnectOptions, Connection, Credential, Error, Proof, Tls, TlsSettings, Trust};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::client::run;
use crate::server::Server;

struct Secured {
    server: Server,
    certificate: String,
    _directory: tempfile::TempDir,
}

fn secured() -> Secured {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let paths = [certificate.to_str().unwrap(), key.to_str().unwrap()];
    let server = Server::start(&["--tls-cert-file", paths[0], "--tls-key-file", paths[1]]);
    Secured { server, certificate: made.cert.pem(), _directory: directory }
}

async fn connect(secured: &Secured, tls: Option<Tls>) -> Result<Connection, Error> {
    Connection::connect(&ConnectOptions {
        tls,
        ..ConnectOptions::new(secured.server.address().parse().unwrap())
    })
    .await
}

#[test]
fn only_a_trusted_certificate_with_the_right_name_connects() {
    let secured = secured();
    let trusted = Tls::new(&Trust::Authorities(secured.certificate.clone().into_bytes())).unwrap();
    run(async {
        let mut connection = connect(&secured, Some(trusted.clone().expecting("localhost"))).await.unwrap();
        let text = "x".repeat(1_000_000);
        connection.command("tls", &rawdoc! {"insert": "c", "documents": [{"x": text}]}).await.unwrap();
        let found = connection.command("tls", &rawdoc! {"find": "c"}).await.unwrap();
        assert!(found.as_bytes().len() > 1_000_000);
        for refused in [trusted, Tls::new(&Trust::PublicRoots).unwrap().expecting("localhost")] {
            let error = connect(&secured, Some(refused)).await.unwrap_err();
            assert!(matches!(error, Error::Tls { .. }), "{error:?}");
        }
    });
}

#[test]
fn a_trusted_certificate_of_another_host_connects_only_if_requested() {
    let secured = secured();
    let with = |trust, any_host| Tls::with(&TlsSettings { trust, any_host, identity: None }).unwrap();
    let trusted = || Trust::Authorities(secured.certificate.clone().into_bytes());
    run(async {
        connect(&secured, Some(with(trusted(), true))).await.unwrap().ping().await.unwrap();
        for refused in [with(trusted(), false), with(Trust::PublicRoots, true)] {
            let error = connect(&secured, Some(refused)).await.unwrap_err();
            assert!(matches!(error, Error::Tls { .. }), "{error:?}");
        }
    });
}

#[test]
fn any_certificate_connects_if_requested() {
    let secured = secured();
    run(async {
        let mut connection = connect(&secured, Some(Tls::new(&Trust::Anyone).unwrap())).await.unwrap();
        connection.ping().await.unwrap();
    });
}

#[test]
fn plain_tcp_to_a_tls_server_and_tls_to_a_plain_server_have_different_errors() {
    let secured = secured();
    run(async {
        let error = connect(&secured, None).await.unwrap_err();
        assert!(error.to_string().contains("whether it wants TLS"), "{error}");
        let plain = Server::shared();
        let tls = Some(Tls::new(&Trust::Anyone).unwrap());
        let options = ConnectOptions {
            tls,
            connect_timeout: std::time::Duration::from_secs(2),
            ..ConnectOptions::new(plain.address().parse().unwrap())
        };
        let error = Connection::connect(&options).await.unwrap_err();
        assert!(matches!(error, Error::Tls { .. } | Error::Timeout { .. }), "{error:?}");
    });
}

/// A server that requires a user, and an authority that signs certificates of users.
struct WithUsers {
    secured: Secured,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl WithUsers {
    fn start() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let paths = [
            file("cert.pem", made.cert.pem()),
            file("key.pem", made.signing_key.serialize_pem()),
            file("authority.pem", authority.pem()),
        ];
        let [certificate, key, trusted] = &paths;
        let server = Server::start(&[
            "--auth",
            "--tls-cert-file",
            certificate,
            "--tls-key-file",
            key,
            "--tls-ca-file",
            trusted,
        ]);
        let secured = Secured { server, certificate: made.cert.pem(), _directory: directory };
        Self { secured, authority }
    }

    /// The settings of a user whose certificate carries this name.
    fn user(&self, name: &str) -> Tls {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        let identity = Some((certificate.pem() + &key.serialize_pem()).into_bytes());
        let trust = Trust::Authorities(self.secured.certificate.clone().into_bytes());
        Tls::with(&TlsSettings { trust, any_host: false, identity }).unwrap().expecting("localhost")
    }

    async fn log_in(&self, certificate: &str, user: &str) -> Result<Connection, Error> {
        let mut credential = Credential::new(user, "", "$external");
        credential.proof = Proof::Certificate;
        let options = ConnectOptions {
            credential: Some(credential),
            tls: Some(self.user(certificate)),
            ..ConnectOptions::new(self.secured.server.address().parse().unwrap())
        };
        Connection::connect(&options).await
    }
}

#[test]
fn a_certificate_logs_its_user_in_and_no_other() {
    let server = WithUsers::start();
    run(async {
        let root = rawdoc! {"createUser": "root", "pwd": "word", "roles": [{"role": "root", "db": "admin"}]};
        let mut first = connect(&server.secured, Some(server.user("first"))).await.unwrap();
        first.command("admin", &root).await.unwrap();
        let options = ConnectOptions {
            credential: Some(Credential::new("root", "word", "admin")),
            tls: Some(server.user("first")),
            ..ConnectOptions::new(server.secured.server.address().parse().unwrap())
        };
        let create = rawdoc! {
            "createUser": "CN=ann", "roles": [{"role": "root", "db": "admin"}], "mechanisms": ["MONGODB-X509"],
        };
        let mut first = Connection::connect(&options).await.unwrap();
        first.command("$external", &create).await.unwrap();
        for user in ["CN=ann", ""] {
            let mut connection = server.log_in("ann", user).await.unwrap();
            connection.command("tls", &rawdoc! {"insert": "c", "documents": [{"x": 1}]}).await.unwrap();
        }
        for (certificate, user) in [("bob", "CN=bob"), ("bob", "CN=ann"), ("bob", "")] {
            let error = server.log_in(certificate, user).await.unwrap_err();
            assert!(matches!(error, Error::Authentication { .. }), "{certificate} {user}: {error:?}");
            assert_eq!(
                error.to_string().contains("authentication by certificate"),
                user.is_empty(),
                "{error}"
            );
        }
    });
}
