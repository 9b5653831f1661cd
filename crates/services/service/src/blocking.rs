//! Runs CPU-bound work on a blocking thread, so that other requests do not wait for it.

/// Runs `work` on a blocking thread. `None` if that thread panicked.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}
