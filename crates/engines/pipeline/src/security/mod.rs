//! Implements the security stage: admits events by a policy and verifies their signatures.

mod policy;
mod signature;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use policy::{Decision, Match, Otherwise, Policy, Principal, Rule};
pub use signature::{Algorithm, SignatureSettings, Verifier};

use crate::event::{Batch, Cause, CauseClass, Event, Fate};
use crate::port::transform::{Transform, TransformError, TransformFactory};

/// The `security` section of a pipeline file.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecuritySettings {
    /// The principal of an event.
    #[serde(default)]
    pub principal: Principal,
    /// The rules. The first matching rule decides.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// The decision about events that match no rule.
    #[serde(default)]
    pub otherwise: Otherwise,
    /// The signature that every event must have.
    #[serde(default)]
    pub signature: Option<SignatureSettings>,
}

impl SecuritySettings {
    /// The same settings, with a relative key file resolved against `base`.
    #[must_use]
    pub fn rooted(mut self, base: &Path) -> Self {
        if let Some(signature) = &mut self.signature {
            let (Algorithm::HmacSha256(file) | Algorithm::Ed25519(file)) = &mut signature.algorithm;
            *file = base.join(&*file);
        }
        self
    }
}

/// Admits events by a policy and verifies their signatures. Other events become dead letters.
#[derive(Clone)]
pub struct Security {
    policy: Policy,
    verifier: Option<Verifier>,
}

impl Security {
    /// Builds the stage from its settings.
    ///
    /// # Errors
    ///
    /// If a key cannot be read or is invalid.
    pub fn build(settings: SecuritySettings) -> Result<Self, TransformError> {
        let verifier = settings.signature.map(Verifier::build).transpose()?;
        Ok(Self { policy: Policy::new(settings.principal, settings.rules, settings.otherwise), verifier })
    }

    fn decide(&self, batch: &Batch, event: &Event) -> Fate {
        match self.policy.decide(batch, event) {
            Decision::Admit => {}
            Decision::Deny(reason) => {
                return Fate::Reject(Cause::new(crate::SECURITY, CauseClass::Denied, reason));
            }
            Decision::Undecidable(reason) => {
                return Fate::Reject(Cause::new(crate::SECURITY, CauseClass::Invalid, reason));
            }
        }
        let principal = self.policy.principal_header();
        match self.verifier.as_ref().map(|verifier| verifier.verify(batch, event, principal)) {
            None | Some(Ok(())) => Fate::Keep,
            Some(Err(reason)) => Fate::Reject(Cause::new(crate::SECURITY, CauseClass::Denied, reason)),
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
        batch.sift(|batch, index| self.decide(batch, &batch.events()[index]));
        Ok(())
    }
}
