//! Decides by rules which principals may send which events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Batch, Event};

/// The principal of an event.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Principal {
    /// Unknown: the name is empty.
    #[default]
    Nobody,
    /// The same for all events: the identity with which the source connects (a certificate's subject, a SASL user). It is not
    /// verified here: only the source's authentication does that.
    Fixed(String),
    /// The value of this header. Every writer to the source can put any name into it. If events have a
    /// `signature`, which covers this header, only a holder of the signing key can. A signature does not
    /// detect an event that is sent twice.
    Header(String),
}

/// The pattern of a rule. A missing key matches everything; `*` stands for any bytes.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    /// The principal.
    pub principal: Option<String>,
    /// The topic, file or namespace of the event.
    pub topic: Option<String>,
    /// The event's key. An event without key matches no pattern.
    pub key: Option<String>,
}

/// One rule.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Admits matching events.
    Allow(Match),
    /// Denies matching events.
    Deny(Match),
}

/// The decision about events that match no rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// The events are admitted.
    Allow,
    /// The events are denied.
    #[default]
    Deny,
}

/// A decision about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The event is admitted.
    Admit,
    /// The event is denied for this reason.
    Deny(String),
    /// No decision is possible for this reason.
    Undecidable(String),
}

/// A policy of rules.
#[derive(Clone, Debug)]
pub struct Policy {
    principal: Principal,
    rules: Vec<Rule>,
    otherwise: Otherwise,
}

impl Policy {
    /// A policy. The first matching rule decides.
    pub const fn new(principal: Principal, rules: Vec<Rule>, otherwise: Otherwise) -> Self {
        Self { principal, rules, otherwise }
    }

    /// The header that holds the principal, if any.
    pub(super) fn principal_header(&self) -> Option<&str> {
        match &self.principal {
            Principal::Header(header) => Some(header),
            Principal::Nobody | Principal::Fixed(_) => None,
        }
    }

    /// Decides about an event of a batch.
    pub fn decide(&self, batch: &Batch, event: &Event) -> Decision {
        let principal = match &self.principal {
            Principal::Nobody => &b""[..],
            Principal::Fixed(name) => name.as_bytes(),
            Principal::Header(header) => match batch.headers(event).get(header) {
                Some(Some(name)) => name,
                Some(None) | None => {
                    return Decision::Undecidable(format!(
                        "the header `{header}`, which names the principal, is missing"
                    ));
                }
            },
        };
        let topic = batch.partition().topic.as_bytes();
        let key = batch.key(event);
        for (number, rule) in self.rules.iter().enumerate() {
            let (Rule::Allow(pattern) | Rule::Deny(pattern)) = rule;
            if pattern.matches(principal, topic, key) {
                return match rule {
                    Rule::Allow(_) => Decision::Admit,
                    Rule::Deny(_) => Decision::Deny(format!("rule {} denies it", number + 1)),
                };
            }
        }
        match self.otherwise {
            Otherwise::Allow => Decision::Admit,
            Otherwise::Deny => Decision::Deny("no rule allows it".into()),
        }
    }
}

impl Match {
    fn matches(&self, principal: &[u8], topic: &[u8], key: Option<&[u8]>) -> bool {
        let is = |pattern: &Option<String>, text: Option<&[u8]>| match (pattern, text) {
            (None, _) => true,
            (Some(pattern), Some(text)) => glob(pattern.as_bytes(), text),
            (Some(_), None) => false,
        };
        is(&self.principal, Some(principal)) && is(&self.topic, Some(topic)) && is(&self.key, key)
    }
}

/// Whether `text` matches `pattern`. The time is at most proportional to the product of their lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    // The place after the last star in the pattern, and the end of the bytes in the text that the star stands
    // for.
    let mut star = None;
    while of < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, of));
            at += 1;
        } else if pattern.get(at) == Some(&text[of]) {
            (at, of) = (at + 1, of + 1);
        } else if let Some((behind, taken)) = star {
            star = Some((behind, taken + 1));
            (at, of) = (behind, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Record;
    use crate::position::Partition;

    fn decide(policy: &Policy, principal: Option<&str>, key: Option<&str>) -> Decision {
        let mut batch = Batch::new(Partition::new("orders", 0));
        let record = Record { key: key.map(str::as_bytes), ..Record::default() };
        batch.push_with(record, principal.map(|name| ("who", Some(name.as_bytes()))));
        policy.decide(&batch, &batch.events()[0])
    }

    fn pattern(principal: &str, topic: &str, key: Option<&str>) -> Match {
        Match { principal: Some(principal.into()), topic: Some(topic.into()), key: key.map(str::to_owned) }
    }

    #[test]
    fn the_first_matching_rule_decides_and_other_events_are_denied() {
        let rules = vec![
            Rule::Deny(pattern("svc-bad", "*", None)),
            Rule::Allow(pattern("svc-*", "orders", Some("eu-*"))),
            Rule::Allow(pattern("root", "*", None)),
        ];
        let policy = Policy::new(Principal::Header("who".into()), rules, Otherwise::Deny);
        let admitted = |principal, key| decide(&policy, Some(principal), key) == Decision::Admit;
        assert!(admitted("svc-a", Some("eu-1")));
        assert!(!admitted("svc-a", Some("us-1")));
        assert!(!admitted("svc-a", None));
        assert!(!admitted("svc-bad", Some("eu-1")));
        assert!(admitted("root", None));
        assert!(!admitted("other", Some("eu-1")));
        assert!(matches!(decide(&policy, None, Some("eu-1")), Decision::Undecidable(_)));
    }

    #[test]
    fn an_identity_of_the_connection_needs_no_header() {
        let rules = vec![Rule::Allow(pattern("CN=app", "orders", None))];
        let policy = Policy::new(Principal::Fixed("CN=app".into()), rules, Otherwise::Deny);
        assert_eq!(decide(&policy, None, None), Decision::Admit);
    }

    #[test]
    fn a_star_matches_any_bytes() {
        let cases = [
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a*b*c", "aXbYbZc", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
            ("", "a", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("**", "x", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
