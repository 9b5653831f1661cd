//! Reads a body line by line as it arrives, so that its length needs no memory.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use futures_util::StreamExt;

use crate::budget::{BudgetError, Reservation};
use crate::problem::{Kind, Problem};

/// The lines of a body.
pub struct Lines {
    pieces: BodyDataStream,
    /// The rest of the last piece.
    piece: Bytes,
    /// The beginning of a line that the next piece continues.
    begun: Vec<u8>,
    /// The number of lines so far, including blank lines.
    number: u64,
    line_max: Duration,
    line_bytes_max: usize,
    /// The memory of the current line, and of the data that the endpoint holds.
    memory: Reservation,
    held_bytes: usize,
}

/// A line that is not blank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number in the body, from 1; blank lines count.
    pub number: u64,
    /// Its text without its end.
    pub text: Vec<u8>,
}

impl Lines {
    /// The lines of a body: each up to `line_bytes_max` long, and within `line_max`.
    pub(crate) fn new(body: Body, line_max: Duration, line_bytes_max: usize, memory: Reservation) -> Self {
        let (pieces, piece, begun) = (body.into_data_stream(), Bytes::new(), Vec::new());
        Self { pieces, piece, begun, number: 0, line_max, line_bytes_max, memory, held_bytes: 0 }
    }

    /// The next line that is not blank; `None` after the last. Blank lines give the client no more time.
    ///
    /// # Errors
    /// The line is too long or has no room in memory, the body arrives too slowly, or it ends early.
    pub async fn next(&mut self) -> Result<Option<Line>, Problem> {
        match tokio::time::timeout(self.line_max, self.filled()).await {
            Err(_) => Err(Problem::new(Kind::Slow, "the body does not arrive: send it faster")),
            Ok(line) => line,
        }
    }

    /// States the bytes that the endpoint holds for the lines so far, instead of those that it stated before.
    ///
    /// # Errors
    /// The memory of all streams has no room for them.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        match bytes.checked_sub(self.held_bytes) {
            Some(more) => self.memory.grow(more).map_err(no_room)?,
            None => self.memory.shrink(self.held_bytes - bytes),
        }
        self.held_bytes = bytes;
        Ok(())
    }

    async fn filled(&mut self) -> Result<Option<Line>, Problem> {
        loop {
            let Some(text) = self.line().await? else { return Ok(None) };
            self.number += 1;
            if !text.trim_ascii().is_empty() {
                return Ok(Some(Line { number: self.number, text }));
            }
        }
    }

    async fn line(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        self.memory.shrink_to(self.held_bytes);
        loop {
            if let Some(end) = self.piece.iter().position(|byte| *byte == b'\n') {
                let part = self.piece.split_to(end + 1);
                self.begin(&part[..end])?;
                return Ok(Some(std::mem::take(&mut self.begun)));
            }
            let part = std::mem::take(&mut self.piece);
            self.begin(&part)?;
            match self.pieces.next().await {
                Some(Ok(piece)) => self.piece = piece,
                Some(Err(_)) => {
                    return Err(Problem::new(Kind::Malformed, "the body ended early: send all of it"));
                }
                None if self.begun.is_empty() => return Ok(None),
                None => return Ok(Some(std::mem::take(&mut self.begun))),
            }
        }
    }

    fn begin(&mut self, part: &[u8]) -> Result<(), Problem> {
        if self.begun.len() + part.len() > self.line_bytes_max {
            let detail = format!("a line has more than {} bytes: send shorter lines", self.line_bytes_max);
            return Err(Problem::new(Kind::TooLarge, detail));
        }
        self.memory.grow(part.len()).map_err(no_room)?;
        self.begun.extend_from_slice(part);
        Ok(())
    }
}

