//! Real Kafka: nodes that are brokers and KRaft controllers, each a process in a temporary directory, on free ports.

use super::names::TOPIC;
use super::programs::{jars, java};
use super::topic::Topic;
use crate::support::certificates::{Authority, Files};
use crate::support::process::send_signal;
use countint_tests::env::{TempDir, deadline, free_port};
use countint_tests::kafka::{self, Node};
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::{Offset, TopicPartitionList};
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The user of brokers with [`Security::Sasl`] or [`Security::MutualTls`].
pub const USER: &str = "countd";
/// The password of the user. It must not appear in any log.
pub const PASSWORD: &str = "open-sesame-4711";

/// How clients connect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// Without TLS, as anyone.
    Plain,
    /// TLS and SASL (SCRAM-SHA-512 or PLAIN) for [`USER`]. An ACL authorizes each operation.
    Sasl,
    /// Mutual TLS: the principal is the common name of the client certificate. An ACL authorizes each operation.
    MutualTls,
}

/// A cluster. Dropping it kills the processes.
pub struct Brokers {
    nodes: Vec<Node>,
    /// By node, its process while it runs.
    processes: Vec<Option<Child>>,
    security: Security,
    /// The authority of the certificates, with TLS.
    authority: Option<Authority>,
    dir: TempDir,
    runtime: Runtime,
}

impl Brokers {
    /// Starts a cluster of this many nodes, and creates the topic with this number of partitions. A record is in the log when it is on two
    /// nodes, if there are several.
    pub fn start(nodes: usize, partitions: i32) -> Brokers {
        Brokers::with(nodes, partitions, Security::Plain)
    }

    /// [`start`](Brokers::start) with another security.
    pub fn with(nodes: usize, partitions: i32, security: Security) -> Brokers {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let node = |id| Node {
            id,
            port: free_port(),
            internal: free_port(),
            controller: free_port(),
        };
        let mut brokers = Brokers {
            nodes: (1..=nodes).map(node).collect(),
            processes: (0..nodes).map(|_| None).collect(),
            security,
            authority: (security != Security::Plain).then(Authority::new),
            dir: TempDir::new(),
            runtime: { runtime }.enable_all().build().expect("a runtime"),
        };
        if let Some(authority) = &brokers.authority {
            authority.write(&brokers.authority());
            let files = brokers.issue("127.0.0.1");
            let [key, cert] = [files.key, files.cert].map(|file| fs::read(file).expect("a file"));
            fs::write(brokers.keystore(), [key, cert].concat()).expect("written");
        }
        for node in 0..nodes {
            brokers.format(node);
        }
        brokers.launch_together(&(0..nodes).collect::<Vec<_>>());
        brokers.create_topic(partitions);
        brokers
    }

    /// The addresses for clients, separated by commas.
    pub fn addresses(&self) -> String {
        self.list(|node| node.port)
    }

    fn internal_addresses(&self) -> String {
        self.list(|node| node.internal)
    }

    fn list(&self, port: impl Fn(&Node) -> u16) -> String {
        let addresses = self.nodes.iter().map(port);
        let addresses: Vec<String> = addresses.map(|port| format!("127.0.0.1:{port}")).collect();
        addresses.join(",")
    }

    /// The certificate of the authority of brokers with TLS.
    pub fn authority(&self) -> PathBuf {
        self.dir.path().join("authority.crt")
    }

    /// A certificate of the authority for a name.
    pub fn issue(&self, name: &str) -> Files {
        let authority = self.authority.as_ref().expect("brokers with TLS");
        authority.issue(self.dir.path(), name)
    }

    fn keystore(&self) -> PathBuf {
        self.dir.path().join("keystore.pem")
    }

    /// The topic as an administrator sees it.
    pub fn topic(&self) -> Topic {
        Topic::new(&self.internal_addresses(), &[])
    }

    /// Kills a node with SIGKILL.
    pub fn kill(&mut self, node: usize) {
        if let Some(mut process) = self.processes[node].take() {
            // It may have ended.
            let _ = process.kill();
            process.wait().expect("a killed process can be waited for");
        }
    }

    /// Starts a node, and waits until it accepts connections.
    pub fn launch(&mut self, node: usize) {
        self.spawn(node);
        self.wait_for(node);
    }

