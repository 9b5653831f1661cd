//! Sends finds and reads their batches.

use bson::rawdoc;

use crate::connection::Connection;
use crate::error::Error;
use crate::find::reply::FindReply;
use crate::find::request::FindRequest;

impl Connection {
    /// Runs a find; `reply` holds its first batch.
    ///
    /// # Errors
    /// [`Error::Server`] if the server refuses the find; any other [`Error`] if there is no usable reply.
    pub async fn find(&mut self, request: &mut FindRequest, reply: &mut FindReply) -> Result<(), Error> {
        let request_id = self.transport.next_request_id();
        self.batch(request.find(request_id), reply).await
    }

    /// Gets the next batch of a cursor that a find on the same collection left open.
    ///
    /// # Errors
    /// As [`Connection::find`].
    pub async fn get_more(
        &mut self,
        request: &mut FindRequest,
        cursor_id: i64,
        reply: &mut FindReply,
    ) -> Result<(), Error> {
        let request_id = self.transport.next_request_id();
        self.batch(request.get_more(request_id, cursor_id), reply).await
    }

    /// Closes a cursor before its end.
    ///
    /// # Errors
    /// As [`Connection::command`].
    pub async fn kill_cursor(&mut self, db: &str, collection: &str, cursor_id: i64) -> Result<(), Error> {
        self.command(db, &rawdoc! {"killCursors": collection, "cursors": [cursor_id]}).await.map(|_| ())
    }

    async fn batch(&mut self, request: &[u8], reply: &mut FindReply) -> Result<(), Error> {
        reply.clear();
        let (request_id, sent) = self.exchange(request).await?;
        reply.sent = sent;
        self.take_batch(request_id, reply)
    }

    /// Parses the batch that the transport holds.
    pub(crate) fn take_batch(&mut self, request_id: i32, reply: &mut FindReply) -> Result<(), Error> {
        reply.filled = self.transport.reply().len();
        reply.received = self.transport.received();
        self.transport.swap_reply(&mut reply.bytes);
        match reply.read(request_id) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
            Err(source) => Err(self.malformed(source)),
        }
    }
}