fn no_room(error: BudgetError) -> Problem {
    match error {
        BudgetError::Busy => {
            Problem::new(Kind::Busy, "too many streams are in memory: retry later").retry_after(1)
        }
        BudgetError::TooLarge { bytes_max } => Problem::new(
            Kind::TooLarge,
            format!("the stream takes more than {bytes_max} bytes: send shorter lines"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;
    use crate::budget::Budget;

    fn lines(pieces: &[&'static str]) -> Lines {
        let pieces: Vec<_> =
            pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from(*piece))).collect();
        let body = Body::from_stream(stream::iter(pieces));
        Lines::new(body, Duration::from_secs(1), 8, Reservation::unlimited())
    }

    async fn read(pieces: &[&'static str]) -> Result<Vec<String>, Kind> {
        let (mut lines, mut found) = (lines(pieces), Vec::new());
        while let Some(line) = lines.next().await.map_err(|problem| problem.kind())? {
            found.push(format!("{} {}", line.number, String::from_utf8(line.text).unwrap()));
        }
        Ok(found)
    }

    #[tokio::test]
    async fn lines_are_the_same_however_the_body_is_cut() {
        let text = "ab\n\ncde\nf";
        for cut in 0..text.len() {
            assert_eq!(read(&[&text[..cut], &text[cut..]]).await.unwrap(), ["1 ab", "3 cde", "4 f"], "{cut}");
        }
        assert_eq!(read(&["ab\n"]).await.unwrap(), ["1 ab"]);
        assert_eq!(read(&[]).await.unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn a_long_line_is_refused_before_its_end() {
        assert_eq!(read(&["12345678\n"]).await.unwrap(), ["1 12345678"]);
        assert_eq!(read(&["1\n123456789\n"]).await, Err(Kind::TooLarge));
        assert_eq!(read(&["12345", "6789"]).await, Err(Kind::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_times_out() {
        let body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let mut lines = Lines::new(body, Duration::from_secs(1), 8, Reservation::unlimited());
        assert_eq!(lines.next().await.unwrap_err().kind(), Kind::Slow);
    }

    #[tokio::test(start_paused = true)]
    async fn blank_lines_and_slow_bytes_do_not_keep_a_stream_open() {
        for drop in ["\n", " ", "x"] {
            let drops = stream::unfold((), move |()| async move {
                tokio::time::sleep(Duration::from_millis(400)).await;
                Some((Ok::<_, std::io::Error>(Bytes::from(drop)), ()))
            });
            let body = Body::from_stream(Box::pin(drops));
            let mut lines = Lines::new(body, Duration::from_secs(1), 8, Reservation::unlimited());
            assert_eq!(lines.next().await.unwrap_err().kind(), Kind::Slow, "{drop:?}");
        }
    }

    #[tokio::test]
    async fn a_stream_takes_the_memory_of_its_line_and_of_the_data_that_its_endpoint_holds() {
        const LINE: usize = 4 << 10;
        let budget = Budget::new(16 << 10);
        let text = format!("{0}\n{0}\n", "x".repeat(LINE));
        let mut lines = Lines::new(Body::from(text), Duration::from_secs(1), 2 * LINE, budget.reservation());
        assert_eq!(budget.taken_bytes(), 0, "an idle stream takes none");
        assert!(lines.next().await.unwrap().is_some());
        assert_eq!(budget.taken_bytes(), LINE as u64);
        lines.hold(8 << 10).unwrap();
        assert_eq!(budget.taken_bytes(), 12 << 10);
        let others = budget.reservation();
        others.grow(2 << 10).unwrap();
        assert_eq!(lines.hold(12 << 10).unwrap_err().kind(), Kind::Busy);
        assert_eq!(lines.hold(1 << 20).unwrap_err().kind(), Kind::TooLarge);
        assert!(lines.next().await.unwrap().is_some(), "the first line is gone");
        lines.hold(0).unwrap();
        assert_eq!(budget.taken_bytes(), (2 << 10) + LINE as u64);
        drop(lines);
        assert_eq!(budget.taken_bytes(), 2 << 10);
    }
}
