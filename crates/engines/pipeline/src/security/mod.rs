//! The security stage: who may send what, and whether it is what they sent.

mod glob;
mod policy;
mod signature;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use policy::{Decision, Match, Otherwise, Policy, Principal, Rule};
pub use signature::{Algorithm, SignatureSettings, Verifier};

use crate::event::{Batch, Cause, CauseClass, Event, Fate};
use crate::port::transform::{Transform, TransformError, TransformFactory};

/// The security stage, as typed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecuritySettings {
    /// Who an event comes from.
    #[serde(default)]
    pub principal: Principal,
    /// The first rule that matches decides.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// What is done with an event that no rule matches.
    #[serde(default)]
    pub otherwise: Otherwise,
    /// A signature that every event must carry.
    #[serde(default)]
    pub signature: Option<SignatureSettings>,
}

impl SecuritySettings {
    /// The same, with the path of a relative key file starting from `base`.
    #[must_use]
    pub fn rooted(mut self, base: &Path) -> Self {
        if let Some(signature) = &mut self.signature {
            let (Algorithm::HmacSha256(file) | Algorithm::Ed25519(file)) = &mut signature.algorithm;
            *file = base.join(&*file);
        }
        self
    }
}

/// Admits events by a policy, and checks their signatures. Whoever is not admitted goes to the dead letters.
#[derive(Clone)]
pub struct Security {
    policy: Policy,
    verifier: Option<Verifier>,
}

impl Security {
    /// Makes it from its settings.
    ///
    /// # Errors
    ///
    /// If a key cannot be read or is none.
    pub fn build(settings: SecuritySettings) -> Result<Self, TransformError> {
        let verifier = settings.signature.map(Verifier::build).transpose()?;
        Ok(Self { policy: Policy::new(settings.principal, settings.rules, settings.otherwise), verifier })
    }

    fn judge(&self, batch: &Batch, event: &Event) -> Fate {
        match self.policy.decide(batch, event) {
            Decision::Admit => {}
            Decision::Deny(reason) => {
                return Fate::Condemn(Cause::new(crate::SECURITY, CauseClass::Denied, reason));
            }
            Decision::Undecidable(reason) => {
                return Fate::Condemn(Cause::new(crate::SECURITY, CauseClass::Invalid, reason));
            }
        }
        let principal = self.policy.principal_header();
        match self.verifier.as_ref().map(|verifier| verifier.verify(batch, event, principal)) {
            None | Some(Ok(())) => Fate::Keep,
            Some(Err(reason)) => Fate::Condemn(Cause::new(crate::SECURITY, CauseClass::Denied, reason)),
        }
    }
}

impl TransformFactory for Security {
    fn build(&self, _worker: usize) -> Result<Box<dyn Transform>, TransformError> {
        Ok(Box::new(self.clone()))
    }

    fn name(&self) -> &str {
        crate::SECURITY
    }
}

impl Transform for Security {
    fn apply(&mut self, batch: &mut Batch) -> Result<(), TransformError> {
        batch.sift(|batch, index| self.judge(batch, &batch.events()[index]));
        Ok(())
    }
}
