//! Sends the request of an HTTP step on a new connection, and reads the answer within limits.

use std::time::Duration;

use plimsoll_net::{Destination, Stream, Tls, connect};
use plimsoll_workflow::definition::{Method, header_form_fault};
use plimsoll_workflow::program::Url;
use plimsoll_workflow::step::{Again, Call, CallError};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::answer::{Answer, parse, status};
use super::failure;

/// The maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The maximum number of characters of a refusal that its error repeats.
const REFUSAL_CHARS_MAX: usize = 200;
/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// The request of one attempt.
pub(super) struct Request<'a> {
    pub method: Method,
    pub url: &'a str,
    pub headers: &'a [(String, String)],
    pub call: &'a Call,
}

/// Makes one attempt. The caller limits its time.
pub(super) async fn call(request: &Request<'_>, hosts: &[String], tls: &Tls) -> Result<Value, CallError> {
    let url = Url::of(request.url).map_err(|words| failure(Again::Never, words))?;
    if !url.is_in(hosts) {
        let words =
            format!("the host {} is not allowed: add it to `calls.hosts` of the settings", url.authority);
        return Err(failure(Again::Never, words));
    }
    let bytes = head_and_body(request, &url).map_err(|words| failure(Again::Never, words))?;
    let answer = exchange(&url, tls, &bytes, request.call).await;
    judge(answer.map_err(|words| failure(Again::Maybe, words))?, request.call.keeps_result)
}

async fn exchange(url: &Url<'_>, tls: &Tls, request: &[u8], call: &Call) -> Result<Answer, String> {
    let destination = Destination { host: url.host, port: url.port, address: None, proxy: None };
    let tls = url.is_secure.then_some(tls);
    let stream = connect(destination, tls, Duration::from_millis(call.timeout_ms)).await;
    let mut stream = stream.map_err(|error| error.to_string())?;
    let sent = async {
        stream.write_all(request).await?;
        stream.flush().await
    };
    sent.await.map_err(|error| error.to_string())?;
    receive(&mut stream, call.keeps_result).await
}

/// Reads an answer. If the step drops the result, the head of a success is enough: its body may be too large or unreadable, and the service
/// has done its work.
async fn receive(stream: &mut Stream, keeps_result: bool) -> Result<Answer, String> {
    let mut bytes = Vec::new();
    let mut room = [0; READ_BYTES];
    loop {
        let count = stream.read(&mut room).await.map_err(|error| error.to_string())?;
        bytes.extend_from_slice(&room[..count]);
        if !keeps_result && let Some(status @ 200..300) = status(&bytes)? {
            return Ok(Answer { status, body: Vec::new(), is_json: false, coding: None });
        }
        if let Some(answer) = parse(&bytes, count == 0)? {
            return Ok(answer);
        }
        if count == 0 {
            return Err("the connection ended in the answer".into());
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(format!("the answer has more than {ANSWER_BYTES_MAX} bytes"));
        }
    }
}

