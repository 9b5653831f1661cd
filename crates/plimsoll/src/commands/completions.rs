//! `plimsoll completions`: completions for a shell.

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::exit::{Exit, Outcome};
use crate::terminal::print;

/// Prints the completions for a shell.
///
/// # Errors
/// None; the signature is that of every command.
pub fn completions(args: &CompletionsArgs) -> Outcome<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "plimsoll", &mut text);
    print(&String::from_utf8_lossy(&text));
    Ok(Exit::Held)
}
