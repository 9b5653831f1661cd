//! Checks the claims of an ID token (OpenID Connect Core, section 3.1.3.7), and makes a user of them.

use serde_json::{Map, Value};

use super::section::Section;
use crate::access::{Strategy, User};
use crate::accounts;

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

/// The accepted difference of clocks, in seconds.
const LEEWAY_S: f64 = 60.0;
/// The longest subject and the longest group, in bytes.
const SUBJECT_BYTES_MAX: usize = 255;
const GROUP_BYTES_MAX: usize = 200;

/// Checks the claims of a token that was verified. `nonce` is that of the login; `None` if another client has logged the user in.
///
/// # Errors
/// The wrong claim.
pub(super) fn check(
    claims: &Claims,
    section: &Section,
    nonce: Option<&str>,
    now_ms: i64,
) -> Result<(), String> {
    let now_s = now_ms as f64 / 1e3;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let time = |name: &str| claims.get(name).and_then(Value::as_f64);
    let client = Some(section.client_id.as_str());
    let audience = match claims.get("aud") {
        Some(Value::Array(all)) => {
            all.iter().any(|one| one.as_str() == client) && (all.len() == 1 || text("azp") == client)
        }
        one => one.and_then(Value::as_str) == client,
    };
    for (name, is_right) in [
        ("iss", text("iss") == Some(&section.issuer)),
        ("aud", audience),
        ("azp", text("azp").is_none() || text("azp") == client),
        ("exp", time("exp").is_some_and(|exp| exp + LEEWAY_S > now_s)),
        ("iat", time("iat").is_some_and(|iat| iat - LEEWAY_S <= now_s)),
        ("nbf", time("nbf").is_none_or(|nbf| nbf - LEEWAY_S <= now_s)),
        ("nonce", nonce.is_none() || text("nonce") == nonce),
        ("sub", text("sub").is_some_and(|sub| (1..=SUBJECT_BYTES_MAX).contains(&sub.len()))),
    ] {
        if !is_right {
            return Err(format!("the claim `{name}` of the ID token is wrong or missing"));
        }
    }
    Ok(())
}

/// The user of checked claims. An address that the issuer has not verified counts as none, because it gives access to shared datasets.
///
/// # Errors
/// The groups do not fit into a token.
pub(super) fn user(claims: &Claims, section: &Section) -> Result<User, String> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let subject = text("sub").unwrap_or_default();
    // Some issuers send this claim as a text, and some never.
    let is_verified = claims.get("email_verified").is_some_and(|claim| claim == true || claim == "true");
    let email = text("email").filter(|_| is_verified).unwrap_or_default();
    let username =
        text(&section.username_claim).or(Some(email).filter(|email| !email.is_empty())).unwrap_or(subject);
    let user = User {
        id: accounts::id(&format!("{}\n{subject}", section.issuer)),
        username: username.to_owned(),
        email: email.to_owned(),
        groups: groups(claims, &section.groups_claim),
        strategy: Strategy::Oidc,
    };
    accounts::fits(&user).map(|()| user)
}

/// A claim by its name, or by the names of the objects that lead to it.
pub(super) fn find<'a>(claims: &'a Claims, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        find(claims.get(first)?.as_object()?, rest)
    })
}

/// The groups: a list, or one text.
fn groups(claims: &Claims, name: &str) -> Vec<String> {
    let all: Vec<&str> = match find(claims, name) {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        one => one.and_then(Value::as_str).into_iter().collect(),
    };
    let is_group =
        |group: &&str| (1..=GROUP_BYTES_MAX).contains(&group.len()) && !group.contains(char::is_control);
    all.into_iter().filter(is_group).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn section() -> Section {
        serde_json::from_value(json!({
            "issuer": "https://i", "client_id": "c", "callback": "https://c/cb", "groups_claim": "realm.roles",
        }))
        .unwrap()
    }

    fn claims() -> Value {
        json!({"iss": "https://i", "aud": "c", "exp": 100, "iat": 50, "nonce": "n", "sub": "s"})
    }

    fn with(name: &str, value: Value) -> Claims {
        let mut claims = claims();
        claims[name] = value;
        claims.as_object().unwrap().clone()
    }

    #[test]
    fn each_claim_must_be_right() {
        let check = |claims: &Claims, now_ms| check(claims, &section(), Some("n"), now_ms).is_ok();
        let right = claims().as_object().unwrap().clone();
        assert!(
            check(&right, 60_000)
                && check(&right, 159_000)
                && !check(&right, 160_000)
                && !check(&right, -11_000)
        );
        assert!(check(&with("aud", json!(["c"])), 60_000));
        let mut several = with("aud", json!(["c", "d"]));
        assert!(!check(&several, 60_000));
        several.insert("azp".into(), "c".into());
        assert!(check(&several, 60_000));
        for (name, value) in [
            ("iss", json!("https://i/")),
            ("aud", json!("d")),
            ("aud", json!(["d"])),
            ("azp", json!("d")),
            ("exp", json!("100")),
            ("iat", Value::Null),
            ("nbf", json!(500)),
            ("nonce", json!("m")),
            ("nonce", Value::Null),
            ("sub", json!("")),
            ("sub", json!("s".repeat(300))),
        ] {
            assert!(!check(&with(name, value.clone()), 60_000), "{name} {value}");
        }
    }

    #[test]
    fn a_user_has_the_groups_of_the_claim_and_a_verified_address() {
        let of = |more: Value| {
            let mut claims = claims().as_object().unwrap().clone();
            claims.extend(more.as_object().unwrap().clone());
            user(&claims, &section())
        };
        let ann = of(json!({
            "preferred_username": "ann", "email": "a@x", "email_verified": "true", "realm": {"roles": ["g1", "", 5, "g\n2", "g3"]}, "groups": ["admin"],
        }));
        let ann = ann.unwrap();
        assert_eq!((ann.username.as_str(), ann.email.as_str(), ann.id.len()), ("ann", "a@x", 24));
        assert_eq!(ann.groups, ["g1", "g3"]);
        for unverified in [json!(false), json!("false"), json!(null)] {
            let bob = of(json!({"email": "b@x", "email_verified": unverified, "realm.roles": "g"})).unwrap();
            let expected = ("s", "", vec!["g".to_owned()]);
            assert_eq!((bob.username.as_str(), bob.email.as_str(), bob.groups), expected);
        }
        let eve = of(json!({"email": "e@x", "email_verified": true})).unwrap();
        assert_eq!((eve.username.as_str(), eve.email.as_str()), ("e@x", "e@x"));
        assert_eq!(of(json!({})).unwrap().username, "s");
        let many: Vec<String> = (0..2_000).map(|n| format!("group-{n:06}")).collect();
        assert!(of(json!({"realm": {"roles": many}})).is_err());
    }
}
