//! Tests operations that open a connection each.

use std::sync::Arc;

use bson::Document;
use plimsoll_host::scripted::Server;
use plimsoll_ledger::Counts;
use plimsoll_load::target::{Prepared, Target};
use plimsoll_measure::outcome::{Outcome, Rejection};
use plimsoll_mongo::lean::Lean;

use crate::scripts::{deployment, ledger, name, plan, run, taken};

fn server() -> Server {
    Server::start(|command| (name(command) == "insert").then(|| taken(command))).unwrap()
}

fn target(server: &Server, operations: &[(&str, &str)]) -> Lean {
    let setup = Arc::new(plan("{}", operations));
    Lean::new(setup.clone(), deployment(server.address().port()), ledger(&setup))
}

fn count(heard: &[Document], command: &str) -> usize {
    heard.iter().filter(|it| name(it) == command).count()
}

#[test]
fn an_operation_after_a_hang_up_opens_its_connection() {
    let server = server();
    let target = target(&server, &[("insert", r#"{"insert": {}}"#)]);
    run(async {
        let mut lane = target.open().await.unwrap();
        for number in 0..5 {
            target.hang_up(&mut lane);
            assert!(!target.is_broken(&lane));
            assert_eq!(target.prepare(&mut lane, 0, number), Prepared::Ready);
            assert_eq!(target.send(&mut lane).await.outcome, Outcome::Acknowledged);
        }
    });
    let heard = server.commands();
    assert_eq!((count(&heard, "hello"), count(&heard, "insert")), (1 + 5, 5));
}

#[test]
fn an_operation_without_a_connection_was_not_sent() {
    let operations = [
        ("insert", r#"{"insert": {"batch": 3}}"#),
        ("find", r#"{"find": {"filter": {}}}"#),
        ("transfer", r#"{"transaction": {"operations": [{"insert": {"batch": 2}}]}}"#),
    ];
    let server = server();
    let target = target(&server, &operations);
    run(async {
        let mut lane = target.open().await.unwrap();
        target.hang_up(&mut lane);
        drop(server);
        for (operation, documents) in [(0, 3), (1, 1), (2, 1)] {
            assert_eq!(target.prepare(&mut lane, operation, 0), Prepared::Ready);
            for _ in 0..2 {
                let reply = target.send(&mut lane).await;
                assert_eq!(reply.outcome, Outcome::Rejected(Rejection::NotTried));
                assert_eq!(reply.failed.total(), documents);
            }
        }
        let errors = target.first_errors();
        assert_eq!(errors.len(), operations.len());
        assert!(
            errors.iter().all(|error| error.error.message.contains("refused the connection")),
            "{errors:?}"
        );
    });
    let counts = target.close().unwrap().ledger.counts();
    assert_eq!(counts, Counts { rejected: 2, ..Counts::default() }, "the transaction was aborted");
}