/// The bytes of a request. A connection serves one request.
fn head_and_body(request: &Request<'_>, url: &Url<'_>) -> Result<Vec<u8>, String> {
    let body = match request.method {
        Method::Get => Vec::new(),
        _ => request.call.input.to_string().into_bytes(),
    };
    let slash = if url.target.starts_with('/') { "" } else { "/" };
    let mut head = format!(
        "{} {slash}{} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nidempotency-key: {}\r\n",
        name(request.method),
        url.target,
        url.authority,
        header(&request.call.key)
    );
    if request.method != Method::Get {
        head += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    for (name, value) in request.headers {
        if let Some(words) = header_form_fault(name, value) {
            return Err(words);
        }
        head += &format!("{name}: {value}\r\n");
    }
    Ok([head.as_bytes(), b"\r\n", &body].concat())
}

/// A text as a header may hold it: other bytes are percent-encoded.
fn header(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

const fn name(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Patch => "PATCH",
        Method::Delete => "DELETE",
    }
}

/// The text of an answer.
///
/// # Errors
///
/// If the body is coded, or no UTF-8.
fn text(answer: &Answer) -> Result<String, String> {
    if let Some(coding) = answer.coding.as_ref().filter(|_| !answer.body.is_empty()) {
        return Err(format!("the answer has the coding `{coding}`: let the service answer without one"));
    }
    let text = String::from_utf8(answer.body.clone());
    text.map_err(|_| "the answer is no UTF-8: let the service answer JSON or UTF-8 text".to_owned())
}

/// The result of an answer. An answer that the step drops has none, so its content does not matter.
fn judge(answer: Answer, keeps_result: bool) -> Result<Value, CallError> {
    match answer.status {
        200..300 if keeps_result => result(&answer),
        200..300 => Ok(Value::Null),
        status => {
            let again = if matches!(status, 408 | 429 | 500..600) { Again::Maybe } else { Again::Never };
            // A refusal stays a refusal, even if its text is unreadable.
            let start: String = text(&answer).unwrap_or_default().chars().take(REFUSAL_CHARS_MAX).collect();
            Err(failure(again, format!("the service answered {status}: {start}")))
        }
    }
}

/// The content of a successful answer: JSON, or a text if the body is not JSON.
fn result(answer: &Answer) -> Result<Value, CallError> {
    let text = text(answer).map_err(|words| failure(Again::Unusable, words))?;
    if text.is_empty() {
        return Ok(Value::Null);
    }
    match serde_json::from_str(&text) {
        Ok(value) => Ok(value),
        // Without a length, only the content shows whether the connection was cut.
        Err(error) if answer.is_json => {
            Err(failure(Again::Maybe, format!("the answer is cut, or it is no JSON: {error}")))
        }
        Err(_) => Ok(Value::String(text)),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_net::Trust;
    use plimsoll_workflow::program::Target;
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;

    fn call_of(url: &str) -> Call {
        let target = Target::Http { method: Method::Post, url: url.into(), headers: Vec::new() };
        let (instance, key) = ("ä b".to_owned(), "ä b/2".to_owned());
        let (input, timeout_ms) = (json!({"a": 1}), 5_000);
        Call { instance, visit: 2, attempt: 1, key, target, input, timeout_ms, keeps_result: true }
    }

    /// Answers one request with these bytes; returns the result of the call and the request.
    async fn answered(bytes: impl AsRef<[u8]> + Send + 'static) -> (Result<Value, CallError>, String) {
        answered_to(bytes, true).await
    }

    /// The same, for a step that keeps the result or drops it.
    async fn answered_to(
        bytes: impl AsRef<[u8]> + Send + 'static,
        keeps_result: bool,
    ) -> (Result<Value, CallError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"{\"a\":1}") {
                assert!(stream.read_buf(&mut request).await.unwrap() > 0);
            }
            // A client that drops the answer closes the connection before its end.
            stream.write_all(bytes.as_ref()).await.unwrap_or_default();
            String::from_utf8(request).unwrap()
        });
        let url = format!("http://{address}/x?y");
        let one = Call { keeps_result, ..call_of(&url) };
        let tls = Tls::new(&Trust::PublicRoots).unwrap();
        let headers = [("x-a".to_owned(), "b".to_owned())];
        let request = Request { method: Method::Post, url: &url, headers: &headers, call: &one };
        let made = call(&request, &["127.0.0.1".to_owned()], &tls).await;
        (made, serving.await.unwrap())
    }

    #[tokio::test]
    async fn a_call_sends_its_key_and_takes_the_json_of_the_answer() {
        let (made, request) = answered("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n{\"b\": 2}").await;
        assert_eq!(made, Ok(json!({"b": 2})));
        for part in ["POST /x?y HTTP/1.1\r\n", "idempotency-key: %C3%A4%20b/2\r\n", "x-a: b\r\n"] {
            assert!(request.contains(part), "{request}");
        }
    }

    #[tokio::test]
    async fn a_refusal_is_final_and_an_overload_or_a_broken_connection_is_not() {
        for (answer, again, part) in [
            ("HTTP/1.1 422 No\r\ncontent-length: 3\r\n\r\nbad", Again::Never, "422: bad"),
            ("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", Again::Maybe, "503"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", Again::Maybe, "ended in the answer"),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}",
                Again::Maybe,
                "ended in the answer",
            ),
            ("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"a\": [1,", Again::Maybe, "is cut"),
            ("HTTP/1.1 200 OK\r\ncontent-le", Again::Maybe, "ended in the answer"),
        ] {
            let error = answered(answer).await.0.unwrap_err();
            assert!(error.again == again && error.message.contains(part), "{error:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_coded_or_no_text_is_no_result() {
        let latin = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ncaf\xe9".as_slice();
        let coded = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}".as_slice();
        for (answer, part) in [(latin, "no UTF-8"), (coded, "the coding `gzip`")] {
            let error = answered(answer).await.0.unwrap_err();
            assert!(error.again == Again::Unusable && error.message.contains(part), "{error:?}");
            assert_eq!(
                answered_to(answer, false).await.0,
                Ok(Value::Null),
                "a dropped answer may be anything"
            );
        }
        let plain = "HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(answered(plain).await.0, Ok(json!({})));
        let busy = b"HTTP/1.1 503 No\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\n\xff".as_slice();
        assert_eq!(answered(busy).await.0.unwrap_err().again, Again::Maybe);
    }

    #[tokio::test]
    async fn the_head_of_a_success_is_enough_for_a_step_that_drops_the_answer() {
        let large = [b"HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n".to_vec(), vec![b'a'; 2_000_000]];
        let large = large.concat();
        let error = answered(large.clone()).await.0.unwrap_err();
        assert!(error.message.contains("more than 1048576 bytes"), "{error:?}");
        let coded =
            b"HTTP/1.1 201 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nxx\r\n0\r\n\r\n".to_vec();
        let interim = b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n".to_vec();
        for answer in [large, coded, interim] {
            assert_eq!(answered_to(answer, false).await.0, Ok(Value::Null));
        }
        for (answer, part) in [
            ("HTTP/1.1 103 Hints\r\n\r\n", "ended in the answer"),
            ("HTTP/1.1 200 OK\r\ncontent-le", "ended in the answer"),
            ("HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy", "503: busy"),
        ] {
            let error = answered_to(answer, false).await.0.unwrap_err();
            assert!(error.again == Again::Maybe && error.message.contains(part), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_host_that_is_not_listed_is_never_contacted() {
        let (one, tls) = (call_of("http://crm.invalid/x"), Tls::new(&Trust::PublicRoots).unwrap());
        let request = Request { method: Method::Post, url: "http://crm.invalid/x", headers: &[], call: &one };
        let error = call(&request, &[], &tls).await.unwrap_err();
        assert_eq!(error.again, Again::Never);
        assert!(error.message.contains("crm.invalid is not allowed: add it to `calls.hosts`"), "{error}");
    }

    #[test]
    fn a_header_with_a_line_break_is_refused() {
        let one = call_of("http://h/");
        let headers = [("x".to_owned(), "a\r\nb: c".to_owned())];
        let request = Request { method: Method::Post, url: "http://h/", headers: &headers, call: &one };
        assert!(head_and_body(&request, &Url::of("http://h/").unwrap()).is_err());
    }
}
