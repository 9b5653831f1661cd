//! Simulates a peer on its own thread, with one kind of behaviour.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_net::{Tls, Trust};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The behaviour of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Answers each request with the last byte of the request.
    Tcp,
    /// As `Tcp`, under TLS, for the protocol `known`.
    Tls,
    /// As `Tcp`, on a Unix socket.
    Unix,
    /// Reads and never answers.
    Silent,
    /// Closes at once.
    Closing,
    /// Answers with HTTP.
    Http,
}

/// A running peer. Its threads end with their connections.
pub struct Server {
    pub address: SocketAddr,
    pub path: PathBuf,
    certificate: Option<String>,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Serves requests of `request_len` bytes.
    pub fn start(peer: Peer, request_len: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (config, certificate) = (peer == Peer::Tls).then(tls).unzip();
        if peer == Peer::Unix {
            let listener = UnixListener::bind(&path).unwrap();
            std::thread::spawn(move || {
                let (stream, _) = listener.accept().unwrap();
                answer(stream, request_len)
            });
        } else {
            std::thread::spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    let config = config.clone();
                    std::thread::spawn(move || serve(peer, stream, config, request_len));
                }
            });
        }
        Self { address, path, certificate, _directory: directory }
    }

    /// The settings that trust this server, if it speaks TLS.
    pub fn tls(&self) -> Option<Tls> {
        let pem = self.certificate.clone()?.into_bytes();
        Some(Tls::new(&Trust::Authorities(pem)).unwrap().offering(b"known"))
    }
}

fn tls() -> (Arc<ServerConfig>, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"known".to_vec()];
    (Arc::new(config), made.cert.pem())
}

/// Accepts one TLS connection of a client with this certificate (PEM). Returns the settings that trust the server.
pub fn asking_for(client: &str) -> (SocketAddr, Trust) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut clients = rustls::RootCertStore::empty();
    clients.add(CertificateDer::from_pem_slice(client.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(clients), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![made.cert.der().clone()],
            PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let connection = ServerConnection::new(Arc::new(config)).unwrap();
        answer(StreamOwned::new(connection, listener.accept().unwrap().0), 1);
    });
    (address, Trust::Authorities(made.cert.pem().into_bytes()))
}

fn serve(peer: Peer, mut stream: std::net::TcpStream, config: Option<Arc<ServerConfig>>, request_len: usize) {
    match (peer, config) {
        (_, Some(config)) => {
            let connection = ServerConnection::new(config).unwrap();
            answer(StreamOwned::new(connection, stream), request_len);
        }
        (Peer::Silent, _) => drop(std::io::copy(&mut stream, &mut std::io::sink())),
        (Peer::Http, _) => drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
        (Peer::Closing, _) => {}
        _ => answer(stream, request_len),
    }
}

/// Answers each request, with a delay that lets the client fill the socket.
fn answer(mut stream: impl Read + Write, request_len: usize) {
    let mut request = vec![0; request_len];
    loop {
        std::thread::sleep(Duration::from_millis(20));
        if stream.read_exact(&mut request).is_err() || stream.write_all(&request[request_len - 1..]).is_err()
        {
            return;
        }
        let _ = stream.flush();
    }
}
