//! The connections of the null server: read, answer, write, until either side closes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::Inside;
use super::request::Inbox;

/// The most connections at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 4096;
/// The pause after a connection could not be accepted, for example because files have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Takes connections for ever.
pub(super) async fn accept(listener: TcpListener, inside: Arc<Inside>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept().await {
            Ok((stream, _)) if open.load(Ordering::Relaxed) < CONNECTIONS_MAX => {
                let (inside, open) = (Arc::clone(&inside), Arc::clone(&open));
                open.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    // A broken connection or a hostile client ends its own session and nothing else.
                    let _ = serve(stream, &inside).await;
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(mut stream: TcpStream, inside: &Inside) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut inbox, mut out) = (Inbox::new(), Vec::new());
    let (mut open, mut closes) = (None, false);
    while !closes {
        let count = stream.read(inbox.room()).await?;
        if count == 0 {
            break;
        }
        inbox.advance(count);
        loop {
            if open.is_none() {
                open = inbox.next().map_err(|_| io::ErrorKind::InvalidData)?;
            }
            let Some(asked) = open.filter(|_| inbox.skip_body()) else { break };
            let length = if asked.is_head { inside.head_len } else { inside.answer.len() };
            out.extend_from_slice(&inside.answer[..length]);
            inside.answered.fetch_add(1, Ordering::Relaxed);
            inside.body_bytes.fetch_add(asked.body_len, Ordering::Relaxed);
            (open, closes) = (None, asked.closes);
        }
        if !out.is_empty() {
            if !inside.gate.is_open() {
                inside.gate.pass().await;
            }
            stream.write_all(&out).await?;
            out.clear();
        }
    }
    Ok(())
}
