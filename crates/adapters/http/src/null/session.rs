//! Serves the connections of the null server until either side closes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::Inside;
use super::request::RequestBuffer;

/// The maximum number of connections; a further connection is closed at once.
const CONNECTIONS_MAX: usize = 4096;
/// The pause after a failed accept, for example for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Accepts connections without end.
pub(super) async fn accept(listener: TcpListener, inside: Arc<Inside>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept().await {
            Ok((stream, _)) if open.load(Ordering::Relaxed) < CONNECTIONS_MAX => {
                let (inside, open) = (Arc::clone(&inside), Arc::clone(&open));
                open.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    // A broken connection or a hostile client ends only its own session.
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
    let (mut buffer, mut out) = (RequestBuffer::new(), Vec::new());
    let (mut open, mut closes) = (None, false);
    while !closes {
        let count = stream.read(buffer.room()).await?;
        if count == 0 {
            break;
        }
        buffer.advance(count);
        loop {
            if open.is_none() {
                open = buffer.next().map_err(|_| io::ErrorKind::InvalidData)?;
            }
            let Some(head) = open.filter(|_| buffer.skip_body()) else { break };
            let length = if head.is_head { inside.head_len } else { inside.answer.len() };
            out.extend_from_slice(&inside.answer[..length]);
            inside.answered.fetch_add(1, Ordering::Relaxed);
            inside.body_bytes.fetch_add(head.body_len, Ordering::Relaxed);
            (open, closes) = (None, head.closes);
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
