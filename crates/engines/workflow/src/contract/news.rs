//! Measures how soon a worker begins the work of another process.

use std::sync::Arc;

use futures_util::future::join;
use serde_json::Value;

use super::Broken;
use crate::definition::Definition;
use crate::instance::{Signal, StartRequest, Status};
use crate::port::{Clock, Services, Store};
use crate::step::{Call, CallError};
use crate::worker::{Client, ClientError, Groups, Mailbox, Settings, Watchers, Worker, drive};

/// The longest wait for an instance.
const PATIENCE_MS: u64 = 60_000;

struct Nothing;

impl Services for Nothing {
    async fn call(&self, _: &Call) -> Result<Value, CallError> {
        Ok(Value::Null)
    }
}

/// The time from the start of an instance through `ours` to its end in a worker of `theirs`, in milliseconds. The instance waits for a signal, which
/// is sent through `ours` as well.
///
/// # Errors
///
/// If a request fails, or the instance does not end within a minute.
pub async fn news_ms<S: Store, C: Clock>(
    theirs: S,
    ours: S,
    settings: Settings,
    clock: C,
) -> Result<u64, Broken> {
    let (mailbox, clock, owner) = (Mailbox::default(), Arc::new(clock), settings.owner.clone());
    let worker = Worker {
        store: Arc::new(theirs),
        services: Arc::new(Nothing),
        clock: clock.clone(),
        registry: Arc::default(),
        settings,
        mailbox: mailbox.clone(),
        backlog: Arc::default(),
        watchers: Watchers::default(),
    };
    let measured = async {
        let result = measure(ours, &*clock, &owner).await;
        mailbox.close();
        result
    };
    join(drive(worker), measured).await.1
}

async fn measure<S: Store>(store: S, clock: &impl Clock, owner: &str) -> Result<u64, Broken> {
    let client = Client {
        store: Arc::new(store),
        registry: Arc::default(),
        mailbox: Mailbox::default(),
        backlog: Arc::default(),
        backlog_max: 100,
        watchers: Watchers::default(),
        groups: Groups::default(),
    };
    let definition = Definition::new("news").service("f").wait("go");
    client.deploy(&definition, clock.now_ms()).await.map_err(refused)?;
    // The end of the first instance shows that the worker holds its partitions, and listens.
    let mut began_ms = 0;
    for number in 0..2 {
        began_ms = clock.now_ms();
        round_trip(&client, clock, format!("news of {owner} {number}")).await?;
    }
    Ok(clock.now_ms().saturating_sub(began_ms))
}

/// Leads an instance to its end. The signal is sent only once the instance waits for it, so that it needs news, too.
async fn round_trip<S: Store>(client: &Client<S>, clock: &impl Clock, id: String) -> Result<(), Broken> {
    let until_ms = clock.now_ms().saturating_add(PATIENCE_MS);
    let request = StartRequest {
        id: id.clone(),
        definition: "news".into(),
        key: None,
        parent: None,
        depth: 0,
        input: Value::Null,
    };
    client.start(request, clock.now_ms()).await.map_err(refused)?;
    while client.store.load(std::slice::from_ref(&id)).await?.iter().flatten().all(|it| it.due_ms.is_some()) {
        if clock.now_ms() > until_ms {
            return Err(Broken::Promise(format!("{id} does not wait for its signal in time")));
        }
        clock.until(clock.now_ms() + 1).await;
    }
    client.publish(Signal::named(&*id, "1", "go", Value::Null, clock.now_ms())).await.map_err(refused)?;
    match client.wait_for_end(&id, until_ms, clock).await.map_err(refused)? {
        Some(end) if end.status == Status::Done => Ok(()),
        other => Err(Broken::Promise(format!("{id} does not end as done: {other:?}"))),
    }
}

fn refused(error: ClientError) -> Broken {
    Broken::Promise(error.to_string())
}
