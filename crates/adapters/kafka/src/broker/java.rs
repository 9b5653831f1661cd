//! Finds Java, and describes the two programs of a broker that Java runs.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use plimsoll_process::Program;

use super::error::StartError;
use super::home::Home;

/// The name of a broker in errors.
pub(super) const NAME: &str = "the broker";
/// The oldest supported version of Java.
const JAVA_MIN: u32 = 17;
/// The cluster's ID: 16 bytes in URL-safe base64. Every single-node cluster may share it.
const CLUSTER: &str = "cGxpbXNvbGwta2Fma2EtMQ";

/// Environment variables with options for Java: they would change the measurement and print a line.
const HIDDEN: &[&str] = &["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"];

/// A Java of a supported version.
#[derive(Clone, Debug)]
pub(super) struct Java {
    program: PathBuf,
}

impl Java {
    /// Finds the Java of `JAVA_HOME`, else the one on the PATH.
    pub(super) fn find() -> Result<Self, StartError> {
        let home = env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
        let program = home.map_or_else(|| "java".into(), |home| Path::new(&home).join("bin/java"));
        Self::at(program)
    }

    fn at(program: PathBuf) -> Result<Self, StartError> {
        let output = Command::new(&program).arg("-version").stdin(Stdio::null()).output();
        match version(&output.map_err(StartError::NoJava)?) {
            Some(version) if version >= JAVA_MIN => Ok(Self { program }),
            Some(version) => Err(StartError::OldJava(version)),
            None => Err(StartError::NoJava(io::Error::other("it does not print its version"))),
        }
    }

    /// The program that formats an empty storage from the properties of a home.
    pub(super) fn format(&self, jars: &Path, options: &[String], home: &Home) -> Program {
        let words =
            ["kafka.tools.StorageTool", "format", "--ignore-formatted", "--cluster-id", CLUSTER, "--config"];
        self.program(jars, options, &words, home)
    }

    /// The program that runs the broker of a home.
    pub(super) fn broker(&self, jars: &Path, options: &[String], home: &Home) -> Program {
        self.program(jars, options, &["kafka.Kafka"], home)
    }

    /// Combines Java's options, the class with its arguments, and the properties.
    fn program(&self, jars: &Path, options: &[String], words: &[&str], home: &Home) -> Program {
        let mut args: Vec<OsString> = options.iter().map(Into::into).collect();
        args.extend(["-cp".into(), jars.join("*").into_os_string()]);
        args.extend(words.iter().map(Into::into));
        args.push(home.properties().into_os_string());
        let (path, log, directory) = (self.program.clone(), home.log(), home.path().to_owned());
        Program { name: NAME, path, args, log, directory, hidden_variables: HIDDEN }
    }
}

/// The major version in the output of `java -version`, which goes to stderr.
fn version(output: &Output) -> Option<u32> {
    let output = String::from_utf8_lossy(&output.stderr);
    let quoted = output.split('"').nth(1)?;
    let mut numbers = quoted.split(['.', '-', '+', '_']).map_while(|number| number.parse().ok());
    match numbers.next()? {
        // Until version 8 the first number is always 1.
        1 => numbers.next(),
        major => Some(major),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(printed: &str, expected: Option<u32>) {
        let mut output = Command::new("true").output().unwrap();
        output.stderr = printed.into();
        assert_eq!(version(&output), expected, "{printed}");
    }

    #[test]
    fn the_version_is_read_in_all_its_forms() {
        check("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime", Some(17));
        check("openjdk version \"21\" 2023-09-19", Some(21));
        check("openjdk version \"25-ea\" 2025-09-16", Some(25));
        check("java version \"1.8.0_392\"", Some(8));
        check("command not understood", None);
    }

    #[test]
    fn without_java_the_error_says_how_to_get_it() {
        let error = Java::at("/nowhere/java".into()).unwrap_err().to_string();
        assert!(error.contains("install Java 17"), "{error}");
    }
}
