//! The databases of the relay and the sink, if there are any.

use super::report::{Finding, Remedy, Report};
use crate::cli::error::CommandError;
use countd::database::{DatabaseError, DatabasePlace, Refusal};
use countd::domain::config::{Config, DatabaseKind, DatabaseUrl};
use countd::relay::{self, RelayError};
use countd::sink::{self, SinkError};
use std::io::Write;

/// Checks the tables of the relay and the sink.
pub(super) async fn check(
    config: &Config,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    if config.relay.url.kind().is_some() {
        report.add_and_fail(&match relay::check(&config.relay).await {
            Ok(()) => Finding::ok("relay: ok"),
            Err(error) => of_relay(config, &error),
        })?;
    }
    if config.sink.url.kind().is_some() {
        report.add_and_fail(&match sink::check(&config.sink).await {
            Ok(()) => Finding::ok("sink: ok"),
            Err(error) => of_sink(config, &error),
        })?;
    }
    Ok(())
}

/// Why the relay cannot use its database.
pub(super) fn of_relay(config: &Config, error: &RelayError) -> Finding {
    let url = &config.relay.url;
    let remedy = match error {
        RelayError::Table { .. } => of_table(
            url,
            relay::repair(&config.relay, error),
            "docs/countd/relay.md",
        ),
        RelayError::Database(error) => of_database("relay", url, error),
        RelayError::NoDatabase => no_database("relay"),
        RelayError::Unsettled { .. } => Remedy::advice(
            "no command: set relay.key to a column that is unique, and remove triggers that keep rows",
        ),
        RelayError::Log(_) | RelayError::Before => {
            Remedy::advice("no command: the relay repeats it by itself")
        }
    };
    Finding::problem(format!("relay: {error}"), remedy)
}

/// Why the sink cannot use its database.
pub(super) fn of_sink(config: &Config, error: &SinkError) -> Finding {
    let url = &config.sink.url;
    let remedy = match error {
        SinkError::Table { .. } => of_table(
            url,
            sink::repair(&config.sink, error),
            "docs/countd/sink.md",
        ),
        SinkError::Database(error) => of_database("sink", url, error),
        SinkError::NoDatabase => no_database("sink"),
        SinkError::Store(_) | SinkError::Layout(_) | SinkError::UnknownLayout => {
            Remedy::advice("no command of the sink starts Redis: see the other findings")
        }
        SinkError::Topic(_) => {
            Remedy::advice("no command of the sink repairs the topic: see the findings on it")
        }
        SinkError::Counters(_) => Remedy::command("countd schema list")
            .knowing("the sink writes the counters of the schemas: each of its types needs one"),
        SinkError::Split(entity) => Remedy::command(format!("countd hot merge {entity}"))
            .knowing("actions on the entity are refused until the merge ends"),
        SinkError::Replaced => {
            Remedy::advice("nothing is wrong: another process writes, and this one waits")
        }
    };
    Finding::problem(format!("sink: {error}"), remedy)
}

fn no_database(section: &str) -> Remedy {
    let variable = section.to_ascii_uppercase();
    Remedy::command(format!(
        "export COUNTD_{variable}__URL=postgres://USER:PASSWORD@HOST:5432/DATABASE"
    ))
}

/// The statements that repair a table, as commands of the database's client.
fn of_table(url: &DatabaseUrl, statements: Vec<String>, page: &str) -> Remedy {
    let place = DatabasePlace::of(url);
    let commands = statements.iter().zip(place.iter().cycle());
    let commands: Vec<String> = commands
        .map(|(statement, place)| client(place, "OWNER", statement))
        .collect();
    let advice = match commands.is_empty() {
        true => format!("no command repairs every table: give it the form that {page} has"),
        false => {
            "OWNER is the owner of the tables, or of the database if a table is created".to_owned()
        }
    };
    Remedy::commands(commands, advice)
}

/// Why a database does not answer, or refuses the connection.
fn of_database(section: &str, url: &DatabaseUrl, error: &DatabaseError) -> Remedy {
    let Some(place) = DatabasePlace::of(url) else {
        return Remedy::advice(format!("no command: {section}.url is invalid; correct it"));
    };
    let DatabasePlace {
        host,
        port,
        user,
        database,
        ..
    } = &place;
    match error.refusal() {
        Some(Refusal::Login) => Remedy::command(client(&place, user, "SELECT 1")).knowing(format!(
            "it asks for the password: try until it works, and set {section}.url to it. No command finds a password"
        )),
        Some(Refusal::Database) => {
            let create = format!("CREATE DATABASE {database}");
            let place = DatabasePlace { database: maintenance_database(place.kind).to_owned(), ..place };
            Remedy::command(client(&place, "OWNER", &create))
                .knowing(format!("or set {section}.url to the database that has the tables"))
        }
        _ => Remedy::advice(format!(
            "no command of countd starts a database: start the server at {host}:{port}, or correct {section}.url. Processes of countd connect again by themselves"
        )),
    }
}

/// A database that every server has.
fn maintenance_database(kind: DatabaseKind) -> &'static str {
    match kind {
        DatabaseKind::Postgres => "postgres",
        DatabaseKind::MySql => "mysql",
    }
}

/// The command that executes a statement. The client asks for the password.
fn client(place: &DatabasePlace, user: &str, statement: &str) -> String {
    let DatabasePlace {
        host,
        port,
        database,
        ..
    } = place;
    let statement = in_shell(statement);
    match place.kind {
        DatabaseKind::Postgres => {
            format!("psql -h {host} -p {port} -U {user} -d {database} -c {statement}")
        }
        DatabaseKind::MySql => {
            format!("mysql -h {host} -P {port} -u {user} -p -D {database} -e {statement}")
        }
    }
}

/// A text as one word of a shell.
fn in_shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
