//! Measures the cost of the security stage: rules, a keyed hash, a public-key signature, and no stage.

use std::fs;
use std::rc::Rc;
use std::sync::Arc;

use plimsoll_pipeline::TransformFactory;
use plimsoll_pipeline::guarantee::Guarantee;
use plimsoll_pipeline::security::{
    Algorithm, Match, Otherwise, Principal, Rule, Security, SecuritySettings, SignatureSettings,
};
use plimsoll_pipeline::sink::Noop;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair};
use tempfile::TempDir;

use crate::Failure;
use crate::canned::{Can, Canned, SIGNATURE};
use crate::consume::payload;
use crate::plan::Plan;
use crate::row::{Row, Turn};
use crate::running::{parts, run, settings};
use crate::testbed::Testbed;

const PAYLOAD_BYTES: usize = 512;
/// The number of distinct events: more than a pipeline has in flight.
const CANS: u64 = 1000;
const SECRET: [u8; 32] = [7; 32];
const SEED: [u8; 32] = [9; 32];
/// The key of every prepared event after the key's length, as both are signed.
const KEY: &[u8] = b"\x06\0\0\0canned";

pub(crate) fn row(_: &Testbed, plan: &Plan) -> Result<Option<Row>, Failure> {
    let (judged, signed) = (plan.judged, plan.signed);
    let keys = Keys::make()?;
    let plain = cans(|_| None);
    let hashed =
        cans(|bytes| Some(hex(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &SECRET), bytes).as_ref())));
    let ed25519 = cans(|bytes| Some(hex(keys.pair.sign(bytes).as_ref())));
    let (rules, hmac, public) = (
        settings_of(None),
        settings_of(Some(Algorithm::HmacSha256(keys.secret()))),
        settings_of(Some(Algorithm::Ed25519(keys.public()))),
    );
    let setup = format!(
        "events of {PAYLOAD_BYTES} bytes from memory to nowhere, one worker thread; `CPU ns +` is the cost of an event; {judged} events, \
         {signed} with Ed25519; three rules, of which the last admits"
    );
    let keys = Rc::new(keys);
    let row = Row::new("Security: its cost", setup)
        .subject("no security", turn(plain.clone(), judged, None, &keys))
        .subject("rules", turn(plain, judged, Some(rules), &keys))
        .subject("rules and HMAC-SHA-256", turn(hashed, judged, Some(hmac), &keys))
        .subject("rules and Ed25519", turn(ed25519, signed, Some(public), &keys));
    Ok(Some(row))
}

/// The keys, in the files that the stage reads.
struct Keys {
    directory: TempDir,
    pair: Ed25519KeyPair,
}

impl Keys {
    fn make() -> Result<Self, Failure> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&SEED).map_err(|_| "the seed makes no key")?;
        let keys = Self { directory: tempfile::tempdir()?, pair };
        fs::write(keys.secret(), SECRET)?;
        fs::write(keys.public(), keys.pair.public_key().as_ref())?;
        Ok(keys)
    }

    fn secret(&self) -> std::path::PathBuf {
        self.directory.path().join("secret")
    }

    fn public(&self) -> std::path::PathBuf {
        self.directory.path().join("public")
    }
}

/// Events that `sign` signs as the stage verifies them: the key's length, the key, the payload.
fn cans(sign: impl Fn(&[u8]) -> Option<String>) -> Arc<[Can]> {
    let can = |number| {
        let mut bytes = KEY.to_vec();
        payload(number, &mut bytes, PAYLOAD_BYTES);
        Can { payload: bytes[KEY.len()..].to_vec(), signature: sign(&bytes) }
    };
    (0..CANS).map(can).collect()
}

fn settings_of(algorithm: Option<Algorithm>) -> SecuritySettings {
    let topic = |topic: &str| Match { topic: Some(topic.into()), ..Match::default() };
    SecuritySettings {
        principal: Principal::Fixed("CN=bench".into()),
        rules: vec![
            Rule::Deny(topic("secret.*")),
            Rule::Deny(Match { key: Some("*-denied".into()), ..Match::default() }),
            Rule::Allow(Match { principal: Some("CN=b*".into()), ..topic("canned") }),
        ],
        otherwise: Otherwise::Deny,
        signature: algorithm.map(|algorithm| SignatureSettings { header: SIGNATURE.into(), algorithm }),
    }
}

/// Measures a turn. Every event must be admitted; otherwise the run fails, because it has no dead letters.
/// The keys live as long as the returned value.
fn turn(
    cans: Arc<[Can]>,
    events: u64,
    security: Option<SecuritySettings>,
    keys: &Rc<Keys>,
) -> impl FnMut() -> Result<Turn, Failure> + 'static {
    let keys = Rc::clone(keys);
    move || {
        let _ = &keys;
        let stage = security.clone().map(Security::build).transpose()?;
        let stage = stage.map(|stage| Box::new(stage) as Box<dyn TransformFactory>);
        let parts = parts(Canned::new(&cans, events), stage.into_iter().collect(), Noop);
        run(parts, settings(Guarantee::AtMostOnce, 1000), events)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
