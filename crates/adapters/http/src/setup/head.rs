//! Encodes the constant parts of a request's head, with placeholders for the rest.

use std::collections::BTreeMap;

use super::pattern::{self, Part};
use super::{Body, Error, Url};
use crate::scenario::{Auth, Method, Request, Section};

/// Headers that the client sets, or that would change the framing of messages.
const RESERVED: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a request carries a token that the service issues at run time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    None,
    Issued,
}

impl Token {
    pub(super) fn of(section: &Section) -> Self {
        if matches!(section.auth, Auth::Login { .. }) { Self::Issued } else { Self::None }
    }
}

/// A head in pieces.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub pieces: Vec<Piece>,
}

/// A piece of a head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Constant bytes.
    Bytes(Vec<u8>),
    /// A field, percent-encoded.
    Url(usize),
    /// A field, unencoded.
    Header(usize),
    /// The token that the service issued.
    Token,
    /// The body's length.
    Length,
    /// The path and the query that the workload generates for each request.
    Path,
}

/// The inputs of a head.
pub(super) struct Parts<'a> {
    pub place: &'a str,
    pub url: &'a Url,
    pub request: &'a Request,
    /// Headers of every request.
    pub common: &'a BTreeMap<String, String>,
    /// The fields for the placeholders.
    pub fields: &'a [String],
    pub body: &'a Body,
    pub authorization: Option<&'a str>,
    pub token: Token,
    /// Whether a workload gives the path and the query.
    pub has_path: bool,
}

/// Encodes a head.
pub(super) fn compile(parts: Parts<'_>) -> Result<Head, Error> {
    let mut head = Head::default();
    head.raw(parts.request.method.name());
    head.raw(" ");
    head.raw(&parts.url.path);
    parts.path(&mut head)?;
    head.raw(" HTTP/1.1\r\n");
    let headers = parts.headers()?;
    if !headers.contains_key("host") {
        head.line("host", &parts.url.host_header());
    }
    for (name, (place, value)) in &headers {
        parts.header(&mut head, name, place, value)?;
    }
    parts.authorization(&mut head, &headers)?;
    parts.content(&mut head, &headers);
    head.raw("\r\n");
    Ok(head)
}

impl Head {
    fn raw(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Bytes(bytes)) => bytes.extend_from_slice(text.as_bytes()),
            _ => self.pieces.push(Piece::Bytes(text.as_bytes().to_vec())),
        }
    }

    fn line(&mut self, name: &str, value: &str) {
        [name, ": ", value, "\r\n"].into_iter().for_each(|text| self.raw(text));
    }
}

/// Headers by their names in lower case, with the place where each was typed.
type Headers<'a> = BTreeMap<String, (String, &'a str)>;

