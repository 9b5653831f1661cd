//! Resolves the workflow engine and the store that a scenario loads.

use std::sync::Arc;

use anyhow::{bail, ensure};
use plimsoll_deployment::{check_durable, warnings_of_store};
use plimsoll_host::fault::Fault as Injection;
use plimsoll_load::arrivals::Share;
use plimsoll_load::worker::Control;
use plimsoll_postgres::workflow::Postgres;
use plimsoll_run::exit::{Deserves, Exit, Outcome};
use plimsoll_run::run_dir::RunDir;
use plimsoll_run::server_provisioning::{Choice, ServerAddress, StartOptions, canonical_address};
use plimsoll_run::system::{Estimate, Isolation, Kind, RunContext, Subject, System};
use plimsoll_scenario::{Existing, Loaded, Mode, Plan, Store, Victim, Workflow};
use plimsoll_stores::workflow::Mongo;
use plimsoll_systems::check;
use tokio::runtime::Runtime;

use crate::store_server::StoreServer;
use crate::system::{Opened, WorkflowSystem, threads};
use crate::work::Work;

/// The maximum number of workers.
const WORKERS_MAX: u32 = 64;
/// The maximum number of connections.
const CONNECTIONS_MAX: u32 = 100;
/// The maximum number of partitions.
const PARTITIONS_MAX: u16 = 1024;

/// Scenarios that load the workflow engine inside of this process.
#[derive(Clone, Copy, Debug)]
pub struct WorkflowKind;

impl Kind for WorkflowKind {
    fn resolve(
        &self,
        loaded: &Loaded,
        address: ServerAddress<'_>,
    ) -> anyhow::Result<Option<Arc<dyn Subject>>> {
        let Some(section) = &loaded.scenario.workflow else { return Ok(None) };
        ensure!(
            loaded.scenario.service.is_none(),
            "service: the engine runs inside of this process: remove `service`, or remove `workflow`"
        );
        let behind = match section.store {
            Store::Mongodb => Behind::Mongodb(check::choose(address, &loaded.scenario)?),
            Store::Postgres => Behind::Postgres(postgres(section, address)?),
        };
        Ok(Some(Arc::new(EngineAt { section: section.clone(), behind })))
    }
}

/// The URI of PostgreSQL from the command line, or else from the scenario. `None`: the run starts one.
fn postgres(section: &Workflow, address: ServerAddress<'_>) -> anyhow::Result<Option<String>> {
    ensure!(
        address.hosts.is_empty() && address.count == 1,
        "--hosts and --count are for independent servers, and the engine has one store"
    );
    match address.server {
        None | Some("embedded") => Ok(section.postgres.clone()),
        Some(uri) if uri.starts_with("postgres://") || uri.starts_with("postgresql://") => {
            Ok(Some(uri.to_owned()))
        }
        Some(_) => bail!(
            "--server: this scenario keeps its instances in PostgreSQL: write postgres://user@host:5432/database, or leave it out, and the run \
             starts a server"
        ),
    }
}

/// The database behind the engine.
#[derive(Clone, Debug)]
enum Behind {
    Mongodb(Choice),
    /// The URI of a running server.
    Postgres(Option<String>),
}

/// The engine on a store.
#[derive(Clone, Debug)]
struct EngineAt {
    section: Workflow,
    behind: Behind,
}

impl EngineAt {
    fn check_section(&self) -> anyhow::Result<()> {
        let Workflow { workers, connections, partitions, .. } = self.section;
        for (key, value, most) in [
            ("workers", workers, WORKERS_MAX),
            ("connections", connections, CONNECTIONS_MAX),
            ("partitions", u32::from(partitions), u32::from(PARTITIONS_MAX)),
        ] {
            ensure!((1..=most).contains(&value), "workflow.{key}: {value}: write a number from 1 to {most}");
        }
        ensure!(
            self.section.store == Store::Postgres || self.section.postgres.is_none(),
            "workflow.postgres: the store is MongoDB: write `store: postgres`, or remove `postgres`"
        );
        Ok(())
    }

    fn check_faults(&self, plan: &Plan) -> anyhow::Result<()> {
        let to_service = plan.injections.iter().any(|aimed| aimed.victim == Victim::Service);
        ensure!(!to_service, "faults: victim: service: this scenario starts no service");
        match &self.behind {
            Behind::Mongodb(choice) => check::faults(plan, choice),
            Behind::Postgres(uri) => {
                let other =
                    plan.injections.iter().find(|aimed| !matches!(aimed.fault, Injection::Kill { .. }));
                if let Some(aimed) = other {
                    bail!("faults: `{}`: PostgreSQL can only be killed: use `kill`", aimed.fault.name());
                }
                ensure!(
                    plan.injections.is_empty() || uri.is_none(),
                    "faults: `kill` needs a server that Plimsoll started: leave out `postgres` and --server"
                );
                Ok(())
            }
        }
    }
}

