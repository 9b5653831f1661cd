//! Defines the arguments of commands that show results: `show`, `report`, `audit`, `inspect`.

use std::path::PathBuf;

use clap::Args;

/// Print a run again.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A run directory, its run.json, a directory of runs (the latest one in it), or a results file of k6, wrk,
    /// wrk2, YCSB or oha, optionally compressed with gzip; by default the latest run below plimsoll-runs.
    pub run: Option<PathBuf>,
    /// Print run.json instead; for a file of another tool, all its values as JSON.
    #[arg(long)]
    pub json: bool,
    /// Replay the recorded live view.
    #[arg(long)]
    pub replay: bool,
}

/// Write the page again.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A run directory, its run.json, or a directory of runs (the latest one in it); by default the latest run
    /// below plimsoll-runs.
    pub run: Option<PathBuf>,
    /// The file to write; by default report.html in the run directory.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Audit again.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// A run directory, its run.json, or a directory of runs (the latest one in it); by default the latest run
    /// below plimsoll-runs.
    pub run: Option<PathBuf>,
    /// The server that holds the documents now, if not the original one.
    #[arg(long, value_name = "URI")]
    pub server: Option<String>,
    /// The servers that hold spread documents now, separated by commas.
    #[arg(long, value_name = "HOST,HOST…", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Write the receipts of all acknowledged and of all lost documents into this directory, one in each
    /// line.
    #[arg(long, value_name = "DIR")]
    pub receipts: Option<PathBuf>,
    /// Print the findings as JSON.
    #[arg(long)]
    pub json: bool,
}

/// List the contents of a deployment.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The server: a mongodb:// URI, or one to start: `mongod` (from the PATH), `embedded` or
    /// `embedded:relaxed`.
    #[arg(long, value_name = "URI|embedded[:profile]", default_value = "mongodb://localhost:27017")]
    pub server: String,
    /// Inspect all collections of this database. Without it and --collection: those of the database plimsoll
    /// if it exists, else those of all databases except admin, config and local.
    #[arg(long = "database", value_name = "DB")]
    pub databases: Vec<String>,
    /// Inspect this collection.
    #[arg(long = "collection", value_name = "DB.COLL")]
    pub collections: Vec<String>,
    /// End with code 99 if a document has this field, for example note, customer.password or "*.password".
    #[arg(long, value_name = "FIELD")]
    pub forbidden: Vec<String>,
    /// Show this many documents of each collection, at most 20.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=20))]
    pub samples: u32,
    /// Print the inspection as JSON.
    #[arg(long)]
    pub json: bool,
}
