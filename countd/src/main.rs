//! The binary: parses the command line, loads the configuration and runs the command.

mod cli;
mod connect;
mod process;
mod signals;
mod systemd;

use clap::Parser;
use cli::acl::Roles;
use cli::args::{ArchiveCommand, Cli, Command, LogFormat, SchemaCommand};
use cli::check::Format;
use cli::import::Task;
use cli::output::Output;
use cli::{
    acl, archive, check, commands, documents, hot, log, rebuild, reconcile, reverse,
    schema_migrate, size, storage, top,
};
use countd::domain::config::Config;
use countd::facts;
use countd::http::request_log::RequestFormat;
use countd::redis::layout::Purpose;
use countd::redis::store::Store;
use countd::relay::RelayError;
use countd::sink::SinkError;
use std::error::Error;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// Entries, events and replies are many small, short-lived allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    // Of the library's features alone it could not choose one, if a dependency adds another. It fails only if there is one already.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let output = cli.command.as_ref().map(Command::output);
    let Err(error) = run(cli).await else {
        return ExitCode::SUCCESS;
    };
    output.unwrap_or_default().error(&error.to_string());
    match error.is::<reconcile::Differences>() {
        true => ExitCode::from(3),
        false => ExitCode::FAILURE,
    }
}

async fn run(cli: Cli) -> Result<(), Box<dyn Error>> {
    init_logging(&cli)?;
    if documents::run(cli.command.as_ref())? {
        return Ok(());
    }
    if let Some(Command::Size(command)) = &cli.command {
        return Ok(size::run(command)?);
    }
    let config = Arc::new(Config::load(cli.config.as_deref())?);
    let connect = || connect::connect_once(&config);
    // A command that reads or changes counters uses the columns of their types.
    let with_columns = |store: &Store| Arc::new(store.with_columns(&config));
    let roles = |serves, consumes| Roles {
        serves,
        consumes,
        ..Roles::NONE
    };
    match cli.command.unwrap_or(Command::All) {
        Command::All => process::run(config, roles(true, true)).await,
        Command::Serve => process::run(config, roles(true, false)).await,
        Command::Consume => process::run(config, roles(false, true)).await,
        Command::Relay => {
            if config.relay.url.kind().is_none() {
                return Err(RelayError::NoDatabase.into());
            }
            let relays = true;
            process::run(
                config,
                Roles {
                    relays,
                    ..Roles::NONE
                },
            )
            .await
        }
        Command::Sink { end: true, json } => {
            Ok(commands::end_sink(&connect().await?, Output { json }).await?)
        }
        Command::Sink { end: false, .. } => {
            if config.sink.url.kind().is_none() {
                return Err(SinkError::NoDatabase.into());
            }
            let sinks = true;
            process::run(
                config,
                Roles {
                    sinks,
                    ..Roles::NONE
                },
            )
            .await
        }
        Command::Schema(SchemaCommand::Migrate(command)) => {
            let store = connect().await?;
            Ok(schema_migrate::run(with_columns(&store), store, command).await?)
        }
        Command::Schema(command) => Ok(commands::schema(connect().await?, command).await?),
        Command::Dead(command) => {
            let store = connect().await?;
            Ok(commands::dead(&with_columns(&store), store, command).await?)
        }
        Command::Log(command) => Ok(log::run(&config, connect().await?, command).await?),
        Command::Storage(command) => {
            let store = connect().await?;
            Ok(storage::run(&with_columns(&store), store, command).await?)
        }
        Command::Archive(ArchiveCommand::End { output }) => {
            Ok(archive::end(&connect().await?, output).await?)
        }
        Command::Archive(ArchiveCommand::AcceptLoss { output }) => {
            Ok(archive::accept(&connect().await?, output).await?)
        }
        Command::Archive(ArchiveCommand::Baseline { archive, output }) => {
            let store = connect().await?;
            Ok(rebuild::baseline(&with_columns(&store), &store, archive, output).await?)
        }
        Command::Archive(command) => Ok(archive::inspect(&config, command)?),
        Command::Restore { archive, output } => {
            // Unlike `connect`, this connects while a restore is under way.
            let store = Store::connect(&config, Purpose::Use).await?;
            facts::check_or_init(&store, &config).await?;
            Ok(archive::run_restore(&with_columns(&store), &store, archive, output).await?)
        }
        Command::Hot(command) => {
            let store = connect().await?;
            Ok(hot::run(&with_columns(&store), store, command).await?)
        }
        Command::Reverse(command) => {
            let store = connect().await?;
            Ok(reverse::run(&with_columns(&store), store, command).await?)
        }
        Command::Rebuild(command) => {
            let store = connect().await?;
            let config = with_columns(&store);
            let mut members = process::Members::default();
            members.add(&store, &config).await?;
            let left = rebuild::run(&config, &store, command).await;
            members.leave().await;
            match left? {
                0 => Ok(()),
                left => Err(reconcile::Differences(left).into()),
            }
        }
        Command::Reconcile(command) => {
            let store = connect().await?;
            let config = with_columns(&store);
            let mut members = process::Members::default();
            members.add(&store, &config).await?;
            let left = reconcile::run(config, store, command).await;
            members.leave().await;
            match left? {
                0 => Ok(()),
                left => Err(reconcile::Differences(left).into()),
            }
        }
        Command::Import(command) => {
            let output = command.output();
            let task = Task::new(*command, &config).unwrap_or_else(|error| error.exit());
            let store = match task.is_dry_run() {
                true => {
                    let store = Store::connect(&config, Purpose::Check).await?;
                    facts::check(&store, &config).await?;
                    store
                }
                false => connect().await?,
            };
            let config = with_columns(&store);
            let mut members = process::Members::default();
            members.add(&store, &config).await?;
            let result = task.run(config, store, output).await;
            members.leave().await;
            Ok(result?)
        }
        Command::Check { json } => check::run(&config, Format::of(json, Format::Lines)).await,
        Command::Doctor { json } => check::run(&config, Format::of(json, Format::Repairs)).await,
        Command::Top(options) => {
            top::check(&options)?;
            let store = Store::connect(&config, Purpose::Check).await?;
            Ok(top::run(&config, store, &options).await?)
        }
        Command::Acl { user, output } => {
            let store = Store::connect(&config, Purpose::Check).await?;
            Ok(acl::run(
                &store,
                &with_columns(&store),
                user.as_str(),
                output,
            )?)
        }
        // These have run already.
        Command::Defaults { .. }
        | Command::Completions { .. }
        | Command::Man { .. }
        | Command::Size(_) => Ok(()),
    }
}

fn init_logging(cli: &Cli) -> Result<(), Box<dyn Error>> {
    // Lines of the log would be written over a live view, which shows what fails itself.
    let is_live = matches!(&cli.command, Some(Command::Top(options)) if options.is_live());
    let level = match is_live && std::io::stderr().is_terminal() {
        true => "off",
        false => &cli.log,
    };
    let filter = EnvFilter::try_new(level).map_err(|error| format!("--log: {error}"))?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let format = tracing_subscriber::fmt::format();
    match cli.log_format {
        LogFormat::Json => subscriber
            .json()
            .event_format(RequestFormat {
                events: format.json().flatten_event(true),
                is_json: true,
            })
            .init(),
        LogFormat::Text => subscriber
            .event_format(RequestFormat {
                events: format.with_ansi(std::io::stderr().is_terminal()),
                is_json: false,
            })
            .init(),
    }
    Ok(())
}