impl<'a> Parts<'a> {
    fn path(&self, head: &mut Head) -> Result<(), Error> {
        if self.has_path {
            head.pieces.push(Piece::Path);
            return Ok(());
        }
        let path = &self.request.path;
        let place = format!("{}.{}", self.place, self.request.method.name().to_lowercase());
        let refuse = |problem| Error::Path { place: place.clone(), path: path.clone(), problem };
        if !path.starts_with('/') {
            return Err(refuse(
                "does not begin with /; write the path from the URL on, for example /orders/{id}",
            ));
        }
        let parts = pattern::parse(path)
            .ok_or_else(|| refuse("has an unmatched brace; write {name}, or {{ for a brace"))?;
        for part in parts {
            match part {
                Part::Name(name) => head.pieces.push(Piece::Url(self.field(&place, &name)?)),
                Part::Text(text) if text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') => {
                    head.raw(&text)
                }
                Part::Text(_) => {
                    return Err(refuse(
                        "has an invalid character; percent-encode it, such as %20 for a space",
                    ));
                }
            }
        }
        Ok(())
    }

    fn field(&self, place: &str, name: &str) -> Result<usize, Error> {
        let known = self.fields.iter().position(|field| field == name);
        known.ok_or_else(|| Error::Placeholder {
            place: place.to_owned(),
            name: name.to_owned(),
            remedy: match self.fields {
                [] => {
                    format!("define it under `with`: {{{name}: {{$family: {{prefix: a-, count: 100}}}}}}")
                }
                fields => format!(
                    "`with` has {}",
                    fields.iter().map(|field| format!("{{{field}}}")).collect::<Vec<_>>().join(", ")
                ),
            },
        })
    }

    /// The common headers, overridden by those of this request.
    fn headers(&self) -> Result<Headers<'a>, Error> {
        let mut headers = Headers::new();
        let own = format!("{}.headers", self.place);
        for (place, list) in [("http.headers", self.common), (own.as_str(), &self.request.headers)] {
            for (name, value) in list {
                let refuse = |problem| Error::Header { place: place.to_owned(), name: name.clone(), problem };
                let lower = name.to_ascii_lowercase();
                if RESERVED.contains(&lower.as_str()) {
                    return Err(refuse("is set by the client; leave it out"));
                }
                if !is_name(name) {
                    return Err(refuse("is not a header name; write letters, digits and hyphens"));
                }
                headers.insert(lower, (place.to_owned(), value.as_str()));
            }
        }
        Ok(headers)
    }

    fn header(&self, head: &mut Head, name: &str, place: &str, value: &str) -> Result<(), Error> {
        let refuse = |problem| Error::Header { place: place.to_owned(), name: name.to_owned(), problem };
        if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(refuse("holds a line break or another control character; leave it out"));
        }
        let parts = pattern::parse(value)
            .ok_or_else(|| refuse("has an unmatched brace; write {name}, or {{ for a brace"))?;
        head.raw(name);
        head.raw(": ");
        for part in parts {
            match part {
                Part::Name(field) => head.pieces.push(Piece::Header(self.field(place, &field)?)),
                Part::Text(text) => head.raw(&text),
            }
        }
        head.raw("\r\n");
        Ok(())
    }

    fn authorization(&self, head: &mut Head, headers: &Headers<'_>) -> Result<(), Error> {
        let is_ours = self.authorization.is_some() || self.token == Token::Issued;
        if let Some((place, _)) = headers.get("authorization").filter(|_| is_ours) {
            let problem = "is set by `http.auth`; keep one of them";
            return Err(Error::Header { place: place.clone(), name: "authorization".into(), problem });
        }
        if let Some(value) = self.authorization {
            head.line("authorization", value);
        } else if self.token == Token::Issued {
            head.raw("authorization: Bearer ");
            head.pieces.push(Piece::Token);
            head.raw("\r\n");
        }
        Ok(())
    }

    fn content(&self, head: &mut Head, headers: &Headers<'_>) {
        if let Some(kind) = self.body.content_type().filter(|_| !headers.contains_key("content-type")) {
            head.line("content-type", kind);
        }
        let sends = matches!(self.request.method, Method::Post | Method::Put | Method::Patch);
        if sends || self.body.content_type().is_some() {
            head.raw("content-length: ");
            head.pieces.push(Piece::Length);
            head.raw("\r\n");
        }
    }
}

/// Whether a header's name is a token of RFC 9110, section 5.6.2.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(yaml: &str, fields: &[&str], token: Token, body: &Body) -> String {
        let request: Request = serde_saphyr::from_str(yaml).unwrap();
        let url = "http://h:81/v1".parse().unwrap();
        let common = BTreeMap::from([("X-A".to_owned(), "1".to_owned())]);
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        let parts = Parts {
            place: "op",
            url: &url,
            request: &request,
            common: &common,
            fields: &fields,
            body,
            authorization: None,
            token,
            has_path: false,
        };
        let piece = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            other => format!("<{other:?}>"),
        };
        compile(parts).unwrap().pieces.iter().map(piece).collect()
    }

    #[test]
    fn a_head_is_bytes_and_placeholders() {
        assert_eq!(
            shown(
                "get: /a/{id}?q={q}\nheaders: {x-a: '2', If-Match: '\"{q}\"'}",
                &["q", "id"],
                Token::None,
                &Body::None
            ),
            "GET /v1/a/<Url(1)>?q=<Url(0)> HTTP/1.1\r\nhost: h:81\r\nif-match: \"<Header(0)>\"\r\nx-a: 2\r\n\r\n"
        );
        assert_eq!(
            shown("post: /a\nheaders: {Host: other}", &[], Token::Issued, &Body::Text(b"x".to_vec())),
            "POST /v1/a HTTP/1.1\r\nhost: other\r\nx-a: 1\r\nauthorization: Bearer <Token>\r\n\
             content-type: text/plain; charset=utf-8\r\ncontent-length: <Length>\r\n\r\n"
        );
    }
}
