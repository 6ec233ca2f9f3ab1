//! Apache Kafka in KRaft mode: the Java programs of its jars, and nodes that are brokers and controllers. The benchmarks use it, too, so
//! errors are returned.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The variable with the directory that `scripts/kafka` prints.
pub const JARS: &str = "COUNTINT_KAFKA";

/// Options of the virtual machine for a small program that runs for a moment: only the first compiler compiles.
pub const SMALL: [&str; 3] = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/// A Java program whose class path has the jars of a directory. `options` are those of the virtual machine.
pub fn java(jars: &Path, options: &[&str], class: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("java");
    command
        .args(options)
        .arg("-cp")
        .arg(jars.join("*"))
        .arg(class);
    command
}

/// A node on this machine: broker and controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number, from 1 on.
    pub id: usize,
    /// The port for clients.
    pub port: u16,
    /// The port for the other brokers and for administrators, without TLS.
    pub internal: u16,
    /// The port for controllers.
    pub controller: u16,
}

impl Node {
    /// The properties of one of these nodes, with its data in a directory. A record is in the log when it is on two nodes, if there are
    /// several. `protocol` is the security protocol for clients.
    pub fn properties(&self, nodes: &[Node], data: &Path, protocol: &str) -> String {
        let Node {
            id,
            port,
            internal,
            controller,
        } = self;
        let voters = nodes.iter();
        let voters = voters.map(|node| format!("{}@127.0.0.1:{}", node.id, node.controller));
        let voters = voters.collect::<Vec<_>>().join(",");
        let (count, in_sync) = (nodes.len(), nodes.len().min(2));
        // The buffer of the cleaner is half of the heap by default.
        format!(
            "process.roles=broker,controller\nnode.id={id}\ncontroller.quorum.voters={voters}\ncontroller.listener.names=CONTROLLER\n\
             listeners=CLIENT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal},CONTROLLER://127.0.0.1:{controller}\n\
             listener.security.protocol.map=CLIENT:{protocol},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             inter.broker.listener.name=INTERNAL\nlog.dirs={}\nlog.cleaner.dedupe.buffer.size=8388608\n\
             auto.create.topics.enable=false\nunclean.leader.election.enable=false\nmin.insync.replicas={in_sync}\n\
             default.replication.factor={count}\noffsets.topic.replication.factor={count}\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor={count}\ntransaction.state.log.min.isr={in_sync}\n",
            data.display()
        )
    }

    /// Waits until the node accepts connections.
    ///
    /// # Errors
    /// Its process ended, or the time is up.
    pub fn wait_for(&self, process: &mut Child, limit: Duration) -> io::Result<()> {
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = process.try_wait()? {
                return Err(io::Error::other(format!("the broker ended: {status}")));
            }
            if started.elapsed() > limit {
                let problem = "the broker does not accept connections";
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// Writes the properties of a node to a file, and formats its storage. `more` are further arguments of Kafka's tool.
///
/// # Errors
/// The file cannot be written, Java is missing, or what the tool says.
pub fn format_storage(jars: &Path, file: &Path, properties: &str, more: &[&str]) -> io::Result<()> {
    fs::write(file, properties)?;
    let output = java(jars, &SMALL, "kafka.tools.StorageTool")
        .args(["format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ"])
        .arg("--config")
        .arg(file)
        .args(more)
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr))),
    }
}
