//! Serves one connection: reads, answers and writes until either side closes.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;

use super::inbox::Inbox;
use super::{AnswerDelay, Request, Service, reply};

/// Gathered answers are sent at this length in bytes, or when no input remains.
const FLUSH_LEN: usize = 1024 * 1024;

/// Serves the connection with this number until it ends.
///
/// # Errors
/// The connection broke, or the client sent something that is not a command.
pub(crate) fn serve(
    mut stream: &TcpStream,
    number: u64,
    service: &impl Service,
    answer_delay: &AnswerDelay,
    closing: &AtomicBool,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut inbox = Inbox::new();
    let mut out = Vec::new();
    while inbox.fill(&mut stream)? {
        while let Some(message) = inbox.next().map_err(io::Error::other)? {
            let mut request = Request::parse(message).map_err(io::Error::other)?;
            request.connection = number;
            reply::framed(&request, &mut out, |out| service.answer(&request, out));
            if out.len() >= FLUSH_LEN {
                send(stream, &mut out, answer_delay, closing)?;
            }
        }
        send(stream, &mut out, answer_delay, closing)?;
    }
    Ok(())
}

fn send(
    mut stream: &TcpStream,
    out: &mut Vec<u8>,
    answer_delay: &AnswerDelay,
    closing: &AtomicBool,
) -> io::Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    answer_delay.wait(closing);
    stream.write_all(out)?;
    out.clear();
    Ok(())
}
