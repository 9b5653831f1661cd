//! Builds the `authorization` header.

use base64::engine::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Error;
use crate::scenario::{Auth, Secret};

/// The value of the `authorization` header, if it is known before the run.
pub(super) fn authorization(auth: &Auth) -> Result<Option<String>, Error> {
    match auth {
        Auth::None | Auth::Login { .. } => Ok(None),
        Auth::Basic { user, .. } if user.contains(':') => {
            Err(Error::Auth("basic.user: a user name must not contain a colon; use bearer or login"))
        }
        Auth::Basic { user, password } => {
            let pair = format!("{user}:{}", read(password)?);
            Ok(Some(format!("Basic {}", STANDARD.encode(pair))))
        }
        Auth::Bearer { token } => {
            let token = read(token)?;
            if !is_token(token.as_bytes()) {
                return Err(Error::Auth(
                    "bearer.token: a token has visible characters only; leave out spaces and quotes",
                ));
            }
            Ok(Some(format!("Bearer {token}")))
        }
    }
}

/// Whether the bytes are valid as a token in a header.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic)
}

fn read(secret: &Secret) -> Result<String, Error> {
    match secret {
        Secret::Text(text) => Ok(text.clone()),
        Secret::Variable(variable) => {
            std::env::var(&variable.env).map_err(|_| Error::Secret(variable.env.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Variable;

    #[test]
    fn a_password_or_a_token_makes_a_header() {
        let basic = Auth::Basic { user: "Aladdin".into(), password: Secret::Text("open sesame".into()) };
        // The example in RFC 7617, section 2.
        assert_eq!(authorization(&basic).unwrap().unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let bearer = Auth::Bearer { token: Secret::Text("abc".into()) };
        assert_eq!(authorization(&bearer).unwrap().unwrap(), "Bearer abc");
        assert_eq!(authorization(&Auth::None).unwrap(), None);
    }

    #[test]
    fn a_secret_is_read_from_its_variable_and_a_token_must_fit_a_header() {
        let secret = Secret::Variable(Variable { env: "PATH".into() });
        assert_eq!(read(&secret).unwrap(), std::env::var("PATH").unwrap());
        let torn = Auth::Bearer { token: Secret::Text("a\r\nb".into()) };
        assert!(authorization(&torn).unwrap_err().to_string().contains("bearer.token"));
    }
}
