//! Installs outside programs and files on this machine once, completely and verified.
//!
//! Read in this order: the directory of all installations ([`Cache`]), the right to install ([`Lock`]), the
//! program that fetches or builds ([`fetch`], [`maven`]), the checksums ([`digest`], [`Checklist`]), and the
//! renamed directory ([`AtomicDir`]). An installation takes the lock, checks whether it is needed, and only
//! then starts:
//!
//! ```
//! use plimsoll_install::{AtomicDir, Lock};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let cache = directory.path();
//! let target = cache.join("tool-1.0");
//! let _lock = Lock::take(cache, "tool.lock", || eprintln!("another process installs it"))?;
//! if !target.is_dir() {
//!     let partial = AtomicDir::new(&target)?;
//!     std::fs::write(partial.path().join("tool"), "fetched and verified")?;
//!     partial.commit()?;
//! }
//! assert!(target.join("tool").is_file());
//! # Ok(())
//! # }
//! ```
//!
//! All functions block. The crate must not know the programs that it installs: the caller chooses the
//! program, the tool and the source, and reports the progress. The crate reads no clock.

pub use cache::{Cache, NoCacheDirectory};
pub use lock::Lock;

pub mod fetch;
pub mod maven;

pub use checklist::{CheckError, Checklist};
pub mod digest;

pub use atomic_dir::{AtomicDir, remove, sibling};
pub use error::Error;

mod atomic_dir;
mod cache;
mod checklist;
mod error;
mod lock;
