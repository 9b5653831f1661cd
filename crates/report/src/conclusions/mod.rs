//! What a run says, in plain sentences: what was measured, and what it means.

mod faults;
mod integrity;
mod line;
mod load;
mod tries;
mod validity;

pub(crate) use integrity::promise;
pub(crate) use line::{interval, objective};
pub(crate) use load::{ACHIEVED_MIN, classes};
use plimsoll_measure::run::Run;
pub(crate) use tries::at as probes_at;
pub(crate) use validity::HEADROOM_MIN;

/// A part of the conclusions: no sentence, one or several.
type Part = fn(&Run) -> Vec<String>;

/// Broken promises first, then the result, then what limits its worth.
const PARTS: [Part; 19] = [
    integrity::violations,
    validity::interrupted,
    line::line,
    line::ladder,
    load::work,
    faults::faults,
    faults::servers,
    integrity::proof,
    integrity::leftovers,
    load::expectations,
    load::target,
    load::errors,
    validity::client,
    load::stalls,
    load::queueing,
    validity::closed,
    validity::steadiness,
    validity::wake,
    validity::build,
];

/// Plain sentences about `run`, the most important first.
pub fn conclusions(run: &Run) -> Vec<String> {
    PARTS.iter().flat_map(|part| part(run)).collect()
}

/// Whether the load was varied on purpose, so that its mean says nothing: by a search or on a ladder.
fn varies(run: &Run) -> bool {
    run.line.is_some() || run.ladder.is_some()
}

