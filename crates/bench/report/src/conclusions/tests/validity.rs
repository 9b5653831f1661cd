//! Checks the conclusions on validity.

use super::*;

#[test]
fn a_tool_without_headroom_is_reported_as_the_limit() {
    check(
        |run| (run.client.headroom, run.client.cpu_busiest_worker) = (Some(1.4), 0.97),
        &[
            "Client-limited: the null server's rate is only 1.40 times the measured rate (under 2), and the tool's busiest worker used 97 % of a core. The server may sustain a higher rate.",
        ],
    );
    check(|run| run.client.headroom = Some(2.0), &[]);
}

#[test]
fn a_tool_whose_own_latency_is_a_tenth_of_a_bound_is_reported_as_the_limit() {
    let floor = |p99_ns| {
        move |run: &mut Run| {
            run.client.floor_ns = Some(Latency { count: 5000, p99: Some(p99_ns), ..Latency::default() });
            run.client.floor_bound_ns = Some(50_000_000);
        }
    };
    check(
        floor(6_000_000),
        &[
            "Client-limited: the tool's own p99 response time is 6.00 ms, over a tenth of the bound of 50.0 ms. The server may be faster.",
        ],
    );
    check(floor(4_000_000), &[]);
}

#[test]
fn closed_arrivals_hide_saturation() {
    check(
        |run| run.phases = phase(|phase| phase.open = false),
        &["Phase load: closed loop hides queueing; use `constant` arrivals."],
    );
    check(
        |run| run.phases = [0, 1].iter().flat_map(|_| phase(|phase| phase.open = false)).collect(),
        &["Phases load and load: closed loop hides queueing; use `constant` arrivals."],
    );
}

#[test]
fn a_phase_without_a_steady_state_is_named() {
    check(
        |run| run.phases = phase(|phase| phase.warm_up = WarmUp::NotAssessed),
        &[
            "Phase load: warm-up was not assessed (fewer than 30 intervals of 100 ms); the numbers include it.",
        ],
    );
    check(
        |run| {
            let reason = "throughput fell to the end".into();
            run.phases = phase(|phase| phase.warm_up = WarmUp::NotSteady { reason });
        },
        &[
            "Phase load: no steady state was found (throughput fell to the end); the numbers describe a change, not a \
           level.",
        ],
    );
}

#[test]
fn a_window_without_a_checkpoint_is_named() {
    check(
        |run| run.phases = phase(|phase| phase.checkpoints = Some(0)),
        &[
            "Phase load: no full checkpoint in its 8.10 s; the numbers do not include the cost of a checkpoint.",
        ],
    );
    check(|run| run.phases = phase(|phase| phase.checkpoints = Some(1)), &[]);
}

#[test]
fn a_late_tool_is_named() {
    check(
        |run| insert(run).wake_ns = latency(10_000, 1_500_000, 2_000_000),
        &[
            "insert: the tool itself was late: p99 of its wake error is 1.50 ms, over 1 ms; response times include it.",
        ],
    );
    check(|run| insert(run).wake_ns = latency(10_000, 1_000_000, 2_000_000), &[]);
}

#[test]
fn a_build_without_optimisations_is_named() {
    check(
        |run| run.environment.optimised = false,
        &["Plimsoll was built without optimisations: its own cost is higher than necessary."],
    );
}

#[test]
fn an_unreachable_server_differs_from_an_interrupted_run() {
    check(
        |run| {
            run.interrupted = true;
            run.phases = phase(|phase| phase.ended_by = "unreachable".into());
        },
        &["The server became unreachable: the numbers cover the time up to then."],
    );
    check(
        |run| {
            run.interrupted = true;
            run.phases = phase(|phase| phase.ended_by = "interrupted".into());
        },
        &["The run was interrupted: the numbers cover the time up to then."],
    );
}
