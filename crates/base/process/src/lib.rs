//! Runs an outside program as a child that does not outlive this process, in a home of its own.
//!
//! Read in this order: the directory that it has for itself ([`home`]), what is run ([`Program`]), how it is started until it
//! is ready ([`Launch`]), and what can be done to it ([`Child`]): paused, asked to end, killed, and started again in the same
//! home. One that is left running on purpose is found again as a [`Detached`]. What needs no home and no start to wait for is a
//! command that is given to [`Child::run`].
//!
//! ```
//! use std::time::Duration;
//!
//! use plimsoll_process::home::{Home, Storage};
//! use plimsoll_process::{Ending, Launch, Lifetime, Patience, Program};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let home = Home::open(&Storage::Temporary, "plimsoll-example-", &std::env::temp_dir())?;
//! let program = Program {
//!     path: "/bin/sh".into(),
//!     args: vec!["-c".into(), "echo listening on 4242; exec sleep 60".into()],
//!     log: home.path().join("log"),
//!     directory: home.path().to_owned(),
//!     hidden_variables: &[],
//! };
//! let patience = Patience { limit: Duration::from_secs(60), every: Duration::from_millis(5) };
//! # let now_ns = || 0;
//! let launch = Launch { program: &program, lock: Some(home.lock()?), lifetime: Lifetime::Bound, patience, now_ns };
//! let (child, port) = launch.until(&mut |lines| lines.split_once("listening on ")?.1.trim().parse::<u16>().ok())?;
//! assert_eq!(port, 4242);
//! assert_eq!(child.stop(Duration::from_secs(10))?, Ending::Graceful);
//! # Ok(())
//! # }
//! ```
//!
//! Everything blocks. It must never learn what the program is or where it came from; time is a parameter.

pub mod home;

pub use launch::{Launch, LaunchError, Patience};
pub use program::Program;

pub use child::{Child, Ending, Lifetime};
pub use detached::Detached;

pub mod log;
pub mod port;
pub mod process;

mod child;
mod detached;
mod keeper;
mod launch;
mod program;
