//! Tests that both clients reach a server through a SOCKS5 proxy, which alone knows the server's name.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::doc;
use plimsoll_deployment::{Deployment, driver_options};
use plimsoll_host::{scripted, socks};
use plimsoll_wire::Address;

const TIMEOUT: Duration = Duration::from_secs(20);

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// A server, and a proxy that knows it as `db.internal`.
fn start(credential: Option<(&str, &str)>) -> (scripted::Server, socks::Proxy) {
    let server = scripted::Server::start(|_| None).unwrap();
    let names = BTreeMap::from([("db.internal".to_owned(), server.address())]);
    let credential = credential.map(|(user, password)| (user.to_owned(), password.to_owned()));
    (server, socks::Proxy::start(socks::Options { credential, names }).unwrap())
}

fn uri(proxy: &socks::Proxy, host: &str, more: &str) -> String {
    let address = proxy.address();
    format!("mongodb://{host}:4321/?proxyHost={}&proxyPort={}{more}", address.ip(), address.port())
}

async fn refusal(uri: &str) -> String {
    Deployment::find(&format!("{uri}&serverSelectionTimeoutMS=500"), TIMEOUT).await.unwrap_err().to_string()
}

#[test]
fn the_lean_client_and_the_driver_reach_a_name_that_only_the_proxy_knows() {
    for (credential, options) in
        [(None, ""), (Some(("ann", "s3 cret")), "&proxyUsername=ann&proxyPassword=s3%20cret")]
    {
        let (_server, proxy) = start(credential);
        let uri = uri(&proxy, "db.internal", options);
        run(async {
            let deployment = Deployment::find(&uri, TIMEOUT).await.unwrap();
            deployment.connect().await.unwrap().ping().await.unwrap();
            let lean = proxy.asked().len();
            assert!(lean > 0, "{options}");
            let client = mongodb::Client::with_options(driver_options(&uri).await.unwrap()).unwrap();
            client.database("admin").run_command(doc! {"ping": 1}).await.unwrap();
            let asked = proxy.asked();
            assert!(asked.len() > lean && asked.iter().all(|it| it == "db.internal:4321"), "{asked:?}");
        });
    }
}

#[test]
fn a_failing_proxy_is_named_with_the_remedy() {
    let (_server, proxy) = start(Some(("ann", "secret")));
    let refused = |host: &str, options: &str| run(refusal(&uri(&proxy, host, options)));
    let wrong = refused("db.internal", "&proxyUsername=ann&proxyPassword=wrong");
    assert!(
        wrong.contains("check `proxyUsername` and `proxyPassword`") && !wrong.contains("wrong"),
        "{wrong}"
    );
    let without = refused("db.internal", "");
    assert!(without.contains("give `proxyUsername`"), "{without}");
    let unknown = refused("elsewhere", "&proxyUsername=ann&proxyPassword=secret");
    assert!(unknown.contains("its name is unknown"), "{unknown}");
    let closed = refused("127.0.0.1", "&proxyUsername=ann&proxyPassword=secret");
    assert!(closed.contains("127.0.0.1:4321 refused the connection"), "{closed}");
}

#[test]
fn the_network_behind_a_socks_proxy_cannot_be_disturbed() {
    let (_server, proxy) = start(None);
    run(async {
        let deployment = Deployment::find(&uri(&proxy, "db.internal", ""), TIMEOUT).await.unwrap();
        let behind = deployment.behind(vec![Address { host: "127.0.0.1".into(), port: 1 }]);
        assert!(behind.unwrap_err().to_string().contains("remove `proxyHost`"));
    });
}
