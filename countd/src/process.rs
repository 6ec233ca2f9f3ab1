//! The process of `countd`, `countd serve`, `countd consume`, `countd relay` and `countd sink`: connects, starts the server, the consumer, the
//! relay or the sink, and stops them.

use crate::cli::acl::Roles;
use crate::connect::{connect, open_topic};
use crate::signals;
use crate::systemd::{self, PassedSocket};
use countd::domain::config::Config;
use countd::domain::error::ConnectError;
use countd::domain::health::Health;
use countd::http::Tls;
use countd::http::scrape::Scrape;
use countd::log::kafka::{Topic, TopicError};
use countd::maintenance::{erasure, rebuild, reconcile, split, sums, transposition};
use countd::monitor::differences::DifferenceRecorder;
use countd::redis::processes::{ProcessMember, is_anyone_behind};
use countd::redis::store::Store;
use countd::repair::HotEntities;
use countd::storage::catalog::Catalog;
use countd::trace::Traces;
use countd::{consumer, http, relay, sink};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long requests and batches in progress may take after a signal to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval between two looks at the other processes.
const HEARTBEAT_POLL: Duration = Duration::from_millis(100);
/// The interval at which the recorder of the metrics moves samples into histograms, with or without scrapes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Serves the API, consumes the log, or both, or relays an outbox table, or keeps tables, until a signal to stop.
///
/// # Errors
/// Redis or the tables cannot be used, an address cannot be bound, or a task failed.
pub async fn run(config: Arc<Config>, roles: Roles) -> Result<(), Box<dyn Error>> {
    let metrics = Scrape::install()?;
    let traces = Traces::start(&config.tracing)?;
    let mut socket = PassedSocket::from_environment()?;
    systemd::keep_alive();
    let (stop, stopping) = watch::channel(false);
    let health = Health::default();
    let drain = config.http.drain();
    tokio::spawn(signals::handle(stop.clone(), health.clone(), drain)?);
    let mut tasks: JoinSet<Result<(), String>> = JoinSet::new();
    let mut members = Members::default();
    // One of the stores of the process is enough.
    let monitor = |store: &Store| {
        let of_process = &metrics.monitor;
        of_process.start(config.monitor, store.clone(), stopping.clone());
    };
    // Only servers and consumers compare counters.
    let mut differences = None;
    let mut shared_topic = SharedTopic::new(&metrics);
    if roles.consumes {
        // A separate connection, so that batches do not delay requests.
        let Some(store) = connect(&config, roles, &stopping).await? else {
            return Ok(());
        };
        let config = Arc::new(store.with_columns(&config));
        members.add(&store, &config).await?;
        monitor(&store);
        let Some(topic) = shared_topic.open(&config, &store, &stopping).await? else {
            return Ok(());
        };
        differences = Some(DifferenceRecorder::new(store.clone()));
        settle_at_start(&store, &config).await;
        let address = config.consumer.listen.filter(|_| !roles.serves);
        listen_operational(
            &mut tasks,
            &config,
            (&mut socket, "consumer.listen", address),
            (&store, &health, &metrics),
            &stopping,
        )
        .await?;
        let (config, health) = (Arc::clone(&config), health.clone());
        let data = (store.clone(), topic.clone());
        let jobs = erasure::run(Arc::clone(&config), data, stopping.clone());
        tasks.spawn(async move {
            jobs.await;
            Ok(())
        });
        let sweep = sums::run(
            Arc::clone(&config),
            store.clone(),
            health.sweeps().clone(),
            stopping.clone(),
        );
        let facts = transposition::run(
            Arc::clone(&config),
            store.clone(),
            health.sweeps().clone(),
            stopping.clone(),
        );
        // Its future stays on one thread.
        let splits = tokio::task::spawn_blocking({
            let (config, store, stopping) = (Arc::clone(&config), store.clone(), stopping.clone());
            move || Handle::current().block_on(split::run(config, store, stopping))
        });
        let mut until_stopped = stopping.clone();
        tasks.spawn(async move {
            let (_, _, _) = tokio::join!(sweep, facts, splits);
            // Without sweeps the process goes on.
            let _ = until_stopped.wait_for(|stop| *stop).await;
            Ok(())
        });
        let rebuild = rebuild::run_at_start(Arc::clone(&config), store.clone(), stopping.clone());
        let mut until_stopped = stopping.clone();
        tasks.spawn(async move {
            rebuild.await;
            let _ = until_stopped.wait_for(|stop| *stop).await;
            Ok(())
        });
        let (assignment, assigned) = watch::channel(Arc::new(Vec::new()));
        let catalog = Catalog::new(Arc::clone(&config), store.clone());
        let context = reconcile::Context {
            store: store.clone(),
            catalog,
        };
        let hot = HotEntities::default();
        let rounds = reconcile::run(
            context,
            assigned,
            (hot.clone(), health.sweeps().clone()),
            stopping.clone(),
        );
        tasks.spawn(async move {
            rounds.await;
            Ok(())
        });
        let stopping = stopping.clone();
        tasks.spawn(async move {
            consumer::run(config, store, (health, hot), assignment, topic, stopping).await;
            Ok(())
        });
    }
    if roles.relays {
        let Some(store) = connect(&config, roles, &stopping).await? else {
            return Ok(());
        };
        let config = Arc::new(store.with_columns(&config));
        members.add(&store, &config).await?;
        monitor(&store);
        let address = config.relay.listen;
        listen_operational(
            &mut tasks,
            &config,
            (&mut socket, "relay.listen", address),
            (&store, &health, &metrics),
            &stopping,
        )
        .await?;
        let Some(topic) = shared_topic.open(&config, &store, &stopping).await? else {
            return Ok(());
        };
        let relay = relay::run(Arc::clone(&config), (store, topic), stopping.clone());
        tasks.spawn(async move { relay.await.map_err(|error| error.to_string()) });
    }
    if roles.sinks {
        let Some(store) = connect(&config, roles, &stopping).await? else {
            return Ok(());
        };
        let config = Arc::new(store.with_columns(&config));
        members.add(&store, &config).await?;
        monitor(&store);
        let address = config.sink.listen;
        listen_operational(
            &mut tasks,
            &config,
            (&mut socket, "sink.listen", address),
            (&store, &health, &metrics),
            &stopping,
        )
        .await?;
        let Some(topic) = shared_topic.open(&config, &store, &stopping).await? else {
            return Ok(());
        };
        let sink = sink::run(Arc::clone(&config), (store, topic), stopping.clone());
        tasks.spawn(async move { sink.await.map_err(|error| error.to_string()) });
    }
    if roles.serves {
        let Some(store) = connect(&config, roles, &stopping).await? else {
            return Ok(());
        };
        let config = Arc::new(store.with_columns(&config));
        members.add(&store, &config).await?;
        monitor(&store);
        let Some(topic) = shared_topic.open(&config, &store, &stopping).await? else {
            return Ok(());
        };
        differences.get_or_insert_with(|| DifferenceRecorder::new(store.clone()));
        let data = (store, topic);
        let router = http::router(&config, data, health, metrics.clone(), stopping.clone())?;
        let listener = bind(&mut socket, config.http.listen).await?;
        check_address(&config, "http.listen", &listener)?;
        listen(&mut tasks, &config, listener, router, &stopping)?;
    }
    tasks.spawn(maintain_metrics(metrics, differences, stopping.clone()));
    systemd::report_ready(stopping.clone());
    let result = join_all(&mut tasks, &stop, stopping).await;
    members.leave().await;
    if let Some(traces) = traces {
        traces.flush().await;
    }
    tracing::info!("stopped");
    result.map_err(Into::into)
}

