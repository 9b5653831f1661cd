//! How the server carries out each query of a design.

use std::collections::HashSet;

use mongodb::Database;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use super::activity::Activity;
use super::error::Error;
use super::hybrid::{authors, cache};
use super::position::Position;
use super::settings::Design;
use super::{graph, on_write, timeline};

/// How the server carries out a query.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the query is for.
    pub name: &'static str,
    /// The command.
    pub command: Document,
    /// What the server's `explain` says of it.
    pub explained: Document,
}

/// Explains every query of the design, with names that nobody has.
pub(super) async fn all(database: &Database, design: Design) -> Result<Vec<Plan>, Error> {
    let mut plans = Vec::new();
    for (name, command) in commands(design) {
        let explained =
            database.run_command(doc! {"explain": command.clone(), "verbosity": "queryPlanner"}).await?;
        plans.push(Plan { name, command, explained });
    }
    Ok(plans)
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
        ("the newest of several authors", timeline::page(&users(), None, 50).command()),
        ("the next of several authors", timeline::page(&users(), Some(&place()), 50).command()),
        ("whom a user follows", graph::following("nobody", 100).command()),
        ("who follows an author", graph::after("nobody", "", 1_000).command()),
        ("who of some follows an author", graph::still("nobody", &users()).command()),
        ("unfollow", graph::edge("nobody", "none").command()),
    ]
}

fn of_on_write() -> Vec<(&'static str, Document)> {
    vec![
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
        ("who is pulled", authors::of(&users()).command()),
        ("pull an author", authors::finish("nobody").command()),
    ]
}
