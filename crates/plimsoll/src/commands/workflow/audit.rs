//! Implements `plimsoll workflow audit`: checks every invariant over the whole store.

use plimsoll_report::listing::{Listing, text};
use plimsoll_report::units::counted;
use plimsoll_workflow::audit::{self, Finding, Report};

use super::store::{Opened, failed, print_json};
use crate::cli::StoreArgs;
use crate::terminal::{print, screen};
use plimsoll_run::exit::{Exit, Outcome};

/// The largest number of listed findings.
const SHOWN_MAX: usize = 100;

/// Audits the store.
///
/// # Errors
/// The store fails.
pub(super) fn audit(args: &StoreArgs) -> Outcome {
    let opened = Opened::open(args)?;
    let store = &*opened.engine.client.store;
    let report = opened.runtime.block_on(audit::audit(store, opened.engine.now_ms())).map_err(failed)?;
    if args.json {
        print_json(&report)?;
    } else {
        print(&shown(&report));
    }
    Ok(if report.findings.is_empty() { Exit::Held } else { Exit::Integrity })
}

fn shown(report: &Report) -> String {
    let verdict = match report.findings.len() as u64 + report.findings_omitted {
        0 => "every invariant holds".to_owned(),
        count => format!(
            "{}; in a store at work they may be work in flight: audit again",
            counted(count, "finding")
        ),
    };
    let counts = |counts: &std::collections::BTreeMap<String, u64>| {
        let words: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        (!words.is_empty()).then(|| words.join(", "))
    };
    let facts = vec![
        ("instances", Some(counts(&report.instances).unwrap_or_else(|| "none".into()))),
        ("signals", Some(format!("{} waiting", report.signals))),
        ("dead letters", Some(counts(&report.dead).unwrap_or_else(|| "none".into()))),
        ("verdict", Some(verdict)),
    ];
    text("Audit", facts, &[listing(&report.findings, report.findings_omitted)], screen())
}

fn listing(findings: &[Finding], more: u64) -> Listing {
    let kind = |finding: &Finding| format!("{:?}", finding.kind).to_lowercase();
    let row = |finding: &Finding| vec![finding.words.clone(), finding.instance.clone(), kind(finding)];
    Listing {
        title: format!("Findings ({} of {})", findings.len().min(SHOWN_MAX), findings.len() as u64 + more),
        columns: vec!["finding", "instance", "kind"],
        rows: findings.iter().take(SHOWN_MAX).map(row).collect(),
    }
}
