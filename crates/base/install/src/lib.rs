//! Brings outside programs and files to this machine once, whole and checked.
//!
//! Read in this order: where they are kept ([`Cache`]), who may bring one ([`Lock`]), the program that fetches or builds it
//! ([`fetch`]), what the files are held to ([`digest`], [`Checklist`]), and how a thing gets to its place ([`AtomicDir`]). An
//! installation takes the lock, looks whether the thing is there, and only then makes it:
//!
//! ```
//! use plimsoll_install::{AtomicDir, Lock};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let cache = directory.path();
//! let place = cache.join("tool-1.0");
//! let _lock = Lock::take(cache, "tool.lock", || eprintln!("another process installs it"))?;
//! if !place.is_dir() {
//!     let site = AtomicDir::new(&place)?;
//!     std::fs::write(site.path().join("tool"), "fetched, and held to its digest")?;
//!     site.commit()?;
//! }
//! assert!(place.join("tool").is_file());
//! # Ok(())
//! # }
//! ```
//!
//! Everything blocks. It must never learn what it brings: which program, by which tool and from where is the caller's; so is
//! what is said about it on the way. It reads no clock.

pub use cache::{Cache, NoPlace};
pub use lock::Lock;

pub mod fetch;

pub use checklist::{CheckError, Checklist};
pub mod digest;

pub use atomic_dir::{AtomicDir, remove, sibling};
pub use error::Error;

mod atomic_dir;
mod cache;
mod checklist;
mod error;
mod lock;
