//! Implements `plimsoll workflow dead`: lists dead letters, and sends one again.

use anyhow::anyhow;
use plimsoll_measure::clock::utc;
use plimsoll_report::listing::{Listing, text};
use plimsoll_report::units::counted;
use plimsoll_workflow::instance::DeadLetter;
use plimsoll_workflow::port::{Redrive, SignalKey, Store as _};
use serde_json::json;

use super::store::{Opened, failed, print_json};
use crate::cli::{DeadCommand, StoreArgs};
use crate::terminal::{list_screen, print};
use plimsoll_run::exit::{Deserves, Exit, Outcome};

/// Lists dead letters, or sends one again.
///
/// # Errors
/// No such dead letter exists, or the store fails.
pub(super) fn dead(command: &DeadCommand) -> Outcome {
    match command {
        DeadCommand::List { limit, store } => list(*limit as usize, store),
        DeadCommand::Redrive { instance, signal, by, store } => {
            let key = SignalKey { instance: instance.clone(), id: signal.clone() };
            redrive(key, by, store)
        }
    }
}

fn list(limit: usize, store: &StoreArgs) -> Outcome {
    let opened = Opened::open(store)?;
    let letters = opened.runtime.block_on(opened.engine.client.store.dead(None, limit)).map_err(failed)?;
    if store.json {
        print_json(&json!({"dead_letters": letters}))?;
    } else if letters.is_empty() {
        print("no dead letters\n");
    } else {
        print(&text("", Vec::new(), &[listing(&letters)], list_screen()));
    }
    Ok(Exit::Held)
}

fn listing(letters: &[DeadLetter]) -> Listing {
    let row = |letter: &DeadLetter| {
        let signal = &letter.signal;
        vec![
            signal.instance.clone(),
            signal.id.clone(),
            letter.reason.name().to_owned(),
            utc(letter.buried_ms),
        ]
    };
    Listing {
        title: counted(letters.len() as u64, "dead letter"),
        columns: vec!["instance", "signal", "reason", "since"],
        rows: letters.iter().map(row).collect(),
    }
}

fn redrive(key: SignalKey, by: &str, store: &StoreArgs) -> Outcome {
    let opened = Opened::open(store)?;
    let redrive = Redrive { key: key.clone(), by: by.to_owned(), at_ms: opened.engine.now_ms() };
    let sent = opened.runtime.block_on(opened.engine.client.store.redrive(&[redrive])).map_err(failed)?;
    if sent == 0 {
        let SignalKey { instance, id } = key;
        let error = anyhow!("{instance} has no dead letter `{id}`: `plimsoll workflow dead list` lists all");
        return Err(error).deserves(Exit::Usage);
    }
    if store.json {
        print_json(&json!({"redriven": sent}))?;
    } else {
        print(&format!("{} signal {} (sent again)\n", key.instance, key.id));
    }
    Ok(Exit::Held)
}
