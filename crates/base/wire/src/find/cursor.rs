//! Reads all results of a find, batch by batch.

use crate::connection::Connection;
use crate::error::Error;
use crate::find::reply::{Documents, FindReply};
use crate::find::request::FindRequest;

/// A find that is read to its end. Each step needs the same connection.
#[derive(Clone, Debug)]
pub struct Cursor {
    request: FindRequest,
    reply: FindReply,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Open(i64),
    Done,
}

impl Cursor {
    /// A cursor. The first [`Cursor::next`] sends the find.
    pub fn new(request: FindRequest) -> Self {
        Cursor { request, reply: FindReply::new(), state: State::Fresh }
    }

    /// The next batch (which may be empty), or `None` after the last.
    ///
    /// # Errors
    /// As [`Connection::find`]. The cursor keeps its position, unless the connection broke.
    pub async fn next(&mut self, connection: &mut Connection) -> Result<Option<Documents<'_>>, Error> {
        match self.state {
            State::Fresh => connection.find(&mut self.request, &mut self.reply).await?,
            State::Open(cursor_id) => {
                connection.get_more(&mut self.request, cursor_id, &mut self.reply).await?
            }
            State::Done => return Ok(None),
        }
        self.state =
            if self.reply.cursor_id() == 0 { State::Done } else { State::Open(self.reply.cursor_id()) };
        Ok(Some(self.reply.documents()))
    }

    /// The size of the last batch's reply on the wire in bytes.
    pub fn bytes_received(&self) -> usize {
        self.reply.bytes_received()
    }

    /// Closes the cursor on the server, if it is open there.
    ///
    /// # Errors
    /// As [`Connection::command`].
    pub async fn kill(&mut self, connection: &mut Connection) -> Result<(), Error> {
        let state = std::mem::replace(&mut self.state, State::Done);
        let State::Open(cursor_id) = state else { return Ok(()) };
        connection.kill_cursor(self.request.db(), self.request.collection(), cursor_id).await
    }
}
