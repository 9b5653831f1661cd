//! `plimsoll scenarios`: what is shipped, and the question each answers.

use crate::cli::ScenariosArgs;
use crate::exit::{Deserves, Exit, Outcome};
use crate::scenario::{builtins, load};
use crate::terminal::print;

/// Lists the shipped scenarios, or prints one.
///
/// # Errors
/// When there is none of that name.
pub fn scenarios(args: &ScenariosArgs) -> Outcome<Exit> {
    if let Some(name) = &args.name {
        load(name, &[], None).deserves(Exit::Usage)?;
        builtins().iter().filter(|builtin| builtin.name == name).for_each(|builtin| print(builtin.text));
        return Ok(Exit::Held);
    }
    for builtin in builtins() {
        let question = load(builtin.name, &[], None)?.scenario.question.unwrap_or_default();
        print(&format!("{:<18} {question}\n", builtin.name));
    }
    Ok(Exit::Held)
}
