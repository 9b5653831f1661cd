//! Reads a body line by line as it arrives, so that its length needs no memory.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use futures_util::StreamExt;

use crate::budget::Reservation;
use crate::problem::{Kind, Problem};

/// The lines of a body.
pub struct Lines {
    pieces: BodyDataStream,
    /// The rest of the last piece.
    piece: Bytes,
    /// The beginning of a line that the next piece continues.
    begun: Vec<u8>,
    piece_max: Duration,
    line_bytes_max: usize,
    /// The memory that the endpoint may use for the lines.
    _memory: Reservation,
}

impl Lines {
    /// The lines of a body: each up to `line_bytes_max` long, each piece within `piece_max`.
    pub(crate) fn new(body: Body, piece_max: Duration, line_bytes_max: usize, memory: Reservation) -> Self {
        let (pieces, piece, begun) = (body.into_data_stream(), Bytes::new(), Vec::new());
        Self { pieces, piece, begun, piece_max, line_bytes_max, _memory: memory }
    }

    /// The next line without its end, which may be empty; `None` after the last.
    ///
    /// # Errors
    /// The line is too long, the body arrives too slowly, or it ends early.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        loop {
            if let Some(end) = self.piece.iter().position(|byte| *byte == b'\n') {
                let part = self.piece.split_to(end + 1);
                self.begin(&part[..end])?;
                return Ok(Some(std::mem::take(&mut self.begun)));
            }
            let part = std::mem::take(&mut self.piece);
            self.begin(&part)?;
            match tokio::time::timeout(self.piece_max, self.pieces.next()).await {
                Err(_) => return Err(Problem::new(Kind::Slow, "the body does not arrive: send it faster")),
                Ok(Some(Ok(piece))) => self.piece = piece,
                Ok(Some(Err(_))) => {
                    return Err(Problem::new(Kind::Malformed, "the body ended early: send all of it"));
                }
                Ok(None) if self.begun.is_empty() => return Ok(None),
                Ok(None) => return Ok(Some(std::mem::take(&mut self.begun))),
            }
        }
    }

    fn begin(&mut self, part: &[u8]) -> Result<(), Problem> {
        if self.begun.len() + part.len() > self.line_bytes_max {
            let detail = format!("a line has more than {} bytes: send shorter lines", self.line_bytes_max);
            return Err(Problem::new(Kind::TooLarge, detail));
        }
        self.begun.extend_from_slice(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn lines(pieces: &[&'static str]) -> Lines {
        let pieces: Vec<_> =
            pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from(*piece))).collect();
        let body = Body::from_stream(stream::iter(pieces));
        Lines::new(body, Duration::from_secs(1), 8, Reservation::unlimited())
    }

    async fn read(pieces: &[&'static str]) -> Result<Vec<String>, Kind> {
        let (mut lines, mut found) = (lines(pieces), Vec::new());
        while let Some(line) = lines.next().await.map_err(|problem| problem.kind())? {
            found.push(String::from_utf8(line).unwrap());
        }
        Ok(found)
    }

    #[tokio::test]
    async fn lines_are_the_same_however_the_body_is_cut() {
        let text = "ab\n\ncde\nf";
        for cut in 0..text.len() {
            assert_eq!(read(&[&text[..cut], &text[cut..]]).await.unwrap(), ["ab", "", "cde", "f"], "{cut}");
        }
        assert_eq!(read(&["ab\n"]).await.unwrap(), ["ab"]);
        assert_eq!(read(&[]).await.unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn a_long_line_is_refused_before_its_end() {
        assert_eq!(read(&["12345678\n"]).await.unwrap(), ["12345678"]);
        assert_eq!(read(&["1\n123456789\n"]).await, Err(Kind::TooLarge));
        assert_eq!(read(&["12345", "6789"]).await, Err(Kind::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_times_out() {
        let body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let mut lines = Lines::new(body, Duration::from_secs(1), 8, Reservation::unlimited());
        assert_eq!(lines.next().await.unwrap_err().kind(), Kind::Slow);
    }
}
