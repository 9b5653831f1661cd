//! Adds a block of any number of files, one per line, as they arrive.

use bson::DateTime;
use plimsoll_service::{Kind, Lines, Problem, Routes, strict_json};
use serde_json::Value;

use super::action::{Of, Reply, Request, action};
use super::datasets::{changeable, may};
use super::state::State;
use crate::Refusal;
use crate::access::Change;
use crate::documents::block::{self, Creation, Head};
use crate::storage::BlockWriter;

/// The memory of a document, for each of its encoded bytes.
pub(super) const HELD_FACTOR: usize = 4;

action!(Stream, POST "/api/v4/origdatablocks/stream", "stream_block", Stream, "Add a block of files, one per line", stream);

/// Adds the endpoint.
pub(super) fn add(routes: Routes<State>) -> Routes<State> {
    routes.with::<Of<Stream>>()
}

async fn stream(request: Request) -> Result<Reply, Refusal> {
    let mut head = head(&request)?;
    let stated = request.parameter("size").map(size).transpose()?;
    let dataset = changeable(&request, &head.dataset, Change::Update).await?;
    let mut lines = request.call.lines().ok_or_else(|| Refusal::bad("the body is missing"))?;
    let id = request.state().new_id();
    let creation = Creation { id: &id, dataset: &dataset, by: request.username(), at: request.now() };
    let mut writer = request.state().store.block_writer(creation);
    if let Err(refusal) = write(&mut writer, &mut lines, || request.now()).await {
        writer.abandon().await?;
        return Err(refusal);
    }
    head.size = stated.unwrap_or_else(|| writer.bytes());
    let files = writer.files();
    let mut body = block::show(&writer.finish(&head, &may(&request, Change::Update)).await?);
    if let Some(body) = body.as_object_mut() {
        body.remove("dataFileList");
        body.insert("numberOfFiles".into(), files.into());
    }
    Ok(Reply::Created(body))
}

fn head(request: &Request) -> Result<Head, Refusal> {
    request.caller.user().ok_or(Refusal::Forbidden)?;
    let text = |name: &str| request.parameter(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let missing = || Refusal::Properties(vec!["datasetId should not be empty".into()]);
    Ok(Head { dataset: text("datasetId").ok_or_else(missing)?, size: 0, checksum: text("chkAlg") })
}

fn size(text: &str) -> Result<i64, Refusal> {
    let size = text.parse().ok().filter(|size| *size >= 0);
    let size = size.ok_or_else(|| Refusal::bad("size must be an integer number and not less than 0"))?;
    if size <= block::SIZE_MAX { Ok(size) } else { Err(Refusal::bad(block::too_much())) }
}

/// Writes the files of all lines. A fault names its line.
async fn write(
    writer: &mut BlockWriter<'_>,
    lines: &mut Lines,
    now: impl Fn() -> DateTime + Send + Sync,
) -> Result<(), Refusal> {
    while let Some(line) = lines.next().await.map_err(|problem| unread(&problem))? {
        let fault = |fault: String| Refusal::Properties(vec![format!("line {}: {fault}", line.number)]);
        let file: Value = strict_json::parse(&line.text).map_err(|error| fault(error.to_string()))?;
        writer.alive(now());
        writer.push(block::file(&file).map_err(fault)?).await?;
        lines.hold(HELD_FACTOR * writer.held_bytes()).map_err(|problem| unread(&problem))?;
    }
    match writer.files() {
        0 => Err(Refusal::Properties(vec!["send at least one file".into()])),
        _ if writer.bytes() > block::SIZE_MAX => Err(Refusal::Properties(vec![block::too_much()])),
        _ => Ok(()),
    }
}

/// The refusal of lines that cannot be read.
pub(super) fn unread(problem: &Problem) -> Refusal {
    match problem.kind() {
        Kind::TooLarge => Refusal::TooLarge,
        Kind::Busy => Refusal::Busy,
        _ => Refusal::bad(problem.detail()),
    }
}
