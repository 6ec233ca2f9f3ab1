//! Apache Kafka: a broker on the client's core, and programs from the same jars on the server's core.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use countint_tests::kafka::{Node, SMALL, format_storage, java};

use crate::driver::countd::Setting;
use crate::driver::cpu;
use crate::driver::server::{Workdir, free_port, stop};
use crate::error::Result;

/// The timeout for the broker to accept connections.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The timeout of a program.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(600);
/// The interval at which a program is looked at.
const POLL: Duration = Duration::from_millis(10);
/// The options of the virtual machine that Kafka's own scripts set for a broker.
const OF_BROKER: [&str; 7] = [
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
];
/// Those for the performance tests.
const OF_PERF_TEST: [&str; 6] = [
    "-Xmx512M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
];

/// A running broker, which is also its own controller. Stopped when dropped.
pub struct Kafka {
    child: Child,
    node: Node,
    jars: PathBuf,
    /// The directory for the output of programs.
    output: PathBuf,
}

/// A program that has ended.
pub struct Ended {
    /// What it printed.
    pub output: String,
    /// CPU seconds that it has used, from its start on.
    pub cpu_seconds: f64,
}

impl Kafka {
    /// Formats the storage of a broker in `dir`, and starts it on the client's core.
    pub fn start(jars: &Path, dir: &Workdir) -> Result<Kafka> {
        let node = Node {
            id: 1,
            port: free_port()?,
            internal: free_port()?,
            controller: free_port()?,
        };
        let (file, log) = (dir.file("kafka.properties"), dir.file("kafka.log"));
        let properties = node.properties(&[node], &dir.file("kafka"), "PLAINTEXT");
        format_storage(jars, &file, &properties, &[])
            .map_err(|e| format!("the storage of Kafka cannot be formatted: {e}"))?;
        let output = File::create(&log)?;
        let child = java(jars, &OF_BROKER, "kafka.Kafka")
            .arg(&file)
            .current_dir(log.parent().unwrap_or(Path::new("/")))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .map_err(|e| format!("cannot start java: {e}"))?;
        let mut kafka = Kafka {
            child,
            node,
            jars: jars.to_owned(),
            output: dir.file("kafka-program.log"),
        };
        let listens = kafka.node.wait_for(&mut kafka.child, START_TIMEOUT);
        listens.map_err(|e| {
            let log = fs::read_to_string(&log).unwrap_or_default();
            format!("Kafka does not start: {e}\n{log}")
        })?;
        Ok(kafka)
    }

    /// Its address for clients.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.node.port)
    }

    /// The settings of countd with a topic of this broker as the log.
    pub fn settings(&self, topic: &str) -> Vec<Setting> {
        let brokers = format!("[\"{}\"]", self.address());
        vec![
            ("COUNTD_LOG__KIND", "kafka".to_owned()),
            ("COUNTD_KAFKA__BROKERS", brokers),
            ("COUNTD_KAFKA__TOPIC", topic.to_owned()),
        ]
    }

    /// Creates a topic.
    pub fn create_topic(&self, topic: &str, partitions: u32) -> Result<()> {
        let mut create = java(&self.jars, &SMALL, "org.apache.kafka.tools.TopicCommand");
        create.args(["--bootstrap-server", &self.address(), "--create"]);
        create.args(["--topic", topic, "--replication-factor", "1"]);
        create.args(["--partitions", &partitions.to_string()]);
        self.run(create)?;
        Ok(())
    }

    /// Runs one of Kafka's performance tests on the server's core: a class, and its arguments.
    pub fn perf_test(&self, class: &str, arguments: &[&str]) -> Result<Ended> {
        let mut command = java(&self.jars, &OF_PERF_TEST, class);
        command.args(arguments);
        self.run(command)
    }

    /// Runs a program on the server's core until it ends.
    fn run(&self, mut program: Command) -> Result<Ended> {
        let output = File::create(&self.output)?;
        program
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let spawn = || {
            Ok(program
                .spawn()
                .map_err(|e| format!("cannot start java: {e}"))?)
        };
        let mut child = cpu::on_server_core(spawn)?;
        let (started, mut cpu_seconds) = (Instant::now(), 0.0);
        let status = loop {
            // Until it is waited for, an ended process still tells what it has used.
            if let Ok(seconds) = cpu::process_seconds(child.id()) {
                cpu_seconds = seconds;
            }
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if started.elapsed() > PROGRAM_TIMEOUT {
                stop(&mut child);
                return Err("a program of Kafka does not end".into());
            }
            sleep(POLL);
        };
        let output = fs::read_to_string(&self.output)?;
        match status.success() {
            true => Ok(Ended {
                output,
                cpu_seconds,
            }),
            false => Err(format!("a program of Kafka failed ({status}):\n{output}").into()),
        }
    }

    /// CPU seconds that the broker has used.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu::process_seconds(self.child.id())
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}
