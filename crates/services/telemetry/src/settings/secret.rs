//! Connection strings without what is secret in them, for everything that is shown: what holds a password is never logged.

/// What stands in place of a secret.
const HIDDEN: &str = "***";
/// The options of a connection string whose values are secret, in lower case.
const SECRET_OPTIONS: [&str; 4] = [
    "authmechanismproperties",
    "proxypassword",
    "sslclientcertificatekeypassword",
    "tlscertificatekeyfilepassword",
];

/// The connection string with `***` for its password and for the values of options that are secret. Of one that is not
/// written as it should be rather too much is hidden than too little.
pub fn hidden(uri: &str) -> String {
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

/// A message in which each connection string is [`hidden`].
pub(super) fn scrubbed(message: &str) -> String {
    let quote = |c: char| c.is_whitespace() || "\"'`".contains(c);
    let word = |word: &str| if word.contains("://") { hidden(word) } else { word.to_owned() };
    message.split_inclusive(quote).map(word).collect()
}

/// Whether a part of the password would be taken for something else, and told when it is none.
pub(super) fn is_misread(uri: &str) -> bool {
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    at(rest).is_some_and(|at| rest[..at].contains('?'))
}

/// Where the user and the password end. A password with a `?` that is not encoded reaches beyond the first one.
fn at(rest: &str) -> Option<usize> {
    let before_options = rest.split('?').next().unwrap_or_default();
    before_options.rfind('@').or_else(|| rest.rfind('@').filter(|_| before_options.contains(':')))
}

fn user(info: &str) -> String {
    match info.split_once(':') {
        Some((name, _)) => format!("{name}:{HIDDEN}@"),
        None => format!("{info}@"),
    }
}

fn options_of(options: &str) -> String {
    let option = |option: &str| match option.split_once('=') {
        Some((name, _)) if SECRET_OPTIONS.contains(&name.to_ascii_lowercase().as_str()) => {
            format!("{name}={HIDDEN}")
        }
        _ => option.to_owned(),
    };
    options.split('&').map(option).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_hidden_and_the_rest_is_not() {
        for (uri, expected) in [
            ("mongodb://localhost:27017", "mongodb://localhost:27017"),
            ("mongodb://h1:1,h2:2/?replicaSet=rs0", "mongodb://h1:1,h2:2/?replicaSet=rs0"),
            ("mongodb://ann:secret@h:1/db?w=1", "mongodb://ann:***@h:1/db?w=1"),
            ("mongodb+srv://ann:secret@h/", "mongodb+srv://ann:***@h/"),
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
            assert_eq!(hidden(uri), expected);
        }
    }

    #[test]
    fn a_message_is_told_without_what_is_secret_in_it() {
        let said = scrubbed("no map: \"mongodb://ann:secret@h/\", said `mongodb://b:secret@h`\nat line 1");
        assert_eq!(said, "no map: \"mongodb://ann:***@h/\", said `mongodb://b:***@h`\nat line 1");
    }

    #[test]
    fn a_password_that_is_not_encoded_is_hidden_as_well() {
        for uri in [
            "mongodb://ann:sec@ret@h/",
            "mongodb://ann:sec/ret@h/",
            "mongodb://ann:sec?ret@h/?w=1",
            "mongodb://:secret@h",
        ] {
            let shown = hidden(uri);
            assert!(!shown.contains("sec") && !shown.contains("ret"), "{shown}");
        }
    }
}