/// A class of errors as words: `duplicate_key` is written `duplicate key`.
pub(crate) fn class(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plimsoll_measure::histogram::Latency;
    use plimsoll_measure::integrity::{Integrity, Proof};
    use plimsoll_measure::ladder::Ladder;
    use plimsoll_measure::line::{Line, NotSeen, Probe, Stage, Suspect};
    use plimsoll_measure::run::{
        Expectation, FaultFacts, Operation, PhaseFacts, SecondsSpread, ServerShare, WarmUp,
    };
    use plimsoll_measure::scalability::{Peak, Point, Scalability};

    use super::*;

    /// Every sentence about a run that `change` made out of an unremarkable one, exactly and in order.
    #[track_caller]
    fn check(change: impl FnOnce(&mut Run), sentences: &[&str]) {
        let mut run = Run::default();
        run.environment.optimised = true;
        change(&mut run);
        assert_eq!(conclusions(&run), sentences);
    }

    fn line(low: Option<f64>, high: Option<f64>) -> Line {
        Line {
            confirmed: true,
            rate: low,
            low,
            high,
            unit: "documents/s".into(),
            documents_per_operation: 1.0,
            objective: vec!["response p(99)<50ms".into(), "errors count==0".into()],
            probes: [(low, true), (high, false)].into_iter().flat_map(probes).collect(),
            ..Line::default()
        }
    }

    fn probes((rate, held): (Option<f64>, bool)) -> Vec<Probe> {
        let probe = |rate| Probe { stage: Stage::Confirm, rate, held, ..Probe::default() };
        rate.into_iter().flat_map(|rate| vec![probe(rate); 3]).collect()
    }

    fn suspect(name: &str, evidence: &str) -> Suspect {
        Suspect { name: name.into(), evidence: evidence.into(), readings: Vec::new() }
    }

    fn insert(run: &mut Run) -> &mut Operation {
        run.operations.entry("insert".into()).or_default()
    }

    fn integrity(acknowledged: u64, found: u64) -> Integrity {
        let write_concern = r#"{"w":"majority","j":true}"#.into();
        Integrity { write_concern, acknowledged, found, ..Integrity::default() }
    }

    fn phase(change: impl FnOnce(&mut PhaseFacts)) -> Vec<PhaseFacts> {
        let warm_up = WarmUp::Steady { from_s: 1.0 };
        let mut phase =
            PhaseFacts { name: "load".into(), open: true, to_s: 8.1, warm_up, ..PhaseFacts::default() };
        change(&mut phase);
        vec![phase]
    }

    fn latency(p50: u64, p99: u64, max: u64) -> Latency {
        Latency { count: 5000, p50: Some(p50), p99: Some(p99), max: Some(max), ..Latency::default() }
    }

    #[test]
    fn faults_of_a_kind_are_one_sentence_and_servers_that_were_away_are_named() {
        let fault = |outage_s, first_success_s, held_again_s| FaultFacts {
            name: "kill".into(),
            from_s: 5.0,
            outage_s,
            first_success_s,
            held_again_s,
            ..FaultFacts::default()
        };
        check(
            |run| {
                run.faults = vec![
                    fault(2.0, Some(7.0), Some(8.0)),
                    fault(3.0, Some(8.0), None),
                    fault(4.0, None, None),
                ]
            },
            &[
                "Fault `kill`, 3 times: nothing succeeded for 3.00 s in the median, 2.00 s to 4.00 s; 1 time went by without a \
               success before the next one or the end; the objective held again after 1 of them.",
            ],
        );
        check(
            |run| run.faults = vec![fault(0.0, None, None)],
            &["Fault `kill`, 1 time: the load never fell silent."],
        );
        let away = ServerShare {
            address: "b:1".into(),
            passed_over: 12,
            away: Some("refused".into()),
            ..ServerShare::default()
        };
        check(
            |run| run.spread = vec![ServerShare::default(), away],
            &["Server b:1 was away (refused): 12 operations went to the next one."],
        );
    }

    #[test]
    fn the_load_line_is_said_with_its_interval_and_its_objective() {
        check(
            |run| run.line = Some(line(Some(163_000.0), Some(171_000.0))),
            &[
                "The load line is 163,000 documents/s: the highest rate that was confirmed to hold p99 response < 50 ms \
                 and no errors. It lies between 163,000, which held all 3 times it was tried, and 171,000, which failed all 3 times it was tried.",
                "What held it back was not found.",
            ],
        );
    }

    #[test]
    fn a_line_of_batches_is_said_in_operations_too() {
        check(
            |run| {
                let suspect = suspect("server CPU", "1.97 of 2 cores");
                let line = line(Some(163_000.0), None);
                run.line =
                    Some(Line { documents_per_operation: 1000.0, held_back_by: vec![suspect], ..line });
            },
            &[
                "The load line is at least 163,000 documents/s: that rate was confirmed to hold p99 response < 50 ms and \
                 no errors, and no rate that was tried failed.",
                "In operations of 1,000 documents each that is 163 operations/s.",
                "It was held back by server CPU: 1.97 of 2 cores.",
            ],
        );
    }

    #[test]
    fn several_suspects_are_listed_and_notes_are_kept() {
        check(
            |run| {
                let held_back_by = vec![suspect("wake", "p99 2 ms"), suspect("client CPU", "98 % of a core")];
                let notes = vec!["no full checkpoint cycle fell into the search".into()];
                run.line = Some(Line { held_back_by, notes, ..line(Some(1_000.0), Some(1_100.0)) });
            },
            &[
                "The load line is 1,000 documents/s: the highest rate that was confirmed to hold p99 response < 50 ms \
                 and no errors. It lies between 1,000, which held all 3 times it was tried, and 1,100, which failed all 3 times it was tried.",
                "It may be held back by, most likely first, wake: p99 2 ms; client CPU: 98 % of a core.",
                "No full checkpoint cycle fell into the search.",
            ],
        );
    }

    #[test]
    fn what_was_not_seen_may_be_the_cause() {
        check(
            |run| {
                let unseen = |name: &str, reason: &str| NotSeen { name: name.into(), reason: reason.into() };
                let local = "not reported: it can be seen only where the server runs on this machine";
                let not_seen = vec![
                    unseen("server CPU", local),
                    unseen("tickets", "not reported"),
                    unseen("flow control", "not reported"),
                    unseen("disk", local),
                ];
                run.line = Some(Line { not_seen, ..line(Some(1_000.0), Some(1_100.0)) });
            },
            &[
                "The load line is 1,000 documents/s: the highest rate that was confirmed to hold p99 response < 50 ms \
                 and no errors. It lies between 1,000, which held all 3 times it was tried, and 1,100, which failed all 3 times it was tried.",
                "What held it back was not found.",
                "Could not be looked at and may be the cause as well: server CPU, disk (not reported: it can be seen only \
                 where the server runs on this machine); tickets, flow control (not reported).",
            ],
        );
    }

    #[test]
    fn throughput_against_concurrency_is_said_with_its_peak_or_its_bound() {
        let law = |peak, bound: Option<f64>, measured| Scalability {
            lambda: 995.0,
            sigma: 0.0267,
            kappa: if bound.is_some() { 0.0 } else { 0.000_77 },
            r_squared: 0.9961,
            peak,
            bound,
            points: vec![Point { concurrency: measured, throughput: 9_000.0 }],
        };
        let fit = |kappa: &str| -> String {
            format!(
                "One operation at a time does 995 documents/s, and throughput follows the universal scalability law \
                 (contention 2.6 %, coherency {kappa}, R² 0.996): it "
            )
        };
        let peak = Some(Peak { concurrency: 35.5, throughput: 12_332.0 });
        for (law, sentence) in [
            (
                law(peak, None, 64.0),
                fit("0.00077") + "is highest at 35.5 operations in flight, with 12,332 documents/s.",
            ),
            (
                law(peak, None, 32.0),
                fit("0.00077")
                    + "is highest at 35.5 operations in flight, which is beyond what was measured, with 12,332 documents/s.",
            ),
            (law(None, Some(37_266.0), 32.0), fit("0") + "never falls and stays under 37,266 documents/s."),
        ] {
            let ladder = Ladder { unit: "documents/s".into(), scalability: Some(law), ..Ladder::default() };
            check(|run| run.ladder = Some(ladder), &[&sentence]);
        }
    }

    #[test]
    fn a_line_that_was_not_confirmed_is_not_called_confirmed() {
        check(
            |run| {
                let mut line = line(Some(1_000.0), Some(1_100.0));
                line.confirmed = false;
                line.probes[0].held = false;
                line.probes.truncate(4);
                run.line = Some(line);
            },
            &[
                "The load line is 1,000 documents/s: the highest rate that was found, but not confirmed, to hold p99 \
                 response < 50 ms and no errors. It lies between 1,000, which held in 2 of the 3 times it was tried, \
                 and 1,100, which failed the one time it was tried.",
                "What held it back was not found.",
            ],
        );
    }

    #[test]
    fn no_load_line_is_said_to_be_none() {
        check(
            |run| run.line = Some(line(None, Some(500.0))),
            &[
                "No load line was found: no rate that was tried held p99 response < 50 ms and no errors, and 500 \
               documents/s, the lowest, failed all 3 times it was tried.",
            ],
        );
    }

    #[test]
    fn intact_documents_are_said_with_the_write_concern() {
        check(
            |run| {
                run.server.profile = Some("journaled".into());
                run.integrity = Some(integrity(1_000_000, 1_000_000));
            },
            &["All 1,000,000 acknowledged documents were found intact \
               (write concern {\"w\":\"majority\",\"j\":true}, journaled profile)."],
        );
    }

    #[test]
    fn broken_promises_come_first() {
        check(
            |run| {
                run.interrupted = true;
                let broken =
                    Integrity { lost: 3, duplicated: 1, corrupted: 2, phantom: 4, ..integrity(1_000, 997) };
                run.integrity = Some(broken);
            },
            &[
                "3 of 1,000 acknowledged documents are gone (write concern {\"w\":\"majority\",\"j\":true}).",
                "2 documents do not hold what was written.",
                "1 document is there more than once.",
                "4 documents are there though they were never sent, or were rejected.",
                "The run was interrupted: its numbers cover the time up to then.",
            ],
        );
    }

    #[test]
    fn documents_of_unknown_outcome_break_no_promise() {
        check(
            |run| {
                let leftovers = Integrity {
                    unknown_present: 7,
                    unknown_absent: 5,
                    foreign: 1,
                    ..integrity(1_000, 1_000)
                };
                run.integrity = Some(leftovers);
            },
            &[
                "All 1,000 acknowledged documents were found intact (write concern {\"w\":\"majority\",\"j\":true}).",
                "The outcome of 12 documents is unknown: 7 are there and 5 are not. Neither breaks a promise.",
                "1 document in the collection is not of this run.",
            ],
        );
    }

    #[test]
    fn what_is_not_proven_is_not_claimed() {
        let weaker = |proof, reason: Option<&str>| {
            let reason = reason.map(str::to_owned);
            move |run: &mut Run| {
                let unknown = if proof == Proof::FireAndForget { 10 } else { 0 };
                let counts = Integrity { unknown_present: unknown, ..integrity(10, 9) };
                run.integrity =
                    Some(Integrity { proof, reason, write_concern: "{\"w\":0}".into(), ..counts });
            }
        };
        check(
            weaker(Proof::FireAndForget, None),
            &[
                "Fire and forget: nothing was promised (write concern {\"w\":0}). Of 10 documents handed over 10 are there.",
            ],
        );
        check(
            weaker(Proof::Counted, Some("the documents keep their own ids")),
            &["Counted, not proven: the collection holds 9 documents where 10 were acknowledged \
               (write concern {\"w\":0}); the documents keep their own ids."],
        );
        check(
            weaker(Proof::NotApplicable, Some("the collection is capped")),
            &["Integrity is not applicable: the collection is capped."],
        );
        check(
            weaker(Proof::NotAudited, None),
            &[
                "Integrity was not audited: no reason was recorded. Nothing is proven about 10 acknowledged documents.",
            ],
        );
    }

    #[test]
    fn documents_left_out_of_the_audit_are_not_called_intact() {
        check(
            |run| {
                let partly = Integrity {
                    not_audited: 10,
                    reason: Some("updates touched them".into()),
                    ..integrity(30, 20)
                };
                run.integrity = Some(partly);
            },
            &[
                "20 of 30 acknowledged documents were found intact (write concern {\"w\":\"majority\",\"j\":true}); \
               10 were not audited: updates touched them.",
            ],
        );
    }

    #[test]
    fn the_work_done_is_said_with_its_latency() {
        check(
            |run| {
                *insert(run) = Operation {
                    count: 5_000,
                    documents: 5_000_000,
                    documents_per_s: 123_456.0,
                    response_ns: latency(1_270_000, 3_100_000, 12_000_000),
                    ..Operation::default()
                };
            },
            &[
                "insert: 5,000,000 documents in 5,000 operations were acknowledged, 123,456 documents/s. The median \
               response took 1.27 ms, p99 3.10 ms, the longest 12.0 ms.",
            ],
        );
    }

    #[test]
    fn a_target_that_was_not_reached_is_named() {
        check(
            |run| {
                *insert(run) =
                    Operation { due: 1_000, achieved: Some(0.95), skipped: 20, ..Operation::default() };
            },
            &[
                "insert: the target rate was not reached: 95 % of the 1,000 operations that became due were completed, \
                 under 99 %.",
                "insert: 20 overdue operations were given up, which breaks every objective.",
            ],
        );
        check(|run| insert(run).achieved = Some(0.99), &[]);
    }

    #[test]
    fn errors_are_said_by_class() {
        check(
            |run| {
                let errors = [("duplicate_key", 10), ("timeout", 2), ("unacknowledged", 5)];
                insert(run).errors = errors.map(|(name, count)| (name.to_owned(), count)).into();
                insert(run).document_errors = BTreeMap::from([("duplicate_key".into(), 100)]);
            },
            &[
                "insert: 12 operations failed: 10 duplicate key, 2 timeout. 100 documents failed: 100 duplicate key.",
            ],
        );
    }

    #[test]
    fn a_failed_expectation_is_said_with_what_was_measured() {
        let expectation = |value, reason: Option<&str>| Expectation {
            metric: "insert.response".into(),
            expression: "p(99)<50ms".into(),
            value,
            reason: reason.map(str::to_owned),
            ..Expectation::default()
        };
        check(
            |run| {
                run.expectations = vec![expectation(Some(63e6), None), expectation(None, Some("n too small"))]
            },
            &[
                "Expected insert.response p(99)<50ms, measured 63.0 ms.",
                "Expected insert.response p(99)<50ms, which is not known: n too small.",
            ],
        );
    }

    #[test]
    fn a_tool_without_headroom_is_said_to_be_the_limit() {
        check(
            |run| (run.client.headroom, run.client.cpu_busiest_worker) = (Some(1.4), 0.97),
            &[
                "Client-limited: against a server that answers at once the tool does 1.40 times what it did here, under 2 \
               times, and its busiest worker used 97 % of a core. The server may take more than was measured.",
            ],
        );
        check(|run| run.client.headroom = Some(2.0), &[]);
    }

    #[test]
    fn a_stall_that_the_mean_hides_is_named() {
        let spread = SecondsSpread { seconds: 60, min: 900.0, p1: 900.0, p50: 120_000.0, max: 130_000.0 };
        check(
            |run| insert(run).documents_in_a_second = Some(spread),
            &["insert: throughput stalled: the slowest second did 900 documents, the median second 120,000."],
        );
    }

    #[test]
    fn waiting_before_the_send_is_told_from_the_servers_time() {
        check(
            |run| {
                insert(run).response_ns = latency(1_000_000, 40_000_000, 50_000_000);
                insert(run).service_ns = latency(1_000_000, 4_000_000, 5_000_000);
            },
            &[
                "insert: operations queued: p99 is 40.0 ms from the moment they were due and 4.00 ms from the moment they \
               were sent.",
            ],
        );
    }

    #[test]
    fn closed_arrivals_hide_saturation() {
        check(
            |run| run.phases = phase(|phase| phase.open = false),
            &["Phase load, closed: response equals service, saturation is hidden."],
        );
        check(
            |run| run.phases = [0, 1].iter().flat_map(|_| phase(|phase| phase.open = false)).collect(),
            &["Phases load and load, closed: response equals service, saturation is hidden."],
        );
    }

    #[test]
    fn a_phase_without_a_steady_state_is_named() {
        check(
            |run| run.phases = phase(|phase| phase.warm_up = WarmUp::NotAssessed),
            &[
                "Phase load: warm-up was not assessed, for it has fewer than 30 intervals of 100 ms; its numbers include it.",
            ],
        );
        check(
            |run| {
                let reason = "throughput fell to the end".into();
                run.phases = phase(|phase| phase.warm_up = WarmUp::NotSteady { reason });
            },
            &[
                "Phase load: no steady state was found (throughput fell to the end); its numbers describe a change, not a \
               level.",
            ],
        );
    }

    #[test]
    fn a_window_without_a_checkpoint_is_named() {
        check(
            |run| run.phases = phase(|phase| phase.checkpoints = Some(0)),
            &[
                "Phase load: no full checkpoint fell into its 8.10 s, so its numbers leave out what a checkpoint costs.",
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
            &["Plimsoll was built without optimisations: its own cost is higher than it need be."],
        );
    }
}
