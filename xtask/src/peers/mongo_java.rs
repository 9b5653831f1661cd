//! Installs mongo-java-server with the class that starts it: Maven fetches its files, and `javac` compiles the class.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use plimsoll_install::maven::{self, FILES, Form, Project};
use plimsoll_install::remove;

use super::Peer;
use crate::command;

/// The product with all of its dependencies.
const PROJECT: Project<'_> = Project {
    pom: include_str!("../../mongo-java-server/pom.xml"),
    list: include_str!("../../mongo-java-server/jars.txt"),
    form: Form::Jars,
};
/// The class that starts the server, from the root of the workspace.
const CLASS: &str = "xtask/mongo-java-server/MongoJavaServer.java";
/// Its text.
const SOURCE: &str = include_str!("../../mongo-java-server/MongoJavaServer.java");

pub(super) fn peer() -> Peer {
    Peer {
        name: "mongo-java-server 1.47.0",
        directory: "mongo-java-server",
        pin: format!("{FILES}\n{}{SOURCE}", PROJECT.list),
        takes: "3 MB and about half a minute, once",
        make,
    }
}

/// Fetches the files into `files`, and compiles the class into `classes`.
fn make(directory: &Path, log: &Path) -> Result<()> {
    maven::fetch("mvn".into(), PROJECT, directory, log, &mut || {})?;
    remove(&directory.join("repository"))?;
    let mut compile = Command::new("javac");
    compile.arg("-cp").arg(directory.join(FILES).join("*")).arg("-d").arg(directory.join("classes"));
    command::run(compile.arg(CLASS))
        .context("compile the class that starts it: install a JDK 17 or newer (Debian: default-jdk-headless)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_pinned_by_its_digest_and_the_product_by_its_version() {
        let (_, version) = peer().name.rsplit_once(' ').unwrap();
        assert!(PROJECT.pom.contains(&format!("<version>{version}</version>")), "{version}");
        assert!(PROJECT.list.contains(&format!("mongo-java-server-core-{version}.jar")), "{version}");
        for line in PROJECT.list.lines() {
            let (sum, name) = line.split_once("  ").unwrap();
            assert!(sum.len() == 64 && name.ends_with(".jar"), "{line}");
        }
    }
}
