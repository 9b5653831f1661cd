//! Tests answers as servers send them: whole, in parts, cut and changed.

use proptest::prelude::*;

use super::*;
use crate::http1::header;

const KEEP: ReadOptions = ReadOptions { is_head: false, keep_body: true };
const PASS: ReadOptions = ReadOptions { is_head: false, keep_body: false };
/// A chunked answer with an extension, a trailer, and an interim answer before it.
const CHUNKED: &[u8] =
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\nX-A: b\r\n\r\n\
    5;a=b\r\nhello\r\n1\r\n,\r\n6\r\n world\r\n0\r\nX-T: 1\r\n\r\n";
const SIZED: &[u8] = b"HTTP/1.1 201 Created\r\ncontent-length: 5\r\n\r\nhello";

/// Feeds bytes in parts of `step`; returns whether the answer was complete, and the unread rest.
fn feed<'a>(
    incoming: &mut Incoming,
    options: ReadOptions,
    mut rest: &'a [u8],
    step: usize,
) -> Result<(bool, &'a [u8]), Malformed> {
    incoming.begin(options);
    while !incoming.is_complete()? {
        if rest.is_empty() {
            return Ok((incoming.close(), rest));
        }
        let room = incoming.room();
        let count = room.len().min(rest.len()).min(step);
        assert!(count > 0, "there is room");
        room[..count].copy_from_slice(&rest[..count]);
        incoming.advance(count);
        rest = &rest[count..];
    }
    Ok((true, rest))
}

fn check(bytes: &[u8], status: u16, body: &str, keeps_alive: bool) {
    let mut incoming = Incoming::new(1000);
    for step in 1..=bytes.len() {
        let fed = feed(&mut incoming, KEEP, bytes, step).unwrap();
        assert_eq!(fed, (true, &b""[..]), "{} by {step}", String::from_utf8_lossy(bytes));
        assert_eq!((incoming.status(), std::str::from_utf8(incoming.body()).unwrap()), (status, body));
        assert_eq!((incoming.body_len(), incoming.keeps_alive()), (body.len() as u64, keeps_alive));
        assert_eq!(incoming.received(), bytes.len() as u64);
        feed(&mut incoming, PASS, bytes, step).unwrap();
        assert_eq!((incoming.body_len(), incoming.body()), (body.len() as u64, &b""[..]));
    }
}

#[test]
fn a_split_answer_is_read_whole() {
    check(SIZED, 201, "hello", true);
    check(CHUNKED, 200, "hello, world", true);
    check(b"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end", false);
    check(b"HTTP/1.1 204 No Content\r\n\r\n", 204, "", true);
    check(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\n\r\n", 304, "", true);
    check(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, "", true);
    check(b"HTTP/1.1 200 OK\ncontent-length: 1\n\nx", 200, "x", true);
    check(b"HTTP/1.1 200 OK\r\nconnection: Close\r\ncontent-length: 1\r\n\r\nx", 200, "x", false);
    check(b"HTTP/1.1 200 OK\r\nconnection: close, Keep-Alive\r\ncontent-length: 1\r\n\r\nx", 200, "x", false);
    check(b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", 200, "x", false);
    check(b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nx", 200, "x", true);
    check(
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        200,
        "x",
        false,
    );
    check(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\nxyz", 200, "xyz", false);
}

#[test]
fn an_answer_to_head_has_no_body_and_further_bytes_end_the_connection() {
    let mut incoming = Incoming::new(1000);
    let head = ReadOptions { is_head: true, keep_body: false };
    feed(&mut incoming, head, b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", 99).unwrap();
    assert!(incoming.keeps_alive() && incoming.body_len() == 0);
    feed(&mut incoming, head, SIZED, 99).unwrap();
    assert!(!incoming.keeps_alive());
}

#[test]
fn a_truncated_answer_is_incomplete() {
    for bytes in [SIZED, CHUNKED] {
        for len in 0..bytes.len() {
            let mut incoming = Incoming::new(1000);
            let (whole, _) = feed(&mut incoming, KEEP, &bytes[..len], 7).unwrap();
            assert!(!whole, "cut at {len}");
        }
    }
}

#[test]
fn an_invalid_answer_is_refused() {
    let many = [&b"HTTP/1.1 200 OK\r\n"[..], &b"a: b\r\n".repeat(101), b"\r\n"].concat();
    let long = [&b"HTTP/1.1 200 OK\r\na: "[..], &[b'x'; 70_000]].concat();
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 999 What\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        &many,
        &long,
    ] {
        let mut incoming = Incoming::new(1000);
        assert!(feed(&mut incoming, KEEP, bytes, 1000).is_err(), "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_body_above_the_limit_is_not_read_to_its_end() {
    for options in [KEEP, PASS] {
        let mut incoming = Incoming::new(100_000);
        let bytes =
            [&b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n"[..], &[b'x'; 300_000]].concat();
        let (_, rest) = feed(&mut incoming, options, &bytes, 65_536).unwrap();
        assert!(incoming.is_too_large() && !incoming.keeps_alive() && rest.len() > 100_000);
        assert!(incoming.allocated() <= 2 * 131_072 + LEN_FIRST, "{}", incoming.allocated());
    }
}

#[test]
fn an_unneeded_body_takes_no_memory() {
    let chunk = [&b"4000\r\n"[..], &[b'x'; 0x4000], b"\r\n"].concat();
    let bytes =
        [&b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"[..], &chunk.repeat(100), b"0\r\n\r\n"]
            .concat();
    let mut incoming = Incoming::new(u64::MAX);
    assert!(feed(&mut incoming, PASS, &bytes, 10_000).unwrap().0);
    assert_eq!((incoming.body_len(), incoming.allocated()), (100 * 0x4000, LEN_FIRST));
}

#[test]
fn a_header_is_found_by_its_name_in_any_case() {
    let mut incoming = Incoming::new(1000);
    feed(&mut incoming, PASS, CHUNKED, 99).unwrap();
    assert_eq!(header(incoming.head(), "x-a"), Some(&b"b"[..]));
    assert_eq!(header(incoming.head(), "x-t"), None);
}

proptest! {
    #[test]
    fn random_bytes_never_panic_and_allocate_little(bytes in proptest::collection::vec(any::<u8>(), 0..500), step in 1_usize..500) {
        let mut incoming = Incoming::new(1 << 20);
        let _ = feed(&mut incoming, KEEP, &bytes, step);
        prop_assert!(incoming.allocated() <= LEN_FIRST * 2);
    }

    #[test]
    fn a_changed_answer_never_panics_and_allocates_little(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), step in 1_usize..200, keep: bool,
    ) {
        for bytes in [SIZED, CHUNKED] {
            let mut bytes = bytes.to_vec();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            let mut incoming = Incoming::new(1 << 20);
            let _ = feed(&mut incoming, if keep { KEEP } else { PASS }, &bytes, step);
            prop_assert!(incoming.allocated() <= LEN_FIRST * 2);
            prop_assert!(incoming.body().len() <= bytes.len());
        }
    }
}