/// The heartbeats by which migrations of the layout know the stores of this process.
#[derive(Default)]
pub struct Members {
    finished: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Members {
    /// Sends heartbeats for a store from now on, and follows its layout.
    ///
    /// # Errors
    /// The layout cannot be read.
    pub async fn add(&mut self, store: &Store, config: &Config) -> Result<(), ConnectError> {
        let mut member = ProcessMember::counting(store.clone(), config);
        tracing::info!(process = member.id(), "sends heartbeats");
        match start(&mut member).await {
            // The task will send it again. The layout was read when the store connected.
            Err(error) if error.is_transient() => tracing::warn!(%error, "heartbeat failed"),
            started => started?,
        }
        self.tasks.spawn(member.run(self.finished.subscribe()));
        Ok(())
    }

    /// Ends all heartbeats. Nothing of this process may use the stores any more.
    pub async fn leave(mut self) {
        self.finished.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// The topic, which the roles of the process share: what one of them learns of it holds for all.
struct SharedTopic<'m> {
    metrics: &'m Scrape,
    topic: Option<Option<Topic>>,
}

impl SharedTopic<'_> {
    fn new(metrics: &Scrape) -> SharedTopic<'_> {
        SharedTopic {
            metrics,
            topic: None,
        }
    }

    /// [`open_topic`] for the first role. Its metrics are collected from then on.
    async fn open(
        &mut self,
        config: &Config,
        store: &Store,
        stopping: &watch::Receiver<bool>,
    ) -> Result<Option<Option<Topic>>, TopicError> {
        if self.topic.is_none() {
            self.topic = open_topic(config, store, stopping).await?;
            if let Some(Some(topic)) = &self.topic {
                self.metrics.monitor.watch_topic(topic);
            }
        }
        Ok(self.topic.clone())
    }
}

