//! Tests the login token: requested once per worker, carried by every request, and renewed when it is rejected.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_http::Http;
use plimsoll_load::target::Target;
use plimsoll_measure::outcome::{Outcome, Rejection};
use tokio::task::{LocalSet, spawn_local};

use crate::client::{run, send, target};
use crate::service::{Answer, Seen, Service, WAYS, Way};

/// The duration of a login: other lanes arrive meanwhile.
const LOGIN: Duration = Duration::from_millis(50);
/// Lanes that start at the same time.
const LANES: usize = 4;

/// A service that issues tokens and accepts only the newest.
struct Gate {
    logins: AtomicU64,
    /// Tokens up to this number are rejected.
    expired: AtomicU64,
}

impl Gate {
    fn start(way: Way) -> (Arc<Self>, Service) {
        let gate = Arc::new(Self { logins: AtomicU64::new(0), expired: AtomicU64::new(0) });
        let inner = Arc::clone(&gate);
        (gate, Service::start(way, move |seen| inner.answer(seen)))
    }

    fn answer(&self, seen: &Seen) -> Answer {
        if seen.uri == "/login" {
            std::thread::sleep(LOGIN);
            let right = seen.body == br#"{"user":"eve"}"#;
            let number = self.logins.fetch_add(u64::from(right), Ordering::SeqCst) + 1;
            let body = format!(r#"{{"data": {{"token": "token-{number}"}}}}"#);
            return (if right { 201 } else { 401 }, vec![], body.into_bytes());
        }
        let token = seen.header("authorization").and_then(|value| value.strip_prefix("Bearer token-"));
        let number: u64 = token.and_then(|number| number.parse().ok()).unwrap_or(0);
        let taken =
            number > self.expired.load(Ordering::SeqCst) && number <= self.logins.load(Ordering::SeqCst);
        (if taken { 200 } else { 401 }, vec![], b"{}".to_vec())
    }
}

fn section(service: &Service, user: &str, token: &str) -> String {
    let login = format!("{{login: {{request: {{post: /login, body: {{user: {user}}}}}, token: {token}}}}}");
    format!("{}auth: {login}", service.section())
}

#[test]
fn a_token_is_requested_once_and_renewed_when_rejected() {
    for way in WAYS {
        let (gate, service) = Gate::start(way);
        let target = target(&section(&service, "eve", "data.token"), &[("op", "put: /a\nbody: {n: 1}")]);
        run(async {
            let mut lanes = [target.open().await.unwrap(), target.open().await.unwrap()];
            for lane in &mut lanes {
                assert_eq!(send(&target, lane, 0, 0).await.outcome, Outcome::Acknowledged, "{way:?}");
            }
            assert_eq!(gate.logins.load(Ordering::SeqCst), 1, "{way:?}");
            gate.expired.store(1, Ordering::SeqCst);
            for lane in &mut lanes {
                assert_eq!(send(&target, lane, 0, 0).await.outcome, Outcome::Acknowledged, "{way:?}");
            }
            assert_eq!(gate.logins.load(Ordering::SeqCst), 2, "{way:?}");
            // A token that was never accepted is not renewed.
            gate.expired.store(u64::MAX, Ordering::SeqCst);
            for lane in &mut lanes {
                for _ in 0..3 {
                    let reply = send(&target, lane, 0, 0).await;
                    assert_eq!(reply.outcome, Outcome::Rejected(Rejection::Unauthorized), "{way:?}");
                }
            }
            assert_eq!(gate.logins.load(Ordering::SeqCst), 3, "{way:?}");
        });
    }
}

/// The results of calls that start together.
async fn at_once<F>(calls: impl Iterator<Item = F>) -> Vec<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let tasks: Vec<_> = calls.map(spawn_local).collect();
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.unwrap());
    }
    all
}

/// Opens a lane, if there is none yet, and sends on it.
async fn ask(target: Rc<Http>, lane: Option<<Http as Target>::Lane>) -> <Http as Target>::Lane {
    let mut lane = match lane {
        Some(lane) => lane,
        None => target.open().await.unwrap(),
    };
    assert_eq!(send(&target, &mut lane, 0, 0).await.outcome, Outcome::Acknowledged);
    lane
}

#[test]
fn lanes_that_need_a_token_at_the_same_time_share_one_login() {
    for way in WAYS {
        let (gate, service) = Gate::start(way);
        let section = section(&service, "eve", "data.token");
        let target = Rc::new(target(&section, &[("op", "put: /a\nbody: {n: 1}")]));
        let local = LocalSet::new();
        run(local.run_until(async {
            let lanes = at_once((0..LANES).map(|_| ask(Rc::clone(&target), None))).await;
            assert_eq!(gate.logins.load(Ordering::SeqCst), 1, "{way:?}: all of them opened");
            gate.expired.store(1, Ordering::SeqCst);
            let lanes = lanes.into_iter().map(|lane| ask(Rc::clone(&target), Some(lane)));
            drop(at_once(lanes).await);
            assert_eq!(gate.logins.load(Ordering::SeqCst), 2, "{way:?}: all of them were answered 401");
        }));
    }
}

#[test]
fn a_failed_login_explains_the_fix() {
    let (_gate, service) = Gate::start(Way::Http1);
    for (user, token, words) in
        [("mallory", "data.token", "credentials"), ("eve", "data.tokens", "data.tokens")]
    {
        let target = target(&section(&service, user, token), &[("op", "get: /")]);
        let error = run(async { target.open().await.unwrap_err().to_string() });
        assert!(error.contains(words), "{error}");
    }
}
