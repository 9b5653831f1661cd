CREATE SCHEMA IF NOT EXISTS plimsoll_workflow;

CREATE TABLE IF NOT EXISTS plimsoll_workflow.form (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version int NOT NULL,
    partitions smallint NOT NULL
);

CREATE TABLE IF NOT EXISTS plimsoll_workflow.definitions (
    number bigint GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL,
    hash text NOT NULL,
    body text NOT NULL,
    deployed_ms bigint NOT NULL,
    PRIMARY KEY (name, hash)
);

CREATE TABLE IF NOT EXISTS plimsoll_workflow.instances (
    id text COLLATE "C" PRIMARY KEY,
    partition smallint NOT NULL,
    version bigint NOT NULL,
    epoch bigint NOT NULL,
    status text COLLATE "C" NOT NULL,
    due_ms bigint,
    definition text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    note text,
    body bytea NOT NULL,
    changed_ms bigint NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX IF NOT EXISTS instances_due ON plimsoll_workflow.instances (partition, due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS instances_key ON plimsoll_workflow.instances (key, id) WHERE key IS NOT NULL;

-- Consumed signals are deleted: without frequent cleaning, every search for due ones would pass their remains.
CREATE TABLE IF NOT EXISTS plimsoll_workflow.signals (
    instance text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    partition smallint NOT NULL,
    due_ms bigint NOT NULL,
    sent_ms bigint NOT NULL,
    attempts int NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (instance, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX IF NOT EXISTS signals_due ON plimsoll_workflow.signals (partition, due_ms, sent_ms, id);

CREATE TABLE IF NOT EXISTS plimsoll_workflow.partitions (
    partition smallint PRIMARY KEY,
    owner text NOT NULL,
    epoch bigint NOT NULL,
    until_ms bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS plimsoll_workflow.owners (
    owner text PRIMARY KEY,
    until_ms bigint NOT NULL
);

CREATE TABLE IF NOT EXISTS plimsoll_workflow.dead (
    instance text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    partition smallint NOT NULL,
    due_ms bigint NOT NULL,
    sent_ms bigint NOT NULL,
    attempts int NOT NULL,
    body bytea NOT NULL,
    reason text NOT NULL,
    buried_ms bigint NOT NULL,
    PRIMARY KEY (instance, id)
);
CREATE TABLE IF NOT EXISTS plimsoll_workflow.redriven (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text NOT NULL,
    id text NOT NULL,
    operator text NOT NULL,
    at_ms bigint NOT NULL
);

CREATE TABLE IF NOT EXISTS plimsoll_workflow.tasks (
    id text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    instance text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    assignee text COLLATE "C",
    roles text[] NOT NULL,
    body bytea NOT NULL
);
CREATE INDEX IF NOT EXISTS tasks_open ON plimsoll_workflow.tasks (id) WHERE status = 'open';
CREATE INDEX IF NOT EXISTS tasks_assignee ON plimsoll_workflow.tasks (assignee, id) WHERE assignee IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_instance ON plimsoll_workflow.tasks (instance, id);

CREATE INDEX IF NOT EXISTS instances_definition ON plimsoll_workflow.instances (definition, id);
-- The last object: a store that has it is complete.
CREATE INDEX IF NOT EXISTS instances_status ON plimsoll_workflow.instances (status, id);
