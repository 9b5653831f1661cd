//! Removes the temporary directories that killed processes of Plimsoll left behind.

/// Removes the temporary homes of servers whose owner is dead. Removes nothing else; the next start retries a
/// failure.
pub fn remove() {
    plimsoll_host::sweep(&std::env::temp_dir());
}
