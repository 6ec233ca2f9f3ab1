//! Redis Sentinel: countd finds the master, and follows failovers.

use crate::redis_tls::{self, TlsServer};
use crate::support::certificates::{Authority, Files};
use crate::support::{
    Countd, Settings, on_note, run_with_url, set_schema, wait_until_drained, with,
};
use countint_tests::env::{TempDir, free_port, server_command};
use countint_tests::{Builder, Client, Server, reply, wait_until};
use serde_json::json;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A name of this machine may be an address of IPv6.
const BIND: &str = "bind 127.0.0.1 -::1";

/// The certificates of servers and Sentinels that require certificates of their clients, and that of countd.
struct Certificates {
    /// The address or name of all servers and Sentinels.
    host: &'static str,
    ca: PathBuf,
    server: Files,
    client: Files,
    _dir: TempDir,
}

impl Certificates {
    fn new(host: &'static str) -> Certificates {
        let (dir, authority) = (TempDir::new(), Authority::new());
        Certificates {
            host,
            ca: authority.write(&dir.path().join("ca.crt")),
            server: authority.issue(dir.path(), host),
            client: authority.issue(dir.path(), "countd"),
            _dir: dir,
        }
    }

    /// A server that replicates over TLS. `None` if the server has no TLS.
    fn start(&self, builder: Builder) -> Option<TlsServer> {
        let builder = builder
            .config("tls-replication yes")
            .config(BIND)
            .config(&format!("replica-announce-ip {}", self.host));
        redis_tls::start(builder, &self.ca, &self.server, "yes")
    }

    /// The settings of a Sentinel that has TLS on a port, and speaks it with servers and other Sentinels. It tells names as they are.
    fn of_sentinel(&self, port: u16) -> String {
        format!(
            "tls-port {port}\ntls-replication yes\ntls-ca-cert-file {}\ntls-cert-file {}\ntls-key-file {}\n\
             sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n",
            self.ca.display(),
            self.server.cert.display(),
            self.server.key.display()
        )
    }
}

/// A Sentinel process. Dropping it kills the process.
struct Sentinel {
    process: Child,
    /// The port for the tests, without TLS.
    port: u16,
    /// The port for countd.
    public_port: u16,
    _dir: TempDir,
}

impl Sentinel {
    /// Starts a Sentinel of the master `counts` on a port. Two Sentinels must agree on a failover.
    fn start(master: u16, certificates: Option<&Certificates>) -> Sentinel {
        let (dir, port) = (TempDir::new(), free_port());
        let public_port = certificates.map_or(port, |_| free_port());
        let file = dir.path().join("sentinel.conf");
        let tls = certificates.map(|certificates| certificates.of_sentinel(public_port));
        let host = certificates.map_or("127.0.0.1", |certificates| certificates.host);
        let text = format!(
            "port {port}\n{BIND}\ndir {}\nrequirepass sesame\nsentinel sentinel-pass sesame\n{}\
             sentinel monitor counts {host} {master} 2\nsentinel down-after-milliseconds counts 1000\n\
             sentinel failover-timeout counts 3000\n",
            dir.path().display(),
            tls.unwrap_or_default()
        );
        fs::write(&file, text).expect("written");
        let mut words = server_command().into_iter();
        let program = words.next().expect("a server");
        let log = File::create(dir.path().join("sentinel.log")).expect("written");
        let process = Command::new(program)
            .args(words)
            .arg(&file)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .expect("a Sentinel");
        Sentinel {
            process,
            port,
            public_port,
            _dir: dir,
        }
    }

