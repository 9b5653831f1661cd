//! Holds the statements. Each works on a whole batch, and is one transaction.
//!
//! Batches are sorted by id, so that two statements lock rows in the same order.

/// The columns of an instance, in the order in which `rows.rs` reads them.
macro_rules! record {
    ($table:literal) => {
        concat!(
            $table,
            ".id, ",
            $table,
            ".partition, ",
            $table,
            ".version, ",
            $table,
            ".epoch, ",
            $table,
            ".status, ",
            $table,
            ".due_ms, ",
            $table,
            ".definition, ",
            $table,
            ".hash, ",
            $table,
            ".key, ",
            $table,
            ".note, ",
            $table,
            ".body, ",
            $table,
            ".changed_ms"
        )
    };
}

/// Columns of a signal, in the order of the reader.
macro_rules! signal {
    ($table:literal) => {
        concat!(
            $table,
            ".instance, ",
            $table,
            ".id, ",
            $table,
            ".due_ms, ",
            $table,
            ".sent_ms, ",
            $table,
            ".attempts, ",
            $table,
            ".body"
        )
    };
}

/// Milliseconds since 1970 by the server's clock.
macro_rules! now {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

/// The `due_ms` of a signal that its instance has forgotten: such a signal is never due, and its row makes a repeated one known.
macro_rules! forgotten {
    () => {
        "9223372036854775807"
    };
}

pub(super) const DEPLOY: &str = "INSERT INTO definitions (name, hash, body, deployed_ms) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (name, hash) DO UPDATE SET number = DEFAULT, deployed_ms = excluded.deployed_ms \
     WHERE definitions.number < (SELECT max(number) FROM definitions AS d WHERE d.name = excluded.name)";

pub(super) const DEFINITIONS: &str = "SELECT name, hash, body FROM definitions ORDER BY number";

pub(super) const START: &str = "INSERT INTO instances \
     (id, version, epoch, status, due_ms, definition, hash, key, note, body, changed_ms, partition) \
     SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], \
         $9::text[], $10::bytea[], $11::bigint[], $12::smallint[]) \
     ON CONFLICT (id) DO NOTHING RETURNING id";

pub(super) const PUBLISH: &str = "INSERT INTO signals \
     SELECT * FROM unnest($1::text[], $2::text[], $3::smallint[], $4::bigint[], $5::bigint[], $6::int[], $7::bytea[]) \
     ON CONFLICT (instance, id) DO NOTHING RETURNING instance, id";

/// All parts of a statement see the state before the statement. So the number of owners is one, for the
/// asking owner, plus the other owners whose time has not expired.
pub(super) const LEASE: &str = concat!(
    "WITH clock AS MATERIALIZED (SELECT ",
    now!(),
    " AS now_ms), ",
    "past AS (SELECT owner FROM owners, clock WHERE until_ms <= now_ms AND owner <> $1 FOR UPDATE OF owners SKIP LOCKED), \
     gone AS (DELETE FROM owners USING past WHERE owners.owner = past.owner), ",
    "asked AS (INSERT INTO owners SELECT $1, now_ms + $2::bigint FROM clock \
         ON CONFLICT (owner) DO UPDATE SET until_ms = excluded.until_ms), ",
    "renewed AS (UPDATE partitions AS p SET until_ms = CASE WHEN p.partition = ANY ($4::smallint[]) THEN 0 ELSE now_ms + $2 END \
         FROM clock WHERE p.owner = $1 AND p.until_ms > now_ms RETURNING p.partition, p.epoch), ",
    "held AS (SELECT * FROM renewed WHERE partition <> ALL ($4)), ",
    "free AS (SELECT p.partition FROM partitions AS p, clock WHERE p.until_ms <= now_ms AND p.partition <> ALL ($4) ORDER BY p.partition \
         LIMIT greatest($3::bigint - (SELECT count(*) FROM held), 0) FOR UPDATE OF p SKIP LOCKED), ",
    "claimed AS (UPDATE partitions AS p SET owner = $1, epoch = p.epoch + 1, until_ms = now_ms + $2 \
         FROM free, clock WHERE p.partition = free.partition RETURNING p.partition, p.epoch), ",
    "counts AS MATERIALIZED (SELECT (SELECT count(*) + 1 FROM owners, clock WHERE until_ms > now_ms AND owner <> $1) AS owners, \
         (SELECT count(*) FROM partitions, clock WHERE until_ms <= now_ms) + (SELECT count(*) FROM renewed) \
             - (SELECT count(*) FROM held) - (SELECT count(*) FROM claimed) AS free) ",
    "SELECT mine.partition, mine.epoch, counts.owners, counts.free \
         FROM counts LEFT JOIN (SELECT * FROM held UNION ALL SELECT * FROM claimed) AS mine ON true ORDER BY mine.partition"
);

pub(super) const HOLDERS: &str = concat!(
    "SELECT partition, owner, epoch, until_ms - ",
    now!(),
    " FROM partitions WHERE epoch > 0 ORDER BY partition"
);

/// The index gives the earliest signals of each partition, so the cost does not grow with the backlog. The first signal of an instance brings its
/// record, and the others do not repeat it.
pub(super) const DUE_SIGNALS: &str = concat!(
    "WITH due AS MATERIALIZED (SELECT s.* FROM unnest($1::smallint[]) AS p (partition), LATERAL \
         (SELECT * FROM signals AS s WHERE s.partition = p.partition AND s.due_ms <= $2 ORDER BY s.due_ms, s.sent_ms, s.id LIMIT $3) AS s \
         ORDER BY s.due_ms, s.sent_ms, s.id LIMIT $3) \
     SELECT ",
    signal!("due"),
    ", ",
    record!("i"),
    " FROM (SELECT d.*, row_number() OVER (PARTITION BY d.instance ORDER BY d.due_ms, d.sent_ms, d.id) AS nth FROM due AS d) AS due \
     LEFT JOIN instances AS i ON i.id = due.instance AND due.nth = 1 \
     ORDER BY due.due_ms, due.sent_ms, due.id"
);

pub(super) const DUE_RECORDS: &str = concat!(
    "SELECT ",
    record!("i"),
    " FROM unnest($1::smallint[]) AS p (partition), LATERAL \
         (SELECT * FROM instances AS i WHERE i.partition = p.partition AND i.due_ms <= $2 ORDER BY i.due_ms LIMIT $3) AS i \
     ORDER BY i.due_ms LIMIT $3"
);

pub(super) const LOAD: &str = concat!("SELECT ", record!("i"), " FROM instances AS i WHERE i.id = ANY ($1)");

/// The second list names consumed signals. They are deleted only with a change that won. A missing signal was
/// applied before, so the change that consumes it loses. The third list names signals that instances forget.
pub(super) const COMMIT: &str = concat!(
    "WITH x AS MATERIALIZED (SELECT * FROM unnest($12::text[], $13::bigint[], $14::text[]) \
         AS x (instance, version, id)), \
     late AS MATERIALIZED (SELECT x.instance FROM x WHERE NOT EXISTS \
         (SELECT FROM signals AS s WHERE s.instance = x.instance AND s.id = x.id AND s.due_ms < ",
    forgotten!(),
    ")), \
     won AS (UPDATE instances AS i SET version = c.version, epoch = c.epoch, status = c.status, \
         due_ms = c.due_ms, definition = c.definition, hash = c.hash, key = c.key, note = c.note, body = c.body, \
         changed_ms = c.changed_ms \
     FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], \
         $10::bytea[], $11::bigint[]) \
         AS c (id, version, epoch, status, due_ms, definition, hash, key, note, body, changed_ms) \
     WHERE i.id = c.id AND i.version = c.version - 1 AND i.epoch <= c.epoch \
         AND c.id NOT IN (SELECT instance FROM late) RETURNING i.id, i.version, i.partition, i.changed_ms), \
     consumed AS (DELETE FROM signals AS s USING x, won \
     WHERE won.id = x.instance AND won.version = x.version AND s.instance = x.instance AND s.id = x.id), \
     kept AS (INSERT INTO signals (instance, id, partition, due_ms, sent_ms, attempts, body) \
     SELECT f.instance, f.id, won.partition, ",
    forgotten!(),
    ", won.changed_ms, 0, '' FROM unnest($15::text[], $16::bigint[], $17::text[]) AS f (instance, version, id), won \
     WHERE won.id = f.instance AND won.version = f.version \
     ON CONFLICT (instance, id) DO UPDATE SET due_ms = excluded.due_ms, sent_ms = excluded.sent_ms, body = excluded.body) \
     SELECT id, version FROM won"
);

pub(super) const FORGET: &str = concat!(
    "DELETE FROM signals WHERE partition = ANY ($1) AND due_ms = ",
    forgotten!(),
    " AND sent_ms < $2"
);

pub(super) const REMOVE: &str = concat!(
    "DELETE FROM signals AS s USING unnest($1::text[], $2::text[]) AS x (instance, id) \
     WHERE s.instance = x.instance AND s.id = x.id AND s.due_ms < ",
    forgotten!()
);

pub(super) const POSTPONE: &str = concat!(
    "UPDATE signals AS s SET due_ms = x.due_ms, attempts = x.attempts \
     FROM unnest($1::text[], $2::text[], $3::bigint[], $4::int[]) AS x (instance, id, due_ms, attempts) \
     WHERE s.instance = x.instance AND s.id = x.id AND s.due_ms < ",
    forgotten!()
);

pub(super) const BURY: &str = "WITH letters AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::smallint[], $4::bigint[], \
         $5::bigint[], $6::int[], $7::bytea[], $8::text[], $9::bigint[]) AS l (instance, id)), \
     removed AS (DELETE FROM signals AS s USING letters AS l WHERE s.instance = l.instance AND s.id = l.id) \
     INSERT INTO dead SELECT * FROM letters ON CONFLICT (instance, id) DO NOTHING";

pub(super) const DEAD: &str = concat!(
    "SELECT ",
    signal!("dead"),
    ", dead.reason, dead.buried_ms FROM dead WHERE (instance, id) > ($1, $2) ORDER BY instance, id LIMIT $3"
);

pub(super) const REDRIVE: &str = "WITH asked AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) \
         AS a (instance, id, operator, at_ms)), \
     letters AS (DELETE FROM dead AS d USING asked AS a WHERE d.instance = a.instance AND d.id = a.id RETURNING d.*, a.operator, a.at_ms), \
     sent AS (INSERT INTO signals SELECT instance, id, partition, 0, sent_ms, 0, body FROM letters ON CONFLICT (instance, id) DO NOTHING), \
     noted AS (INSERT INTO redriven (instance, id, operator, at_ms) SELECT instance, id, operator, at_ms FROM letters) \
     SELECT count(*) FROM letters";

pub(super) const REDRIVEN: &str =
    "SELECT instance, id, operator, at_ms FROM redriven ORDER BY number LIMIT $1";

pub(super) const WRITE_TASKS: &str = "INSERT INTO tasks AS t (id, version, instance, status, assignee, roles, body) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) \
     ON CONFLICT (id) DO UPDATE SET version = excluded.version, instance = excluded.instance, status = excluded.status, \
         assignee = excluded.assignee, roles = excluded.roles, body = excluded.body WHERE t.version < excluded.version";

/// Begins a search for tasks.
pub(super) const TASKS: &str = "SELECT body, id, instance, version, status FROM tasks WHERE id > $1";

pub(super) const SIGNALS: &str = concat!(
    "SELECT ",
    signal!("signals"),
    " FROM signals WHERE (instance, id) > ($1, $2) AND due_ms < ",
    forgotten!(),
    " ORDER BY instance, id LIMIT $3"
);

pub(super) const BACKLOG: &str = "SELECT count(*) FROM (SELECT FROM partitions AS p, LATERAL \
         (SELECT FROM signals AS s WHERE s.partition = p.partition AND s.due_ms <= $1 LIMIT $2) AS s LIMIT $2) AS due";

pub(super) const KNOWN: &str = "SELECT x.instance, x.id FROM unnest($1::text[], $2::text[]) AS x (instance, id) \
     WHERE EXISTS (SELECT FROM signals AS s WHERE s.instance = x.instance AND s.id = x.id)";

pub(super) const SIGNALS_OF: &str = concat!(
    "SELECT ",
    signal!("signals"),
    " FROM signals WHERE instance = $1 AND due_ms < ",
    forgotten!(),
    " ORDER BY id LIMIT $2"
);

/// Begins a search for instances.
pub(super) const FIND: &str = concat!("SELECT ", record!("i"), " FROM instances AS i WHERE i.id > $1");

/// The same search with empty bodies, because the server then reads no large values.
pub(super) const LIST: &str = "SELECT i.id, i.partition, i.version, i.epoch, i.status, i.due_ms, i.definition, i.hash, i.key, i.note, \
     ''::bytea, i.changed_ms FROM instances AS i WHERE i.id > $1";
