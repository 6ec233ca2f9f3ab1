//! Checks the tables: their columns, and their unique indexes. Without these a repeated write would add a second row.

use super::error::{SinkError, TableLack};
use super::tables::{Counts, Details, IdColumn, Tables};
use crate::database::{Refusal, Session, quoted};
use crate::domain::config::{DatabaseKind, SinkConfig};
use crate::domain::ids::{MAX_ID, MAX_NAME};
use std::collections::BTreeMap;

/// The minimum length of the texts in the table of states.
const MAX_STATE: usize = 64;

/// A column as the database describes it.
struct Column {
    /// The name of its type, of MySQL with `unsigned`.
    of_type: String,
    /// The maximum length of a text, or the digits of a number; `None` without a limit.
    size: Option<u64>,
    /// Whether texts that differ only in case are equal.
    ignores_case: bool,
}

/// Whether a type contains texts.
fn is_text(of_type: &str) -> bool {
    [
        "varchar",
        "char",
        "bpchar",
        "text",
        "longtext",
        "mediumtext",
    ]
    .contains(&of_type)
}

impl Column {
    /// The ids that the column can hold, if it can hold any.
    fn ids(&self) -> Option<IdColumn> {
        let of_type = self.of_type.as_str();
        if is_text(of_type) {
            return self.fits(MAX_ID).then_some(IdColumn::Text);
        }
        match of_type {
            "int8" | "bigint" => Some(IdColumn::Integer(i64::MAX as u64)),
            "bigint unsigned" => Some(IdColumn::Integer(u64::MAX)),
            "numeric" | "decimal" | "decimal unsigned" if self.size.is_none_or(|d| d >= 20) => {
                Some(IdColumn::Integer(u64::MAX))
            }
            _ => None,
        }
    }

    /// Whether the column holds texts of this length, and distinguishes all of them.
    fn fits(&self, length: usize) -> bool {
        let is_long = self.size.is_none_or(|size| size >= length as u64);
        is_text(&self.of_type) && is_long && !self.ignores_case
    }

    fn is_time(&self) -> bool {
        ["timestamptz", "timestamp", "datetime"].contains(&self.of_type.as_str())
    }
}

/// A table that is checked.
struct Table<'a> {
    kind: DatabaseKind,
    name: &'a str,
    columns: BTreeMap<String, Column>,
}