    /// Whether it knows a replica of the master and both other Sentinels.
    fn knows_all(&self) -> bool {
        let Ok(mut client) = Client::connect(self.port) else {
            return false;
        };
        let _ = client.try_call(&["AUTH", "sesame"]);
        let state = client.run("SENTINEL MASTER counts");
        let lines: Vec<&str> = state.lines().collect();
        let field = |name: &str| {
            let at = lines
                .iter()
                .position(|line| line.ends_with(&format!("\"{name}\"")))?;
            Some(lines.get(at + 1)?.split('"').nth(1)?.to_owned())
        };
        field("num-slaves").as_deref() == Some("1")
            && field("num-other-sentinels").as_deref() == Some("2")
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A master, its replica and three Sentinels.
struct Deployment {
    master: Server,
    replica: Server,
    sentinels: Vec<Sentinel>,
    certificates: Option<Certificates>,
}

impl Deployment {
    fn start() -> Deployment {
        let master = Server::builder().append_only(true).start();
        let replica = master.replica();
        let port = master.port();
        Deployment::with(master, replica, port, None)
    }

    /// With TLS between all of them, which know each other by this host. `None` if the server has no TLS.
    fn over_tls(host: &'static str) -> Option<Deployment> {
        let certificates = Certificates::new(host);
        let master = certificates.start(Server::builder().append_only(true))?;
        let of_master = format!("replicaof {host} {}", master.port);
        let replica = certificates.start(Server::builder().config(&of_master))?;
        replica.server.wait_for_link();
        let (port, certificates) = (master.port, Some(certificates));
        Some(Deployment::with(
            master.server,
            replica.server,
            port,
            certificates,
        ))
    }

    fn with(
        master: Server,
        replica: Server,
        port: u16,
        certificates: Option<Certificates>,
    ) -> Deployment {
        let sentinels = (0..3).map(|_| Sentinel::start(port, certificates.as_ref()));
        let sentinels: Vec<Sentinel> = sentinels.collect();
        wait_until("the Sentinels know each other", || {
            sentinels.iter().all(Sentinel::knows_all)
        });
        Deployment {
            master,
            replica,
            sentinels,
            certificates,
        }
    }

    /// The host and port of the URL are not used.
    fn url(&self) -> &'static str {
        match self.certificates {
            Some(_) => "rediss://nowhere.invalid:1/",
            None => "redis://nowhere.invalid:1/",
        }
    }

    /// The first address is one at which no Sentinel listens.
    fn config(&self, more: &str) -> String {
        let addresses = [free_port()].into_iter();
        let sentinels = self.sentinels.iter();
        let addresses = addresses.chain(sentinels.map(|sentinel| sentinel.public_port));
        let certificates = self.certificates.as_ref();
        let host = certificates.map_or("127.0.0.1", |certificates| certificates.host);
        let addresses: Vec<String> = addresses.map(|port| format!("\"{host}:{port}\"")).collect();
        let tls = certificates.map(|of| redis_tls::connections(&of.ca, Some(&of.client)));
        format!(
            "[redis]\nresponse_timeout_ms = 3000\n{more}{}[redis.sentinel]\naddresses = [{}]\nmaster = \"counts\"\npassword = \"sesame\"\n\
             [log]\npartitions = 16\n[consumer]\nsession_timeout_ms = 1000\n",
            tls.unwrap_or_default(),
            addresses.join(", ")
        )
    }

    /// What `countd check` prints about a configuration.
    fn check(&self, config: &str) -> String {
        let output = run_with_url(self.url().to_owned(), config, &["check"]);
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// Whether a server is a master. One that becomes a master closes its connections.
fn is_master(server: &Server) -> bool {
    let reply = server.client().try_call(&["INFO", "replication"]);
    reply.is_ok_and(|reply| reply::text(reply).contains("role:master"))
}

/// Sends actions until one succeeds with this user.
fn act(countd: &Countd, uid: u64) {
    let body = with(on_note(1, uid), json!({ "author": 7 })).to_string();
    let api = countd.api();
    wait_until("an action succeeds", || {
        matches!(api.try_post("/action/like", &body), Ok((200, _)))
    });
}

/// Fails over by `interrupt`, which makes the master unavailable, and returns when the replica is the master.
fn counts_after(deployment: Deployment, interrupt: impl Fn(&mut Server), more: &str) {
    let config = &deployment.config(more);
    let url = deployment.url();
    let Deployment {
        mut master,
        replica,
        sentinels: _sentinels,
        certificates: _certificates,
    } = deployment;
    set_schema(&master, "[log]\npartitions = 16\n");
    let command = "all";
    let settings = Settings { command, config };
    let environment = vec![("COUNTD_REDIS__URL".into(), url.into())];
    let countd = Countd::with_environment(&master, &settings, environment);
    (1..=20).for_each(|uid| act(&countd, uid));
    wait_until_drained(&master, 16);
    // Replication is asynchronous: what the replica does not have is lost with the master.
    master.wait_for_replica(&replica);
    interrupt(&mut master);
    wait_until("the replica is the master", || is_master(&replica));
    (21..=40).for_each(|uid| act(&countd, uid));
    wait_until_drained(&replica, 16);
    let api = countd.api();
    wait_until("reads come from the new master", || {
        api.try_get("/counter/note/1")
            .is_ok_and(|(status, body)| status == 200 && body.contains("\"like\":40"))
    });
    assert_eq!(api.user(7)["likesReceived"], 40);
    wait_until("it is ready", || api.get("/readyz").0 == 200);
}

#[test]
fn a_master_that_is_killed_is_replaced() {
    counts_after(Deployment::start(), Server::kill, "");
}

/// Its connections stay open, and nothing answers.
#[test]
fn a_master_that_hangs_is_replaced() {
    let interrupt = |master: &mut Server| master.signal("STOP");
    let more = "read_from = \"replica\"\n";
    counts_after(Deployment::start(), interrupt, more);
}

#[test]
fn a_master_that_is_killed_is_replaced_over_tls() {
    if let Some(deployment) = Deployment::over_tls("127.0.0.1") {
        counts_after(deployment, Server::kill, "");
    }
}

/// The certificates have a name, which the Sentinels tell.
#[test]
fn a_master_that_hangs_is_replaced_over_tls_by_name() {
    let interrupt = |master: &mut Server| master.signal("STOP");
    if let Some(deployment) = Deployment::over_tls("localhost") {
        counts_after(deployment, interrupt, "read_from = \"replica\"\n");
    }
}

#[test]
fn a_master_that_no_sentinel_knows_is_refused() {
    let deployment = Deployment::start();
    let known = deployment.config("");
    let errors = deployment.check(&known);
    assert!(!errors.contains("cannot connect"), "{errors}");
    let errors = deployment.check(&known.replace("\"counts\"", "\"other\""));
    assert!(errors.contains("No such master"), "{errors}");
    let errors = deployment.check(&known.replace("sesame", "wrong"));
    assert!(errors.contains("cannot connect"), "{errors}");
}

#[test]
fn sentinels_with_certificates_that_are_not_valid_are_refused() {
    let Some(deployment) = Deployment::over_tls("127.0.0.1") else {
        return;
    };
    let known = deployment.config("");
    let errors = deployment.check(&known);
    assert!(!errors.contains("cannot connect"), "{errors}");
    let certificates = deployment.certificates.as_ref().expect("certificates");
    let dir = TempDir::new();
    let other = Authority::new().write(&dir.path().join("other.crt"));
    let unknown = known.replace(
        &certificates.ca.display().to_string(),
        &other.display().to_string(),
    );
    let errors = deployment.check(&unknown);
    assert!(errors.contains("UnknownIssuer"), "{errors}");
    // They require certificates of clients.
    let with_client = redis_tls::connections(&certificates.ca, Some(&certificates.client));
    let without = redis_tls::connections(&certificates.ca, None);
    let errors = deployment.check(&known.replace(&with_client, &without));
    assert!(errors.contains("cannot connect"), "{errors}");
    // A port of a Sentinel without TLS.
    let sentinels = deployment.sentinels.iter();
    let plain = sentinels.fold(known, |config, sentinel| {
        let (tls, plain) = (sentinel.public_port, sentinel.port);
        config.replace(&format!("127.0.0.1:{tls}"), &format!("127.0.0.1:{plain}"))
    });
    let errors = deployment.check(&plain);
    assert!(errors.contains("cannot connect"), "{errors}");
}
