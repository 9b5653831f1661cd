//! Parses the bytes of an HTTP answer.

use httparse::{EMPTY_HEADER, Header, Response, Status};

/// The maximum number of headers in an answer.
const HEADERS_MAX: usize = 100;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// Whether the server says that the body is JSON.
    pub is_json: bool,
    /// The coding of the body, such as `gzip`. `None` without one.
    pub coding: Option<String>,
}

/// The answer in the bytes so far. `None` if more must come. `is_end`: the server has closed the connection.
///
/// # Errors
///
/// If the bytes are no answer.
pub(super) fn parse(bytes: &[u8], is_end: bool) -> Result<Option<Answer>, String> {
    with_head(bytes, |status, headers, rest| {
        let coding = listed(headers, "content-encoding");
        let coding = coding.filter(|coding| !coding.eq_ignore_ascii_case("identity"));
        let is_json = values(headers, "content-type").any(is_json);
        let body = if matches!(status, 204 | 304) {
            Some(Vec::new())
        } else if let Some(coding) = listed(headers, "transfer-encoding") {
            if !coding.eq_ignore_ascii_case("chunked") {
                return Err(format!(
                    "the answer has the transfer coding `{coding}`, and only `chunked` is known"
                ));
            }
            chunked(rest)?
        } else if let Some(length) = length(values(headers, "content-length"))? {
            rest.get(..length).map(<[u8]>::to_vec)
        } else {
            is_end.then(|| rest.to_vec())
        };
        Ok(body.map(|body| Answer { status, body, is_json, coding }))
    })
}

/// The status of the answer in the bytes so far. `None` if more of its head must come.
///
/// # Errors
///
/// If the bytes are no answer.
pub(super) fn status(bytes: &[u8]) -> Result<Option<u16>, String> {
    with_head(bytes, |status, _, _| Ok(Some(status)))
}

/// Reads from the status, the headers and the later bytes of the answer; interim answers are skipped. `None` if more of the head must come.
fn with_head<T>(
    mut bytes: &[u8],
    read: impl FnOnce(u16, &[Header<'_>], &[u8]) -> Result<Option<T>, String>,
) -> Result<Option<T>, String> {
    loop {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut response = Response::new(&mut headers);
        let parsed = response.parse(bytes).map_err(|error| format!("the answer is no HTTP: {error}"))?;
        let Status::Complete(head) = parsed else { return Ok(None) };
        let (status, rest) = (response.code.unwrap_or_default(), &bytes[head..]);
        if !(100..200).contains(&status) {
            return read(status, response.headers, rest);
        }
        bytes = rest;
    }
}

/// The values of a header.
fn values<'a>(headers: &'a [Header<'a>], name: &'static str) -> impl Iterator<Item = &'a str> {
    let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.filter_map(|header| std::str::from_utf8(header.value).ok()).map(str::trim)
}

/// The values of all headers with a name, as one list. `None` without one.
fn listed(headers: &[Header<'_>], name: &'static str) -> Option<String> {
    let all: Vec<_> = values(headers, name).filter(|value| !value.is_empty()).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The length that an answer states. `None` without one. Two different lengths are an error.
fn length<'a>(mut values: impl Iterator<Item = &'a str>) -> Result<Option<usize>, String> {
    let Some(first) = values.next() else { return Ok(None) };
    let parsed = first.parse().ok().filter(|_| first.bytes().all(|byte| byte.is_ascii_digit()));
    let length = parsed.filter(|_| values.all(|other| other == first));
    length.map(Some).ok_or_else(|| "the answer has an invalid length".to_owned())
}

/// Whether a content type is JSON: `application/json`, or one that ends in `+json`.
fn is_json(content_type: &str) -> bool {
    let name = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    name == "application/json" || name.ends_with("+json")
}

/// The joined chunks. `None` if more must come.
fn chunked(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut body = Vec::new();
    loop {
        let size =
            httparse::parse_chunk_size(bytes).map_err(|_| "the answer has an invalid chunk".to_owned())?;
        let Status::Complete((head, length)) = size else { return Ok(None) };
        if length == 0 {
            return Ok(Some(body));
        }
        let end = usize::try_from(length).ok().and_then(|length| head.checked_add(length));
        let end = end.ok_or("the answer has a chunk without end")?;
        let Some(chunk) = bytes.get(head..end) else { return Ok(None) };
        body.extend_from_slice(chunk);
        let Some(rest) = bytes.get(end..).filter(|rest| rest.len() >= 2) else { return Ok(None) };
        bytes = rest.strip_prefix(b"\r\n").ok_or("the answer has an invalid chunk")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, status: u16, body: &str) {
        let answer = parse(text.as_bytes(), true).unwrap().unwrap();
        assert_eq!((answer.status, String::from_utf8(answer.body).unwrap().as_str()), (status, body));
        // A shorter part waits for more bytes, except near the end. No part causes a panic.
        for end in 0..text.len() {
            let part = parse(&text.as_bytes()[..end], false);
            assert!(matches!(part, Ok(None)) || end > text.len() - 4, "{end}: {part:?}");
        }
    }

    #[test]
    fn an_answer_of_any_framing_is_parsed_and_a_part_of_it_waits() {
        check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", 200, "ok");
        check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx", 404, "x");
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1;x=y\r\n!\r\n0\r\n\r\n",
            200,
            "ok!",
        );
        check("HTTP/1.1 204 No Content\r\n\r\n", 204, "");
        check("HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end");
    }

    #[test]
    fn bytes_that_are_no_answer_are_refused() {
        for text in [
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 1\r\n\r\nok",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ] {
            assert!(parse(text.as_bytes(), true).is_err(), "{text}");
        }
        let chunk = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nx";
        assert!(!matches!(parse(chunk.as_bytes(), true), Ok(Some(_))));
    }
}
