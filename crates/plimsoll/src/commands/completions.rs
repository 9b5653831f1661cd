//! Implements `plimsoll completions` and `plimsoll man`: prints completions for a shell, and writes manual pages.

use anyhow::Context;

use crate::cli::{CompletionsArgs, ManArgs, command};
use crate::registry::Registry;
use crate::terminal::print;
use plimsoll_run::exit::{Exit, Outcome};

/// Prints the completions for a shell.
///
/// # Errors
/// None; the signature is that of every command.
pub fn completions(args: &CompletionsArgs, registry: &Registry) -> Outcome<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command(registry.names()), "plimsoll", &mut text);
    print(&String::from_utf8_lossy(&text));
    Ok(Exit::Held)
}

/// Writes a manual page for each command.
///
/// # Errors
/// If the directory cannot be written.
pub fn man(args: &ManArgs, registry: &Registry) -> Outcome<Exit> {
    let path = &args.directory;
    clap_mangen::generate_to(command(registry.names()), path)
        .with_context(|| format!("write manual pages to {}", path.display()))?;
    Ok(Exit::Held)
}

/// Generates `docs/reference/command-line.md` from the definition of the command line.
#[cfg(test)]
pub fn reference() -> String {
    let mut text = String::from("# The command line\n\nGenerated from the program.\n");
    let mut root = command(crate::registry::SHIPPED.names()).term_width(100);
    root.build();
    describe(&mut root, "plimsoll", &mut text);
    text
}

#[cfg(test)]
fn describe(command: &mut clap::Command, name: &str, text: &mut String) {
    let help = command.clone().term_width(100).render_long_help().to_string();
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    text.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n")));
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let names: Vec<_> = shown.map(|sub| sub.get_name().to_owned()).collect();
    for sub in names.iter().filter(|sub| *sub != "help") {
        if let Some(command) = command.find_subcommand_mut(sub) {
            describe(command, &format!("{name} {sub}"), text);
        }
    }
}
