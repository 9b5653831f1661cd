//! Checks the conclusions on faults and unavailable servers.

use super::*;

#[test]
fn faults_of_a_kind_share_a_sentence_and_unavailable_servers_are_named() {
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
            run.faults =
                vec![fault(2.0, Some(7.0), Some(8.0)), fault(3.0, Some(8.0), None), fault(4.0, None, None)]
        },
        &[
            "Fault `kill`, 3 times: no operation succeeded for 3.00 s in the median, 2.00 s to 4.00 s; 1 time, no operation \
           succeeded before the next fault or the end; the objective held again after 1 of them.",
        ],
    );
    check(|run| run.faults = vec![fault(0.0, None, None)], &["Fault `kill`, 1 time: no outage."]);
    let unavailable = ServerShare {
        address: "b:1".into(),
        skipped: 12,
        unavailable: Some("refused".into()),
        ..ServerShare::default()
    };
    check(
        |run| run.spread = vec![ServerShare::default(), unavailable],
        &["Server b:1 was unavailable (refused): 12 operations went to the next server."],
    );
}

#[test]
fn the_median_of_two_outages_is_their_mean() {
    let fault = |outage_s| FaultFacts {
        name: "kill".into(),
        outage_s,
        first_success_s: Some(7.0),
        held_again_s: Some(8.0),
        ..FaultFacts::default()
    };
    check(
        |run| run.faults = vec![fault(2.0), fault(4.0)],
        &[
            "Fault `kill`, 2 times: no operation succeeded for 3.00 s in the median, 2.00 s to 4.00 s; the objective held again \
             each time.",
        ],
    );
}

#[test]
fn a_fault_that_went_wrong_is_timed_from_the_start_of_its_phase() {
    check(
        |run| {
            run.phases = phase(|phase| (phase.from_s, phase.to_s) = (2.0, 20.0));
            let (name, phase, error) = ("kill".into(), "load".into(), Some("it was gone".into()));
            run.faults = vec![FaultFacts { name, phase, error, from_s: 7.0, ..FaultFacts::default() }];
        },
        &[
            "Fault `kill`, 1 time: no outage.",
            "The fault `kill`, 5.00 s into its phase, failed: it was gone.",
        ],
    );
}