impl Table<'_> {
    async fn load<'a>(
        session: &mut Session,
        kind: DatabaseKind,
        name: &'a str,
    ) -> Result<Table<'a>, SinkError> {
        let columns = match kind {
            DatabaseKind::Postgres => format!(
                "SELECT a.attname::text, t.typname::text || \
                 CASE WHEN t.typname = 'numeric' AND a.atttypmod >= 4 AND (a.atttypmod - 4) & 65535 > 0 \
                 THEN ' with decimals' ELSE '' END, \
                 CASE WHEN a.atttypmod < 4 THEN NULL WHEN t.typname = 'numeric' \
                 THEN ((a.atttypmod - 4) >> 16)::text ELSE (a.atttypmod - 4)::text END, '' \
                 FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
                 WHERE a.attrelid = to_regclass('{}') AND a.attnum > 0 AND NOT a.attisdropped",
                quoted(kind, name)
            ),
            DatabaseKind::MySql => format!(
                "SELECT CAST(LOWER(column_name) AS CHAR), CAST(CONCAT(data_type, \
                 IF(column_type LIKE '%unsigned%', ' unsigned', ''), \
                 IF(numeric_scale > 0, ' with decimals', '')) AS CHAR), \
                 CAST(COALESCE(character_maximum_length, numeric_precision) AS CHAR), \
                 CAST(COALESCE(collation_name, '') AS CHAR) \
                 FROM information_schema.columns WHERE {}",
                of_table(name)
            ),
        };
        let rows = session.texts(columns).await?;
        let columns = rows.into_iter().filter_map(|row| {
            let [Some(name), Some(of_type), size, collation] = <[_; 4]>::try_from(row).ok()? else {
                return None;
            };
            let collation = collation.unwrap_or_default();
            let ignores_case = !collation.is_empty() && !collation.ends_with("_bin");
            let size = size.and_then(|size| size.parse().ok());
            Some((
                name,
                Column {
                    of_type,
                    size,
                    ignores_case,
                },
            ))
        });
        let table = Table {
            kind,
            name,
            columns: columns.collect(),
        };
        match table.columns.is_empty() {
            true => Err(table.unusable("does not exist, or may not be read", TableLack::Table)),
            false => Ok(table),
        }
    }

    fn unusable(&self, problem: &str, lack: TableLack) -> SinkError {
        SinkError::Table {
            table: self.name.to_owned(),
            problem: problem.to_owned(),
            lack,
        }
    }

    fn column(&self, name: &'static str) -> Result<&Column, SinkError> {
        let column = self.columns.get(name);
        let lack = TableLack::Column(name);
        column.ok_or_else(|| self.unusable(&format!("has no column {name}"), lack))
    }

    /// Checks that the user may write these columns. Nothing is executed: `EXPLAIN` needs the permissions of its statement.
    async fn may_write(&self, session: &mut Session, columns: &[&str]) -> Result<(), SinkError> {
        let (table, all) = (quoted(self.kind, self.name), columns.join(", "));
        let column = columns.first().copied().unwrap_or_default();
        for statement in [
            format!("EXPLAIN INSERT INTO {table} ({all}) SELECT {all} FROM {table} WHERE 1 = 0"),
            format!("EXPLAIN UPDATE {table} SET {column} = {column} WHERE 1 = 0"),
            format!("EXPLAIN DELETE FROM {table} WHERE 1 = 0"),
        ] {
            match session.execute(statement).await {
                Err(error) if error.refusal() == Some(Refusal::Permission) => {
                    let problem = format!("may not be written: {error}");
                    return Err(self.unusable(&problem, TableLack::Permission));
                }
                checked => checked?,
            };
        }
        Ok(())
    }

    /// A column of ids.
    fn ids(&self, name: &'static str) -> Result<IdColumn, SinkError> {
        self.column(name)?.ids().ok_or_else(|| {
            self.unusable(&format!(
                "has a column {name} that cannot hold ids: it must be a 64-bit integer, or a text of {MAX_ID} characters{}",
                self.hint()
            ), TableLack::Type(name))
        })
    }

    /// A column of texts.
    fn text(&self, name: &'static str, length: usize) -> Result<(), SinkError> {
        match self.column(name)?.fits(length) {
            true => Ok(()),
            false => Err(self.unusable(
                &format!(
                    "has a column {name} that must be a text of {length} characters{}",
                    self.hint()
                ),
                TableLack::Type(name),
            )),
        }
    }

    fn hint(&self) -> &'static str {
        match self.kind {
            DatabaseKind::Postgres => "",
            DatabaseKind::MySql => " with a binary collation, such as ascii_bin",
        }
    }

    /// Checks that exactly these columns are unique together.
    async fn unique(
        &self,
        session: &mut Session,
        columns: &'static [&'static str],
    ) -> Result<(), SinkError> {
        let list = |quote: &str| {
            let names = columns.iter().map(|name| format!("{quote}{name}{quote}"));
            names.collect::<Vec<_>>().join(", ")
        };
        let query = match self.kind {
            DatabaseKind::Postgres => format!(
                "SELECT 'x'::text FROM pg_index i WHERE i.indrelid = to_regclass('{}') AND i.indisunique \
                 AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND \
                 (SELECT array_agg(a.attname::text ORDER BY a.attname::text) FROM pg_attribute a \
                 WHERE a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)) = \
                 (SELECT array_agg(name ORDER BY name) FROM unnest(ARRAY[{}]) AS name) LIMIT 1",
                quoted(self.kind, self.name),
                list("'"),
            ),
            DatabaseKind::MySql => format!(
                "SELECT CAST(MAX(index_name) AS CHAR) FROM information_schema.statistics WHERE {} AND non_unique = 0 \
                 GROUP BY index_name HAVING COUNT(*) = {n} AND SUM(LOWER(column_name) IN ({})) = {n} \
                 AND SUM(sub_part IS NULL) = {n} LIMIT 1",
                of_table(self.name),
                list("'"),
                n = columns.len(),
            ),
        };
        match session.texts(query).await?.is_empty() {
            true => Err(self.unusable(
                &format!(
                    "has no unique index on ({}), which the sink needs",
                    list("")
                ),
                TableLack::Unique(columns),
            )),
            false => Ok(()),
        }
    }
}

/// The condition on the views of MySQL that selects a table.
fn of_table(name: &str) -> String {
    match name.split_once('.') {
        Some((schema, table)) => format!("table_schema = '{schema}' AND table_name = '{table}'"),
        None => format!("table_schema = DATABASE() AND table_name = '{name}'"),
    }
}

/// Checks the configured tables.
///
/// # Errors
/// [`SinkError::Table`] if one cannot be used; other errors if the database is unavailable.
pub async fn load(
    session: &mut Session,
    kind: DatabaseKind,
    config: &SinkConfig,
) -> Result<Tables, SinkError> {
    let (mut details, mut counts) = (Vec::new(), Vec::new());
    for of in &config.details {
        let table = Table::load(session, kind, &of.table).await?;
        table.unique(session, &["user_id", "msg_id"]).await?;
        if !table.column("create_time")?.is_time() {
            let problem = "has a column create_time that is not a time";
            return Err(table.unusable(problem, TableLack::Type("create_time")));
        }
        details.push(Details {
            user: table.ids("user_id")?,
            entity: table.ids("msg_id")?,
            of: of.clone(),
        });
        table
            .may_write(session, &["user_id", "msg_id", "create_time"])
            .await?;
    }
    for of in &config.counts {
        let table = Table::load(session, kind, &of.table).await?;
        table.unique(session, &["msg_id", "count_key"]).await?;
        table.text("count_key", MAX_NAME)?;
        if !matches!(
            table.column("count_value")?.ids(),
            Some(IdColumn::Integer(_))
        ) {
            let problem = "has a column count_value that is not a 64-bit integer";
            return Err(table.unusable(problem, TableLack::Type("count_value")));
        }
        counts.push(Counts {
            entity: table.ids("msg_id")?,
            of: of.clone(),
        });
        table
            .may_write(session, &["msg_id", "count_key", "count_value"])
            .await?;
    }
    let state = Table::load(session, kind, &config.state).await?;
    state.unique(session, &["name"]).await?;
    state.text("name", MAX_STATE)?;
    state.text("value", MAX_STATE)?;
    state.may_write(session, &["name", "value"]).await?;
    Ok(Tables {
        kind,
        details,
        counts,
        state: config.state.clone(),
    })
}
