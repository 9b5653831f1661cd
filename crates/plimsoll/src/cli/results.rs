//! Defines the arguments of commands that show results: `show`, `report`, `audit`, `inspect`.

use std::path::PathBuf;

use clap::Args;

/// Print a run again.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The run directory, or a file that k6, wrk, wrk2, YCSB or oha wrote, packed by gzip or not; the latest run below
    /// plimsoll-runs if left out.
    pub run: Option<PathBuf>,
    /// Print run.json instead; of a file of another tool everything that was read, as JSON.
    #[arg(long)]
    pub json: bool,
    /// Replay its events as they were shown.
    #[arg(long)]
    pub replay: bool,
}

/// Write the page again.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The run directory; the latest one below plimsoll-runs if left out.
    pub run: Option<PathBuf>,
    /// Where to write it; report.html in the run directory if left out.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Audit again.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The run directory; the latest one below plimsoll-runs if left out.
    pub run: Option<PathBuf>,
    /// Where the documents are now, if not where they were written.
    #[arg(long, value_name = "URI")]
    pub server: Option<String>,
    /// The same for documents that were spread over several servers, separated by commas.
    #[arg(long, value_name = "HOST,HOST…", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Write the receipts of all acknowledged and of all lost documents into this directory, one a line.
    #[arg(long, value_name = "DIR")]
    pub receipts: Option<PathBuf>,
    /// Print the findings as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Show what is in a deployment.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Where it is: a mongodb:// URI, or a server of its own to start: `mongod` (from the PATH), `embedded` or
    /// `embedded:relaxed`.
    #[arg(long, value_name = "URI|embedded[:profile]", default_value = "mongodb://localhost:27017")]
    pub server: String,
    /// Look at all collections of this database; without it and --collection at those of plimsoll where it exists, else
    /// at those of all databases but admin, config and local.
    #[arg(long = "database", value_name = "DB")]
    pub databases: Vec<String>,
    /// Look at this collection.
    #[arg(long = "collection", value_name = "DB.COLL")]
    pub collections: Vec<String>,
    /// End with code 99 if a document has this field, for example note, customer.password or "*.password".
    #[arg(long, value_name = "FIELD")]
    pub forbidden: Vec<String>,
    /// Show so many documents of each collection, at most 20.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=20))]
    pub samples: u32,
    /// Print the inspection as JSON.
    #[arg(long)]
    pub json: bool,
}