/// Permits comparisons of counters of new data at once. Rounds permit those of other data.
async fn settle_at_start(store: &Store, config: &Config) {
    if let Err(error) = reconcile::settle(store, config, Duration::ZERO).await {
        tracing::debug!(%error, "counters are compared with facts later");
    }
}

/// Sends the first heartbeat. If processes may compare counters by other settings, waits until none does.
async fn start(member: &mut ProcessMember) -> Result<(), ConnectError> {
    member.heartbeat().await?;
    let Some(epoch) = member.stop_other_counting().await? else {
        return Ok(());
    };
    let mut waits = false;
    while is_anyone_behind(&member.heartbeat().await?, epoch) {
        if !std::mem::replace(&mut waits, true) {
            tracing::info!("waiting until no process compares counters by other settings");
        }
        tokio::time::sleep(HEARTBEAT_POLL).await;
    }
    member.interrupt_days().await?;
    Ok(())
}

/// Serves operational requests at an address, if there is one.
async fn listen_operational(
    tasks: &mut JoinSet<Result<(), String>>,
    config: &Arc<Config>,
    (socket, setting, address): (&mut PassedSocket, &str, Option<SocketAddr>),
    (store, health, metrics): (&Store, &Health, &Scrape),
    stopping: &watch::Receiver<bool>,
) -> Result<(), Box<dyn Error>> {
    let Some(address) = address else {
        return Ok(());
    };
    let router = http::operational_router(
        config,
        store.clone(),
        health.clone(),
        metrics.clone(),
        stopping.clone(),
    )?;
    let listener = bind(socket, address).await?;
    check_address(config, setting, &listener)?;
    listen(tasks, config, listener, router, stopping)
}

/// Checks that a listener needs no token, or that there are tokens: systemd can pass another address than that of the setting.
fn check_address(
    config: &Config,
    setting: &str,
    listener: &TcpListener,
) -> Result<(), Box<dyn Error>> {
    let address = listener.local_addr()?.ip();
    Ok(config.auth.check_address(setting, address)?)
}

/// Takes the socket that systemd passed, or binds the address.
async fn bind(socket: &mut PassedSocket, address: SocketAddr) -> Result<TcpListener, String> {
    let passed = socket.take();
    let passed = passed.map_err(|error| format!("cannot use systemd's socket: {error}"))?;
    let listener = match passed {
        Some(listener) => {
            tracing::info!("systemd has passed the socket");
            Ok(listener)
        }
        None => TcpListener::bind(address).await,
    };
    listener.map_err(|error| format!("cannot listen on {address}: {error}"))
}

/// Spawns the server of a listener.
fn listen(
    tasks: &mut JoinSet<Result<(), String>>,
    config: &Arc<Config>,
    listener: TcpListener,
    api: http::Api,
    stopping: &watch::Receiver<bool>,
) -> Result<(), Box<dyn Error>> {
    let tls = Tls::start(&config.http.tls)?;
    let with_tls = tls.is_some();
    tracing::info!(address = %listener.local_addr()?, tls = with_tls, "serving");
    let (config, mut stopping) = (Arc::clone(config), stopping.clone());
    tasks.spawn(async move {
        let stop = async move {
            let _ = stopping.wait_for(|stop| *stop).await;
        };
        http::serve(listener, api, &config.http, tls, stop).await;
        Ok(())
    });
    Ok(())
}

/// Moves samples into histograms, and records the differences of counters in Redis.
async fn maintain_metrics(
    metrics: Scrape,
    mut differences: Option<DifferenceRecorder>,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), String> {
    loop {
        let is_stopping = tokio::select! {
            () = tokio::time::sleep(UPKEEP_INTERVAL) => false,
            _ = stopping.wait_for(|stop| *stop) => true,
        };
        metrics.run_upkeep();
        if let Some(differences) = &mut differences {
            differences.record(&metrics.recorded()).await;
        }
        if is_stopping {
            return Ok(());
        }
    }
}

/// Waits for all tasks. When one of them ends, the others are stopped.
async fn join_all(
    tasks: &mut JoinSet<Result<(), String>>,
    stop: &watch::Sender<bool>,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), String> {
    let mut result = Ok(());
    let timeout = async move {
        let _ = stopping.wait_for(|stop| *stop).await;
        tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
    };
    tokio::pin!(timeout);
    loop {
        let ended = tokio::select! {
            ended = tasks.join_next() => ended,
            () = &mut timeout => {
                let seconds = SHUTDOWN_TIMEOUT.as_secs();
                return Err(format!("shutdown timed out after {seconds} seconds"));
            }
        };
        let Some(ended) = ended else {
            return result;
        };
        stop.send_replace(true);
        result = result.and(ended.unwrap_or_else(|error| Err(error.to_string())));
    }
}
