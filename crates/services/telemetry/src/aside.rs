//! Work that keeps a processor for long.

/// Does it on a thread of its own, so that neither a commit nor any other request waits for it. Nothing comes back if that
/// thread ended before it was done.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}
