//! Explains the queries of a design.

use std::collections::HashSet;

use mongodb::Database;
use mongodb::bson::Document;
use mongodb::bson::oid::ObjectId;

use super::activity::Activity;
use super::error::Error;
use super::hybrid::{authors, cache};
use super::position::Position;
use super::settings::Design;
use super::{graph, meta, on_write, timeline};
use crate::plan::{self, Plan};

/// Explains every query of the design, with names of unknown users.
pub(super) async fn all(database: &Database, design: Design) -> Result<Vec<Plan>, Error> {
    Ok(plan::explain(database, commands(design)).await?)
}

fn commands(design: Design) -> Vec<(&'static str, Document)> {
    let mut commands = shared();
    commands.extend(match design {
        Design::OnRead => Vec::new(),
        Design::OnWrite => of_on_write(),
        Design::Hybrid => of_hybrid(),
    });
    commands
}

fn users() -> Vec<String> {
    vec!["nobody-1".into(), "nobody-2".into()]
}

fn place() -> Position {
    Position { at_ms: 0, id: "none".into() }
}

fn shared() -> Vec<(&'static str, Document)> {
    vec![
        ("an activity by its id", timeline::one("none").command()),
        ("the newest of one author", timeline::page(&users()[..1], None, 50).command()),
        ("the next of one author", timeline::page(&users()[..1], Some(&place()), 50).command()),
        ("the newest of several authors", timeline::page(&users(), None, 50).command()),
        ("the next of several authors", timeline::page(&users(), Some(&place()), 50).command()),
        ("users that a user follows", graph::following("nobody", 100).command()),
        ("followers of an author", graph::after("nobody", "", 1_000).command()),
        ("followers among some users", graph::still("nobody", &users()).command()),
        ("unfollow", graph::edge("nobody", "none").command()),
        ("the recorded design, at the start", meta::known().command()),
        ("record the design, at the start", meta::note_command()),
    ]
}

fn of_on_write() -> Vec<(&'static str, Document)> {
    vec![
        ("whether any activity exists, at the start", timeline::any().command()),
        ("whether any edge exists, at the start", graph::any().command()),
        ("the newest of a feed", on_write::page("nobody", None, 50).command()),
        ("the next of a feed", on_write::page("nobody", Some(&place()), 50).command()),
        ("take an author out of feeds", on_write::forget(&users(), "none").command()),
    ]
}

fn of_hybrid() -> Vec<(&'static str, Document)> {
    let activity = Activity {
        id: "none".into(),
        user: "nobody".into(),
        at_ms: 0,
        kind: "post".into(),
        text: None,
        object: None,
    };
    let (token, none) = (ObjectId::from_bytes([0; 12]), HashSet::new());
    vec![
        ("a cache", cache::find("nobody").command()),
        ("note that a cache was read", cache::touch("nobody", 0).command()),
        ("push into caches", cache::push(&users(), &activity, 100).command()),
        ("fill a cache", cache::finish("nobody", token, &[activity], &none, 100).command()),
        ("give up a cache", cache::give_up("nobody", token).command()),
        ("delete caches", cache::forget(&users()).command()),
        ("pulled authors", authors::of(&users()).command()),
        ("pull an author", authors::finish("nobody").command()),
    ]
}
