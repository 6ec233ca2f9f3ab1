//! The program: reads the command line and the configuration, and runs what was asked for.

mod cli;

use axum::Router;
use clap::Parser;
use cli::acl::Roles;
use cli::args::{Cli, Command, LogFormat};
use cli::{acl, commands};

use countd::domain::config;
use countd::domain::config::Config;
use countd::domain::error::ConnectError;
use countd::domain::health::Health;
use countd::http::exposition;
use countd::redis::store::Store;
use countd::{consumer, facts, http};
use std::error::Error;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

/// Entries, events and replies are many small values that live for a moment.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long requests may still take when the process is told to stop.
const GRACE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("countd: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<(), Box<dyn Error>> {
    start_logs(&cli)?;
    if let Some(Command::Defaults) = cli.command {
        print!("{}", config::DEFAULTS);
        return Ok(());
    }
    let config = Arc::new(Config::load(cli.config.as_deref())?);
    let connect = || usable(&config);
    match cli.command.unwrap_or(Command::All) {
        Command::All => service(config, true, true).await,
        Command::Serve => service(config, true, false).await,
        Command::Consume => service(config, false, true).await,
        Command::Schema(command) => Ok(commands::schema(connect().await?, command).await?),
        Command::Dead(command) => Ok(commands::dead(connect().await?, command).await?),
        Command::Log(command) => Ok(commands::log(connect().await?, command).await?),
        Command::Check => {
            // Before a change, it is asked about what is not to begin yet.
            let store = Store::connect(&config.redis, config.log.partitions).await?;
            facts::check(&store, &config).await?;
            acl::check(&store, &config, Roles::ALL).await?;
            Ok(commands::check(&config, store).await?)
        }
        Command::Acl { user } => {
            let store = Store::connect(&config.redis, config.log.partitions).await?;
            for command in acl::setuser_commands(&store, &config, user.as_str()) {
                println!("{command}");
            }
            Ok(())
        }
        Command::Defaults => Ok(()),
    }
}

fn start_logs(cli: &Cli) -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_new(&cli.log).map_err(|why| format!("--log: {why}"))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match cli.log_format {
        LogFormat::Json => logs.json().flatten_event(true).init(),
        LogFormat::Text => logs.with_ansi(std::io::stderr().is_terminal()).init(),
    }
    Ok(())
}

/// Serves, counts, or both, until a signal says stop.
async fn service(config: Arc<Config>, serves: bool, consumes: bool) -> Result<(), Box<dyn Error>> {
    let metrics = exposition::install()?;
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(wait_for_signal(stop.clone())?);
    let mut tasks: JoinSet<Result<(), String>> = JoinSet::new();
    let roles = Roles {
        serves,
        consumes,
        operates: false,
    };
    let health = Health::default();
    if consumes {
        // Connections of its own: a batch does not hold up requests.
        let Some(store) = connect(&config, roles, &stopping).await? else {
            return Ok(());
        };
        if let Some(address) = config.consumer.listen.filter(|_| !serves) {
            let router = http::operators(&config, store.clone(), health.clone(), metrics.clone());
            listen(&mut tasks, &config, address, router, &stopping).await?;
        }
        let (config, health) = (Arc::clone(&config), health.clone());
        let stopping = stopping.clone();
        tasks.spawn(async move {
            consumer::run(config, store, health, stopping).await;
            Ok(())
        });
    }
    if serves {
        let Some(store) = connect(&config, roles, &stopping).await? else {
            return Ok(());
        };
        let router = http::router(&config, store, health, metrics.clone());
        listen(&mut tasks, &config, config.http.listen, router, &stopping).await?;
    }
    tasks.spawn(upkeep(metrics, stopping.clone()));
    let finished = finish(&mut tasks, &stop, stopping).await;
    tracing::info!("stopped");
    finished.map_err(Into::into)
}

/// Serves at an address.
async fn listen(
    tasks: &mut JoinSet<Result<(), String>>,
    config: &Arc<Config>,
    address: SocketAddr,
    router: Router,
    stopping: &watch::Receiver<bool>,
) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|why| format!("cannot listen on {address}: {why}"))?;
    tracing::info!(address = %listener.local_addr()?, "serving");
    let (config, mut stopping) = (Arc::clone(config), stopping.clone());
    tasks.spawn(async move {
        let stopped = async move {
            let _ = stopping.wait_for(|stop| *stop).await;
        };
        http::serve(listener, router, &config.http, stopped).await;
        Ok(())
    });
    Ok(())
}

/// The histograms of the metrics are emptied now and then, also when nobody scrapes them.
async fn upkeep(
    metrics: metrics_exporter_prometheus::PrometheusHandle,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), String> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(5)) => metrics.run_upkeep(),
            _ = stopping.wait_for(|stop| *stop) => return Ok(()),
        }
    }
}

/// Waits for all tasks. If one ends before its time, the others are told to stop.
async fn finish(
    tasks: &mut JoinSet<Result<(), String>>,
    stop: &watch::Sender<bool>,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), String> {
    let mut result = Ok(());
    let too_late = async move {
        let _ = stopping.wait_for(|stop| *stop).await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::pin!(too_late);
    loop {
        let ended = tokio::select! {
            ended = tasks.join_next() => ended,
            () = &mut too_late => return Err(format!("still busy {} seconds after the signal", GRACE.as_secs())),
        };
        let Some(ended) = ended else {
            return result;
        };
        stop.send_replace(true);
        result = result.and(ended.unwrap_or_else(|why| Err(why.to_string())));
    }
}

/// Connects, and tries again while the server is not there or starting. `None`: told to stop before that.
async fn connect(
    config: &Config,
    roles: Roles,
    stopping: &watch::Receiver<bool>,
) -> Result<Option<Store>, ConnectError> {
    let mut stopping = stopping.clone();
    loop {
        let usable = async {
            let store = usable(config).await?;
            acl::check(&store, config, roles).await.map(|()| store)
        };
        let error = match usable.await {
            Ok(store) => {
                let (data, module) = (store.backend().name(), store.has_module());
                tracing::info!(data, module, "connected");
                if !module {
                    tracing::warn!("no module: counters are Strings, sets of ids are Sets");
                }
                return Ok(Some(store));
            }
            Err(why) if why.may_pass() => why,
            Err(why) => return Err(why),
        };
        tracing::warn!(error = %error, "no connection to Redis yet");
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            _ = stopping.wait_for(|stop| *stop) => return Ok(None),
        }
    }
}

/// A store whose facts are kept as the configuration says.
async fn usable(config: &Config) -> Result<Store, ConnectError> {
    let store = Store::connect(&config.redis, config.log.partitions).await?;
    facts::check_or_init(&store, config).await?;
    Ok(store)
}

/// Stops everything at the first SIGTERM or SIGINT.
fn wait_for_signal(stop: watch::Sender<bool>) -> std::io::Result<impl Future<Output = ()> + Send> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        stop.send_replace(true);
    })
}