    /// Starts nodes, and waits until all accept connections. Alone, one of three waits for another one before it does.
    pub fn launch_together(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.spawn(*node);
        }
        for node in nodes {
            self.wait_for(*node);
        }
    }

    /// Sends a signal by name (`STOP`, `CONT` ...) to a node.
    pub fn signal(&self, node: usize, signal: &str) {
        let process = self.processes[node].as_ref().expect("it runs");
        send_signal(process.id(), signal);
    }

    fn wait_for(&mut self, node: usize) {
        let process = self.processes[node].as_mut().expect("it was started");
        let listens = self.nodes[node].wait_for(process, deadline(120));
        if let Err(error) = listens {
            panic!("a broker does not start: {error}\n{}", self.log(node));
        }
    }

    /// Starts a node. Alone, one of three waits for another one before it accepts connections.
    pub fn spawn(&mut self, node: usize) {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file(node))
            .expect("the test's directory is writable");
        let errors = log.try_clone().expect("a file");
        let process = java("kafka.Kafka")
            .arg(self.properties_file(node))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn();
        self.processes[node] = Some(process.expect("java is installed"));
    }

    /// The output of a node.
    pub fn log(&self, node: usize) -> String {
        fs::read_to_string(self.log_file(node)).unwrap_or_default()
    }

    fn log_file(&self, node: usize) -> PathBuf {
        self.dir.path().join(format!("node-{node}.log"))
    }

    fn properties_file(&self, node: usize) -> PathBuf {
        self.dir.path().join(format!("node-{node}.properties"))
    }

    /// Writes the properties of a node, and formats its storage.
    fn format(&self, node: usize) {
        let user = format!("SCRAM-SHA-512=[name={USER},password={PASSWORD}]");
        let more: &[&str] = match self.security {
            Security::Plain | Security::MutualTls => &[],
            Security::Sasl => &["--add-scram", &user],
        };
        let (file, properties) = (self.properties_file(node), self.properties(node));
        kafka::format_storage(&jars(), &file, &properties, more).expect("formatted");
    }

    fn properties(&self, node: usize) -> String {
        let node = &self.nodes[node];
        let data = self.dir.path().join(format!("data-{}", node.id));
        let protocol = match self.security {
            Security::Plain => "PLAINTEXT",
            Security::Sasl => "SASL_SSL",
            Security::MutualTls => "SSL",
        };
        let common = node.properties(&self.nodes, &data, protocol)
            + "num.network.threads=2\nnum.io.threads=2\ninitial.broker.registration.timeout.ms=180000\n\
               log.initial.task.delay.ms=500\nlog.retention.check.interval.ms=500\nlog.segment.delete.delay.ms=500\n";
        let authentication = match self.security {
            Security::Plain => return common,
            Security::Sasl => format!(
                "listener.name.client.sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN\n\
                 listener.name.client.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n\
                 listener.name.client.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\";\n"
            ),
            // The name of the user is that in the certificate.
            Security::MutualTls => format!(
                "listener.name.client.ssl.client.auth=required\nlistener.name.client.ssl.truststore.type=PEM\n\
                 listener.name.client.ssl.truststore.location={}\nssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/\n",
                self.authority().display()
            ),
        };
        let tls = format!(
            "listener.name.client.ssl.keystore.type=PEM\nlistener.name.client.ssl.keystore.location={}\n\
             authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:ANONYMOUS\n",
            self.keystore().display()
        );
        common + &authentication + &tls
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        let config = { rdkafka::ClientConfig::new() }
            .set("bootstrap.servers", self.internal_addresses())
            .clone();
        config.create().expect("an administrator")
    }

    /// Runs an operation of an administrator until it succeeds: the brokers elect a controller when they start, or when one was killed.
    #[track_caller]
    fn retry<T>(
        &self,
        what: &str,
        mut operation: impl FnMut(
            &AdminClient<DefaultClientContext>,
            &AdminOptions,
            &Runtime,
        ) -> Result<T, String>,
    ) -> T {
        let admin = self.admin();
        let options = AdminOptions::new()
            .request_timeout(Some(Duration::from_secs(10)))
            .operation_timeout(Some(Duration::from_secs(10)));
        let limit = Instant::now() + deadline(120);
        loop {
            match operation(&admin, &options, &self.runtime) {
                Ok(done) => return done,
                Err(error) => assert!(Instant::now() < limit, "{what}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Creates the topic, with a replica on each node.
    #[track_caller]
    pub fn create_topic(&self, partitions: i32) {
        self.create(partitions, None);
    }

    /// Creates the topic with the replicas of each partition on these nodes, by their numbers from 1 on.
    #[track_caller]
    pub fn create_topic_on(&self, nodes: &[&[i32]]) {
        let partitions = i32::try_from(nodes.len()).expect("a few partitions");
        self.create(partitions, Some(nodes));
    }

    #[track_caller]
    fn create(&self, partitions: i32, nodes: Option<&[&[i32]]>) {
        let all = i32::try_from(self.nodes.len()).expect("a few nodes");
        self.retry("the topic is created", |admin, options, runtime| {
            let replicas = nodes.map_or(TopicReplication::Fixed(all), TopicReplication::Variable);
            let topic = NewTopic::new(TOPIC, partitions, replicas);
            let created = runtime.block_on(admin.create_topics([&topic], options));
            let created = created.map_err(|error| error.to_string())?;
            match created.into_iter().next() {
                Some(Ok(_) | Err((_, rdkafka::types::RDKafkaErrorCode::TopicAlreadyExists))) => {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            }
        });
        // Leaders are elected after the creation is confirmed.
        self.topic().watermarks();
    }

    /// Deletes the topic.
    #[track_caller]
    pub fn delete_topic(&self) {
        self.retry("the topic is deleted", |admin, options, runtime| {
            let deleted = runtime.block_on(admin.delete_topics(&[TOPIC], options));
            match deleted.map_err(|error| error.to_string())?.first() {
                Some(
                    Ok(_) | Err((_, rdkafka::types::RDKafkaErrorCode::UnknownTopicOrPartition)),
                ) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    /// Adds partitions to the topic.
    #[track_caller]
    pub fn set_partitions(&self, partitions: usize) {
        self.retry("partitions are added", |admin, options, runtime| {
            let more = NewPartitions::new(TOPIC, partitions);
            let added = runtime.block_on(admin.create_partitions([&more], options));
            match added.map_err(|error| error.to_string())?.first() {
                Some(Ok(_)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    /// Deletes the records of a partition before an offset, as retention does.
    #[track_caller]
    pub fn delete_records(&self, partition: i32, before: i64) {
        self.retry("records are deleted", |admin, options, runtime| {
            let mut offsets = TopicPartitionList::new();
            offsets
                .add_partition_offset(TOPIC, partition, Offset::Offset(before))
                .map_err(|error| error.to_string())?;
            let deleted = runtime.block_on(admin.delete_records(&offsets, options));
            deleted.map(drop).map_err(|error| error.to_string())
        });
    }

    /// Deletes the committed offsets of a group.
    #[track_caller]
    pub fn delete_group(&self, group: &str) {
        self.retry("the group is deleted", |admin, options, runtime| {
            let deleted = runtime.block_on(admin.delete_groups(&[group], options));
            match deleted.map_err(|error| error.to_string())?.first() {
                Some(Ok(_) | Err((_, rdkafka::types::RDKafkaErrorCode::GroupIdNotFound))) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    /// Sets a configuration of the topic.
    #[track_caller]
    pub fn configure(&self, name: &str, value: &str) {
        self.retry("the topic is configured", |admin, options, runtime| {
            let config = AlterConfig::new(ResourceSpecifier::Topic(TOPIC)).set(name, value);
            let altered = runtime.block_on(admin.alter_configs([&config], options));
            match altered.map_err(|error| error.to_string())?.first() {
                Some(Ok(_)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    /// Adds or removes ACLs of [`USER`]: arguments of Kafka's tool, such as `--operation Read --topic cnt-update`.
    pub fn acl(&self, action: &str, of: &str) {
        let output = java("org.apache.kafka.tools.AclCommand")
            .args(["--bootstrap-server", &self.internal_addresses(), action])
            .args(["--force", "--allow-principal", &format!("User:{USER}")])
            .args(of.split(' '))
            .output()
            .expect("java is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for node in 0..self.nodes.len() {
            if std::thread::panicking() {
                let log = self.log(node);
                let lines: Vec<&str> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(20)..].join("\n");
                eprintln!("--- broker {}, end of its log:\n{end}\n---", node + 1);
            }
            self.kill(node);
        }
    }
}
