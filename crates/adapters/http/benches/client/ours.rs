//! Runs this client under the load engine as a run does: one worker, every instant recorded, every status checked.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use plimsoll_http::scenario::Method;
use plimsoll_http::{Context, Http, Request, Section, Setup};
use plimsoll_load::arrivals::{Arrivals, Share};
use plimsoll_load::engine::{Engine, Progress};
use plimsoll_load::phase::{Documents, Load, Phase};
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
    let load =
        Load { documents: Documents::Used, ..Load::new("load", Arrivals::Closed { writers: CONNECTIONS }) };
    Phase::new(load, Stop { duration: Some(Span::from_ns(millis * 1_000_000)), ..Stop::default() })
}
