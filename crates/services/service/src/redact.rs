//! Redacts passwords in connection strings and messages before they are shown or logged.

/// The text that replaces a secret.
const MASK: &str = "***";
/// Options of a connection string with secret values, in lower case.
const SECRET_OPTIONS: [&str; 6] = [
    "authmechanismproperties",
    "password",
    "proxypassword",
    "sslclientcertificatekeypassword",
    "sslpassword",
    "tlscertificatekeyfilepassword",
];

/// Replaces the password and the values of secret options in a connection string with `***`. In a malformed string, too much is
/// redacted.
pub fn uri(uri: &str) -> String {
    let (scheme, rest) = uri.split_once("://").map_or(("", uri), |(scheme, rest)| (scheme, rest));
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    let (user, rest) = match at(rest) {
        Some(at) => (user(&rest[..at]), &rest[at + 1..]),
        None => (String::new(), rest),
    };
    let rest = match rest.split_once('?') {
        Some((hosts, options)) => format!("{hosts}?{}", options_of(options)),
        None => rest.to_owned(),
    };
    format!("{scheme}{user}{rest}")
}

/// The message with each connection string redacted as by [`uri`].
pub fn message(message: &str) -> String {
    let quote = |c: char| c.is_whitespace() || "\"'`".contains(c);
    let word = |word: &str| if word.contains("://") { uri(word) } else { word.to_owned() };
    message.split_inclusive(quote).map(word).collect()
}

/// Whether a parser would take a part of the password for a host or an option, and quote it in its error.
pub fn exposes_password(uri: &str) -> bool {
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    at(rest).is_some_and(|at| rest[..at].contains('?'))
}

/// The index of the `@` after the user and the password, if there is one. A password with an unencoded `?`
/// reaches beyond the first `?`.
fn at(rest: &str) -> Option<usize> {
    let before_options = rest.split('?').next().unwrap_or_default();
    before_options.rfind('@').or_else(|| rest.rfind('@').filter(|_| before_options.contains(':')))
}

fn user(info: &str) -> String {
    match info.split_once(':') {
        Some((name, _)) => format!("{name}:{MASK}@"),
        None => format!("{info}@"),
    }
}

fn options_of(options: &str) -> String {
    let option = |option: &str| match option.split_once('=') {
        Some((name, _)) if SECRET_OPTIONS.contains(&name.to_ascii_lowercase().as_str()) => {
            format!("{name}={MASK}")
        }
        _ => option.to_owned(),
    };
    options.split('&').map(option).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_secrets_are_redacted() {
        for (uri, expected) in [
            ("mongodb://localhost:27017", "mongodb://localhost:27017"),
            ("mongodb://h1:1,h2:2/?replicaSet=rs0", "mongodb://h1:1,h2:2/?replicaSet=rs0"),
            ("mongodb://ann:secret@h:1/db?w=1", "mongodb://ann:***@h:1/db?w=1"),
            ("mongodb+srv://ann:secret@h/", "mongodb+srv://ann:***@h/"),
            ("postgres://h/db?user=ann&password=secret", "postgres://h/db?user=ann&password=***"),
            ("mongodb://ann@h/?authMechanism=MONGODB-X509", "mongodb://ann@h/?authMechanism=MONGODB-X509"),
            (
                "mongodb://h/?tls=true&tlsCertificateKeyFilePassword=secret",
                "mongodb://h/?tls=true&tlsCertificateKeyFilePassword=***",
            ),
            ("mongodb://h/?PROXYPASSWORD=secret&w=1", "mongodb://h/?PROXYPASSWORD=***&w=1"),
            (
                "mongodb://a:b@h/?authMechanismProperties=AWS_SESSION_TOKEN:secret",
                "mongodb://a:***@h/?authMechanismProperties=***",
            ),
            ("ann:secret@h", "ann:***@h"),
        ] {
            assert_eq!(super::uri(uri), expected);
        }
    }

    #[test]
    fn a_message_loses_its_secrets() {
        let redacted = message("no map: \"mongodb://ann:secret@h/\", said `mongodb://b:secret@h`\nat line 1");
        assert_eq!(redacted, "no map: \"mongodb://ann:***@h/\", said `mongodb://b:***@h`\nat line 1");
    }

    #[test]
    fn an_unencoded_password_is_redacted_as_well() {
        for uri in [
            "mongodb://ann:sec@ret@h/",
            "mongodb://ann:sec/ret@h/",
            "mongodb://ann:sec?ret@h/?w=1",
            "mongodb://:secret@h",
        ] {
            let shown = super::uri(uri);
            assert!(!shown.contains("sec") && !shown.contains("ret"), "{shown}");
        }
    }
}
