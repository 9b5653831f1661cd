//! Runs this client under the load engine as a run does: one worker, every instant recorded, every status checked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use plimsoll_http::scenario::Method;
use plimsoll_http::{Context, Http, Request, Section, Setup};
use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::engine::{Engine, Progress};
use plimsoll_load::mix::By;
use plimsoll_load::phase::{Documents, Load, Overdue, Phase, Timing};
use plimsoll_load::retry::Retry;
use plimsoll_load::runtime::Spin;
use plimsoll_load::stop::Stop;
use plimsoll_load::worker::Control;
use plimsoll_measure::duration::Span;

use crate::Failure;
use crate::arguments::CONNECTIONS;

/// Sends for `millis`, and prints the number of requests with the expected answer.
pub(crate) fn serve(address: SocketAddr, millis: u64) -> Result<(), Failure> {
    let section = Section { url: format!("http://{address}"), ..Section::default() };
    let context = Context { seed: 1, start_ms: 0, base: Path::new(".") };
    let requests = [("get".to_owned(), Request::new(Method::Get, "/"))];
    let target = Http::new(Arc::new(Setup::build(&section, &requests, context)?), Share::WHOLE);
    let mut engine = Engine::new(vec![Arc::new(target)], 1, Share::WHOLE, Spin::Off)?;
    let (mut count, mut failed) = (0, 0);
    engine.run(&phase(millis), &Control::default(), &mut [], |progress| {
        if let Progress::Second(second) = progress {
            count += second.tallies.iter().map(|tally| tally.response.count()).sum::<u64>();
            failed += second.tallies.iter().map(|tally| tally.errors.total()).sum::<u64>();
        }
    })?;
    let passed: u64 = engine.targets().flat_map(Http::answers).map(|answers| answers.checks[0].passed).sum();
    if failed > 0 || passed != count {
        return Err(format!("{failed} of {count} requests failed, {passed} checks held").into());
    }
    println!("{count}");
    Ok(())
}

fn phase(millis: u64) -> Phase {
    let load = Load {
        name: "load".to_owned(),
        mix: vec![(0, 1.0)],
        mix_by: By::Count,
        arrivals: Arrivals::Closed { writers: CONNECTIONS },
        connections: Default::default(),
        overdue: Overdue::Send,
        documents: Documents::Used,
        timing: Timing::default(),
        tags: BTreeMap::new(),
    };
    Phase {
        name: "phase".to_owned(),
        key: None,
        loads: vec![load],
        stop: Stop { duration: Some(Span::from_ns(millis * 1_000_000)), ..Stop::default() },
        drain: Span::from_secs(5),
        unreachable_for: Span::from_secs(5),
        seed: 1,
        faults: Vec::new(),
        retry: Some(Retry::None),
        limits: Vec::new(),
    }
}
