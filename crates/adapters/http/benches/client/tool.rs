//! Describes the tools: the program, its arguments, and its output.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Failure;
use crate::arguments::{CONNECTIONS, SERVE};

/// The sender of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// This client.
    Plimsoll,
    /// wrk, from Debian.
    Wrk,
    /// oha: Rust, with hyper.
    Oha,
    /// k6: Go, with scripts in JavaScript.
    K6,
}

/// The shortest script that sends the same request.
const SCRIPT: &str = "import http from 'k6/http';
export const options = { discardResponseBodies: true };
export default function () { http.get(__ENV.URL); }
";

impl Tool {
    /// All tools, in the order of the table.
    pub(crate) const ALL: [Self; 4] = [Self::Plimsoll, Self::Wrk, Self::Oha, Self::K6];

    /// The name in reports, and of the program.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plimsoll => "plimsoll",
            Self::Wrk => "wrk",
            Self::Oha => "oha",
            Self::K6 => "k6",
        }
    }

    /// Installation instructions.
    pub(crate) const fn hint(self) -> &'static str {
        match self {
            Self::Wrk => "apt-get install wrk",
            _ => "cargo xtask bench http --install",
        }
    }

    /// The path of the program, if it is installed.
    pub(crate) fn program(self, tools: &[PathBuf]) -> Option<PathBuf> {
        if self == Self::Plimsoll {
            return std::env::current_exe().ok();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let installed = tools.iter().map(|tools| tools.join("bin"));
        let directories = installed.chain(std::env::split_paths(&path));
        directories.map(|directory| directory.join(self.name())).find(|program| program.is_file())
    }

    /// The version that it reports.
    pub(crate) fn version(self, program: &Path) -> String {
        if self == Self::Plimsoll {
            return format!("plimsoll {}", env!("CARGO_PKG_VERSION"));
        }
        let argument = if self == Self::Wrk { "-v" } else { "--version" };
        let output = Command::new(program).arg(argument).output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        line.split(" Copyright").next().unwrap_or_default().trim().to_owned()
    }

    /// The command that sends for `millis`; `scratch` is a directory for its files.
    pub(crate) fn command(
        self,
        program: &Path,
        address: SocketAddr,
        millis: u64,
        scratch: &Path,
    ) -> Result<Command, Failure> {
        let (url, connections) = (format!("http://{address}/"), CONNECTIONS.to_string());
        let seconds = format!("{}s", millis.div_ceil(1000));
        let mut command = Command::new(program);
        match self {
            Self::Plimsoll => command.args([SERVE, &address.to_string(), &millis.to_string()]),
            Self::Wrk => command.args(["-t", "1", "-c", &connections, "-d", &seconds, &url]),
            Self::Oha => command.args([
                "-c",
                &connections,
                "-z",
                &seconds,
                "--no-tui",
                "--output-format",
                "json",
                &url,
            ]),
            Self::K6 => {
                let script = scratch.join("script.js");
                std::fs::write(&script, SCRIPT)?;
                command.args([
                    "run",
                    "--quiet",
                    "--no-usage-report",
                    "--vus",
                    &connections,
                    "--duration",
                    &seconds,
                ]);
                command.args([
                    OsStr::new("--summary-export"),
                    summary(scratch).as_os_str(),
                    script.as_os_str(),
                ]);
                command.env("URL", url)
            }
        };
        Ok(command)
    }

    /// The tool's own count of sent requests.
    pub(crate) fn requests(self, output: &str, scratch: &Path) -> Result<u64, Failure> {
        let found = match self {
            Self::Plimsoll => output.trim().parse().ok(),
            Self::Wrk => {
                let line = output.lines().find_map(|line| line.trim().split_once(" requests in "));
                line.and_then(|(count, _)| count.parse().ok())
            }
            Self::Oha => {
                let said: Value = serde_json::from_str(output)?;
                said["statusCodeDistribution"]["200"].as_u64()
            }
            Self::K6 => {
                let said: Value = serde_json::from_str(&std::fs::read_to_string(summary(scratch))?)?;
                said["metrics"]["http_reqs"]["count"].as_f64().map(|count| count as u64)
            }
        };
        found.ok_or_else(|| format!("{} did not report its number of requests: {output}", self.name()).into())
    }
}

fn summary(scratch: &Path) -> PathBuf {
    scratch.join("summary.json")
}
