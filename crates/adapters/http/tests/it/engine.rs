//! Tests the engine over HTTP: every operation, document and check is counted once.

use std::sync::Arc;

use plimsoll_http::Http;
use plimsoll_http::counts::Answers;
use plimsoll_http::null::{Options, Server};
use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::engine::{Engine, Finished, Progress};
use plimsoll_load::phase::{Documents, Load, Phase};
use plimsoll_load::runtime::Spin;
use plimsoll_load::stop::Stop;
use plimsoll_load::worker::{Control, Ended};
use plimsoll_measure::duration::Span;
use plimsoll_measure::interval::Tally;

use crate::client::setup;

fn phase(mix: &[(usize, f64)], arrivals: Arrivals, stop: Stop, documents: Documents) -> Phase {
    let load = Load { mix: mix.to_vec(), documents, ..Load::new("load", arrivals) };
    Phase { unreachable_for: Span::from_secs(10), ..Phase::new(load, stop) }
}

/// Runs phases one after the other; returns each operation's totals and the workers' counts.
fn load(
    targets: Vec<Arc<Http>>,
    operations: usize,
    phases: &[Phase],
) -> (Vec<Tally>, Vec<Answers>, Finished) {
    let mut engine = Engine::new(targets, operations, Share::WHOLE, Spin::Off).unwrap();
    let mut sums = vec![Tally::default(); operations];
    let mut finished = Finished::default();
    for phase in phases {
        finished = engine
            .run(phase, &Control::default(), &mut [], |progress| {
                if let Progress::Second(second) = progress {
                    sums.iter_mut().zip(&second.tallies).for_each(|(sum, part)| sum.merge(part));
                }
            })
            .unwrap();
    }
    let mut all = engine.targets().map(Http::answers);
    let mut answers = all.next().unwrap();
    all.for_each(|other| answers.iter_mut().zip(&other).for_each(|(sum, part)| sum.merge(part)));
    (sums, answers, finished)
}

fn targets(section: &str, requests: &[(&str, &str)], workers: u64) -> Vec<Arc<Http>> {
    let setup = setup(section, requests);
    (0..workers).map(|index| Arc::new(Http::new(setup.clone(), Share { index, of: workers }))).collect()
}

const fn closed(writers: u32) -> Arrivals {
    Arrivals::Closed { writers }
}

#[test]
fn every_operation_and_every_check_is_counted() {
    let server = Server::start(&Options { body: br#"{"id": 5}"#.to_vec(), ..Options::default() }).unwrap();
    let requests = [
        ("write", "post: /a\nbody: {n: {$number: {}}}\ncheck: {json: {id: 5}}"),
        ("read", "get: /a/{n}\nwith: {n: {$number: {}}}\ncheck: {json: {id: {min: 6}}}"),
    ];
    let targets = targets(&format!("url: http://{}", server.address()), &requests, 2);
    let stop = Stop { operations: Some(3000), ..Stop::default() };
    let mixed = phase(&[(0, 2.0), (1, 1.0)], closed(8), stop, Documents::Made);
    let (tallies, answers, finished) = load(targets, 2, &[mixed]);
    assert_eq!(finished.ended, Ended::Operations);
    let (write, read) = (&tallies[0], &tallies[1]);
    assert_eq!(write.count + read.errors.total(), 3000, "{answers:?}");
    assert_eq!((write.errors.total(), read.count), (0, 0));
    assert_eq!(write.response.count(), write.count);
    assert_eq!(server.answered(), 3000);
    let counted = |answers: &Answers| {
        answers.checks.iter().map(|check| (check.passed, check.failed)).collect::<Vec<_>>()
    };
    assert_eq!(counted(&answers[0]), [(write.count, 0), (write.count, 0)]);
    assert_eq!(counted(&answers[1]), [(read.errors.total(), 0), (0, read.errors.total())]);
    assert_eq!(read.errors.by_class().collect::<Vec<_>>(), [("unexpected", read.errors.total())]);
}

#[test]
fn a_phase_sends_exactly_its_documents_and_the_next_phase_continues() {
    let server = Server::start(&Options::default()).unwrap();
    let batch = "post: /b\nbody: {batch: {documents: 7, document: {n: {$sequence: {start: 1000000}}}}}";
    let targets = targets(&format!("url: http://{}", server.address()), &[("op", batch)], 2);
    let stop = Stop { documents: Some(1000), ..Stop::default() };
    let phases = [0, 1].map(|_| phase(&[(0, 1.0)], closed(4), stop, Documents::Made));
    let (tallies, _, finished) = load(targets, 1, &phases);
    assert_eq!((tallies[0].documents, finished.ended), (2000, Ended::Documents));
    // Each document is `{"n":1000000}` with a comma, or with a bracket for the last; each batch adds one bracket.
    assert_eq!(server.body_bytes(), 2000 * 13 + 2000 + tallies[0].count);
}

#[test]
fn a_freeze_shows_in_response_times_and_nothing_is_dropped() {
    let server = Server::start(&Options::default()).unwrap();
    let targets = targets(&format!("url: http://{}", server.address()), &[("op", "get: /")], 1);
    let arrivals = Arrivals::Constant { rate: 400.0, connections: 4 };
    let stop = Stop { duration: Some(Span::from_secs(2)), ..Stop::default() };
    let open = phase(&[(0, 1.0)], arrivals, stop, Documents::Used);
    let from = plimsoll_measure::clock::now() + 700_000_000;
    server.freeze_from(from, std::time::Duration::from_millis(500));
    let (tallies, _, _) = load(targets, 1, &[open]);
    let tally = &tallies[0];
    assert_eq!((tally.due, tally.count, tally.skipped), (800, 800, 0));
    // About 200 operations were due during the freeze and waited for its end, up to half a second.
    assert!(tally.response.max() >= 450_000_000, "{}", tally.response.max());
    assert!(tally.response.at(90.0) >= 100_000_000, "{}", tally.response.at(90.0));
}

#[test]
fn the_ceiling_accepts_any_answer_of_the_null_server() {
    let server = Server::start(&Options::default()).unwrap();
    let section = "url: http://example.invalid\nauth: {login: {request: {post: /login}, token: token}}";
    let request = "post: /a\nbody: {n: {$number: {}}}\ncheck: {status: 201, json: {id: {exists: true}}}";
    let setup = Arc::new(setup(section, &[("op", request)]).against(server.address()).unwrap());
    let stop = Stop { operations: Some(100), ..Stop::default() };
    let phase = phase(&[(0, 1.0)], closed(2), stop, Documents::Made);
    let (tallies, answers, _) = load(vec![Arc::new(Http::new(setup, Share::WHOLE))], 1, &[phase]);
    assert_eq!((tallies[0].count, server.answered()), (100, 100));
    assert!(answers[0].checks.iter().all(|check| check.failed == 100), "{answers:?}");
}
