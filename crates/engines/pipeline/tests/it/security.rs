//! Tests the security stage: admitted, denied and undecidable events are counted separately, and only admitted ones are
//! written.

use std::fs;
use std::sync::Arc;

use plimsoll_pipeline::meter::Count;
use plimsoll_pipeline::port::source::Last;
use plimsoll_pipeline::security::{
    Algorithm, Match, Otherwise, Principal, Rule, Security, SecuritySettings, SignatureSettings,
};
use plimsoll_pipeline::sink::{FileSink, FileSinkSettings, Form};
use plimsoll_pipeline::{
    Assignment, Assignments, Ended, Intake, Partition, Parts, Pipeline, Position, Read, Record, Replay,
    Source, SourceError,
};
use ring::hmac;

use crate::outcome::settings;
use crate::scripted::Scripted;

const SECRET: [u8; 32] = [7; 32];
const PAYLOAD: &str = "paid: 10";

/// An event: its claimed principal, its key, and the signed payload.
type Sent = (Option<&'static str>, &'static str, &'static str);

const SENT: [Sent; 5] = [
    (Some("svc-eu"), "eu-1", PAYLOAD),
    (Some("svc-eu"), "us-1", PAYLOAD),
    (Some("svc-bad"), "eu-1", PAYLOAD),
    (None, "eu-1", PAYLOAD),
    (Some("svc-eu"), "eu-1", "paid: 99"),
];

/// A source that hands all events over in one batch.
struct Once(Option<Arc<Assignment>>);

impl Source for Once {
    fn replay(&self) -> Replay {
        Replay::FromItself
    }

    fn open(&mut self, assignments: &Arc<Assignments>) -> Result<(), SourceError> {
        self.0 = Some(assignments.open(Partition::new("orders", 0))?.0);
        Ok(())
    }

    fn read(&mut self, intake: &mut Intake<'_>) -> Result<Read, SourceError> {
        let Some(assignment) = self.0.take() else { return Ok(Read::End) };
        let mut batch = intake.batch(assignment.partition());
        for (offset, (who, key, signed)) in (0..).zip(SENT) {
            let signature = signature(who.unwrap_or_default(), key, signed);
            let headers = [("signature", Some(signature.as_bytes()))];
            let who = who.map(|who| ("who", Some(who.as_bytes())));
            let (key, payload) = (Some(key.as_bytes()), Some(PAYLOAD.as_bytes()));
            batch.push_with(Record { offset, appended_ms: 1, key, payload }, headers.into_iter().chain(who));
        }
        batch.set_position(Position::at(SENT.len() as u64));
        intake.hand_over(&assignment, batch);
        Ok(Read::Some)
    }

    fn commit(&mut self, _reached: &[(Partition, Position)], _last: Last) -> Result<(), SourceError> {
        Ok(())
    }
}

/// The signature of principal, key and payload, in hexadecimal.
fn signature(who: &str, key: &str, payload: &str) -> String {
    let length = |text: &str| (text.len() as u32).to_le_bytes();
    let signed =
        [&[0xff; 4][..], &length(who), who.as_bytes(), &length(key), key.as_bytes(), payload.as_bytes()]
            .concat();
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &SECRET), &signed);
    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn security(key: std::path::PathBuf) -> Security {
    let who = |principal: &str| Match { principal: Some(principal.into()), ..Match::default() };
    let eu = Match { topic: Some("orders".into()), key: Some("eu-*".into()), ..who("svc-*") };
    let settings = SecuritySettings {
        principal: Principal::Header("who".into()),
        rules: vec![Rule::Deny(who("svc-bad")), Rule::Allow(eu)],
        otherwise: Otherwise::Deny,
        signature: Some(SignatureSettings {
            header: "signature".into(),
            algorithm: Algorithm::HmacSha256(key),
        }),
    };
    Security::build(settings).unwrap()
}

#[test]
fn denied_and_undecidable_events_are_dead_letters_counted_separately() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("key"), SECRET).unwrap();
    let (sink, dead) = (Scripted::writing(), path("dead"));
    let parts = Parts {
        sources: vec![Box::new(Once(None))],
        transforms: vec![Box::new(security(path("key")))],
        sink: Box::new(sink.clone()),
        dead_letters: Some(Box::new(FileSink::new(FileSinkSettings {
            path: dead.clone(),
            form: Form::Whole,
        }))),
        positions: None,
    };
    let pipeline = Pipeline::build(parts, settings(), Arc::default()).unwrap();
    let meter = pipeline.meter();
    assert_eq!(pipeline.run().unwrap(), Ended::Exhausted);
    assert_eq!(sink.written(), [0]);
    let counts = meter.counts();
    let all = [Count::Decided, Count::Denied, Count::Undecidable, Count::Admitted, Count::DeadLettered];
    assert_eq!(all.map(|count| counts.get(count)), [5, 3, 1, 1, 4]);
    assert_eq!((counts.get(Count::Acknowledged), counts.settled()), (1, 5), "the others were never admitted");
    let text = fs::read_to_string(dead).unwrap();
    for said in [
        "no rule allows it",
        "rule 1 denies it",
        "the header `who`, which names the principal, is missing",
        "the signature is wrong",
    ] {
        assert_eq!(text.matches(said).count(), 1, "{said}: {text}");
    }
}