/// Refuses a part of a load: the audit of one process would find the work of the others.
fn check_shard(shard: Share) -> anyhow::Result<()> {
    ensure!(shard == Share::WHOLE, "--shard: the engine and its audit are in one process: leave out --shard");
    Ok(())
}

impl Subject for EngineAt {
    fn check(&self, loaded: &Loaded, plan: &Plan) -> anyhow::Result<()> {
        let scenario = &loaded.scenario;
        self.check_section()?;
        self.check_faults(plan)?;
        ensure!(
            scenario.retry.is_none(),
            "retry: the workflow engine repeats what may be repeated: remove `retry`"
        );
        ensure!(
            scenario.existing != Existing::Drop,
            "existing: drop: the instances of others are never dropped: name another database"
        );
        match &self.behind {
            Behind::Mongodb(Choice::Several(_)) => {
                bail!("workflow: the engine has one store: name one server with --server")
            }
            Behind::Mongodb(choice) => {
                check::cache(scenario, choice)?;
                check::usable(choice)?;
                choice.uris().into_iter().try_for_each(check_durable)?;
            }
            Behind::Postgres(_) => {
                ensure!(scenario.cache.is_none(), "cache: it is that of MongoDB: remove it for PostgreSQL");
            }
        }
        let units = plan.units();
        units.iter().try_for_each(|(_, unit)| Work::build(unit, &loaded.base).map(drop))
    }

    fn open(
        &self,
        context: RunContext<'_>,
        _: &RunDir,
        start: StartOptions,
        _: &Control,
        runtime: Runtime,
    ) -> Outcome<Box<dyn System>> {
        check_shard(context.shard).deserves(Exit::Usage)?;
        let (section, threads) = (&self.section, threads(&self.section)?);
        let connections = section.connections as usize;
        match &self.behind {
            Behind::Mongodb(choice) => {
                choice.uris().into_iter().flat_map(warnings_of_store).for_each(|it| start.console.warn(&it));
                let server = check::open_place(context, choice, start, &runtime)?;
                let uri = server.route.uri().to_owned();
                let server = StoreServer::Mongodb(server);
                let facts = server.facts(&runtime)?;
                let (database, partitions) = (&section.database, section.partitions);
                let store = threads.block_on(async {
                    match section.mode {
                        Mode::Batches => Mongo::open(&uri, database, connections, partitions).await,
                        Mode::Transactions => {
                            Mongo::open_in_transactions(&uri, database, connections, partitions).await
                        }
                    }
                });
                let store = store.deserves(Exit::Server)?;
                let opened = Opened { context, section, server, facts, threads };
                Ok(Box::new(WorkflowSystem::open(opened, store)?))
            }
            Behind::Postgres(uri) => {
                let server = StoreServer::postgres(uri.as_deref(), start)?;
                let facts = server.facts(&runtime)?;
                let StoreServer::Postgres { uri, .. } = &server else {
                    return Err(anyhow::anyhow!("PostgreSQL was not started")).deserves(Exit::Server);
                };
                let store = Postgres::open(uri, connections, section.partitions);
                let store = threads.block_on(store).deserves(Exit::Server)?;
                let opened = Opened { context, section, server, facts, threads };
                Ok(Box::new(WorkflowSystem::open(opened, store)?))
            }
        }
    }

    fn server(&self) -> Option<&Choice> {
        match &self.behind {
            Behind::Mongodb(choice) => Some(choice),
            Behind::Postgres(_) => None,
        }
    }

    fn warnings(&self, _: &Loaded, _: &Plan) -> Vec<String> {
        let Behind::Mongodb(choice) = &self.behind else { return Vec::new() };
        choice.warnings().into_iter().chain(choice.uris().into_iter().flat_map(warnings_of_store)).collect()
    }

    fn isolation(&self) -> Isolation {
        match &self.behind {
            Behind::Mongodb(Choice::Uri(_)) => Isolation::Database {
                path: "workflow.database".to_owned(),
                name: self.section.database.clone(),
            },
            Behind::Postgres(Some(_)) => Isolation::Shared,
            Behind::Mongodb(_) | Behind::Postgres(None) => Isolation::Fresh,
        }
    }

    fn estimate(&self, _: &Loaded, _: &Plan) -> anyhow::Result<Estimate> {
        Ok(Estimate::default())
    }

    fn on_database(&self, name: &str) -> Option<Arc<dyn Subject>> {
        let section = Workflow { database: name.to_owned(), ..self.section.clone() };
        matches!(self.behind, Behind::Mongodb(_)).then(|| Arc::new(Self { section, ..self.clone() }) as _)
    }

    fn canonical(&self) -> String {
        let section = Workflow { postgres: None, ..self.section.clone() };
        match &self.behind {
            Behind::Mongodb(choice) => format!("{section:?} on {:?}", choice.canonical()),
            Behind::Postgres(uri) => format!("{section:?} on {:?}", uri.as_deref().map(canonical_address)),
        }
    }
}
