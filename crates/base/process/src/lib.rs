//! Runs an outside program as a child that does not outlive this process, in a directory that no other program uses.
//!
//! Read in this order: that directory ([`home`]), the program ([`Program`]), its start until it is ready
//! ([`Launch`]), and the running process ([`Child`]), which can be paused, stopped, killed and started again
//! in the same home. [`Detached`] finds a process that a user left running on purpose. [`Child::run`] runs a
//! plain command without a home.
//!
//! ```
//! use std::time::Duration;
//!
//! use plimsoll_process::home::{Home, Storage};
//! use plimsoll_process::{Deadline, Ending, Launch, Lifetime, Program};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let home = Home::open(&Storage::Temporary, "plimsoll-example-", &std::env::temp_dir())?;
//! let program = Program {
//!     name: "the example",
//!     path: "/bin/sh".into(),
//!     args: vec!["-c".into(), "echo listening on 4242; exec sleep 60".into()],
//!     log: home.path().join("log"),
//!     directory: home.path().to_owned(),
//!     hidden_variables: &[],
//! };
//! let deadline = Deadline { limit: Duration::from_secs(60), poll_every: Duration::from_millis(5) };
//! # let now_ns = || 0;
//! let launch = Launch { program: &program, lock: Some(home.lock()?), lifetime: Lifetime::Bound, deadline, now_ns };
//! let (child, port) = launch.until(&mut |lines| lines.split_once("listening on ")?.1.trim().parse::<u16>().ok())?;
//! assert_eq!(port, 4242);
//! assert_eq!(child.stop(Duration::from_secs(10))?, Ending::Graceful);
//! # Ok(())
//! # }
//! ```
//!
//! All functions block. The crate must not know the program's purpose or source. Time is a parameter.

pub mod home;

pub use launch::{Deadline, Launch};
pub use program::{Lifetime, Program};

pub use child::{Child, Ending};
pub use detached::Detached;
pub use error::Error;

pub mod log;
pub mod port;
pub mod procfs;

mod child;
mod detached;
mod error;
mod launch;
mod program;
mod supervisor;
