//! A cluster of three masters.

use crate::builder::Builder;
use crate::env;
use crate::reply;
use crate::server::Server;
use crate::wait::wait_until;
use std::process::{Command, Output};

/// Three masters that serve all 16,384 slots.
pub struct Cluster {
    /// The nodes, in the order of their slots.
    pub nodes: Vec<Server>,
}

fn node() -> Builder {
    Server::builder()
        .config("cluster-enabled yes")
        .config("cluster-node-timeout 5000")
        .config("cluster-require-full-coverage yes")
}

impl Cluster {
    /// Starts three masters with the module and waits until each sees the whole cluster.
    ///
    /// # Panics
    /// After the deadline.
    pub fn start() -> Cluster {
        Cluster::with(|builder| builder)
    }

    /// [`start`](Self::start) with further settings for each node.
    ///
    /// # Panics
    /// After the deadline.
    pub fn with(settings: impl Fn(Builder) -> Builder) -> Cluster {
        let nodes = (0..3).map(|_| settings(node()).start()).collect();
        let cluster = Cluster { nodes };
        cluster.assign_slots();
        cluster
    }

    /// The nodes as one server.
    pub fn into_server(self) -> Server {
        Server::of_nodes(self.nodes)
    }

    fn assign_slots(&self) {
        let ranges = ["0 5460", "5461 10922", "10923 16383"];
        for (i, (node, range)) in self.nodes.iter().zip(ranges).enumerate() {
            let mut client = node.client();
            // Distinct epochs avoid a collision that the nodes would have to resolve.
            client.ok(&format!("CLUSTER SET-CONFIG-EPOCH {}", i + 1));
            client.ok(&format!("CLUSTER ADDSLOTSRANGE {range}"));
        }
        let mut first = self.nodes[0].client();
        for node in &self.nodes[1..] {
            first.ok(&format!("CLUSTER MEET 127.0.0.1 {}", node.port()));
        }
        self.wait_until_stable();
    }

    /// Waits until all nodes know the three masters and agree on a slot map that serves all slots.
    ///
    /// # Panics
    /// After the deadline.
    pub fn wait_until_stable(&self) {
        wait_until("the cluster is whole", || {
            let mut slots = Vec::new();
            for node in &self.nodes {
                let mut client = node.client();
                let info = reply::text(client.ok("CLUSTER INFO"));
                if !info.contains("cluster_state:ok") || !info.contains("cluster_size:3") {
                    return false;
                }
                let mut ranges: Vec<String> = reply::array(client.ok("CLUSTER SLOTS"))
                    .iter()
                    .map(reply::format)
                    .collect();
                ranges.sort();
                slots.push(ranges);
            }
            slots.windows(2).all(|pair| pair[0] == pair[1])
        });
    }

    /// Starts a replica of a master, with further settings, and waits until it is in sync and every node knows it.
    ///
    /// # Panics
    /// After the deadline.
    pub fn replica(&self, of: usize, settings: impl Fn(Builder) -> Builder) -> Server {
        let (replica, master) = (settings(node()).start(), &self.nodes[of]);
        let mut client = replica.client();
        client.ok(&format!("CLUSTER MEET 127.0.0.1 {}", master.port()));
        let replicate = format!("CLUSTER REPLICATE {}", self.id(of));
        wait_until("the replica knows its master", || {
            client.run(&replicate) == "OK"
        });
        replica.wait_for_link();
        self.wait_until_known(&replica, "slave");
        replica
    }

    /// Starts a further master without slots, and waits until every node knows it.
    ///
    /// # Panics
    /// After the deadline.
    pub fn join(&self) -> Server {
        let joining = node().start();
        let meet = format!("CLUSTER MEET 127.0.0.1 {}", joining.port());
        self.nodes[0].client().ok(&meet);
        self.wait_until_known(&joining, "master");
        wait_until("it sees the whole cluster", || {
            let info = reply::text(joining.client().ok("CLUSTER INFO"));
            info.contains("cluster_state:ok") && info.contains("cluster_size:3")
        });
        joining
    }

    /// Kills all nodes, starts them again on other ports, and lets them meet: each knows only the former addresses of the others. Waits
    /// until each sees the whole cluster.
    ///
    /// # Panics
    /// After the deadline.
    pub fn move_to(&mut self, ports: [u16; 3]) {
        self.nodes.iter_mut().for_each(Server::kill);
        for (node, port) in self.nodes.iter_mut().zip(ports) {
            node.start_again_at(port);
        }
        for node in &self.nodes {
            let mut client = node.client();
            for port in ports.iter().filter(|port| **port != node.port()) {
                client.ok(&format!("CLUSTER MEET 127.0.0.1 {port}"));
            }
        }
        self.wait_until_stable();
    }

    fn wait_until_known(&self, joined: &Server, role: &str) {
        let id = reply::text(joined.client().ok("CLUSTER MYID"));
        wait_until("all know the node", || {
            self.nodes.iter().all(|node| {
                let nodes = reply::text(node.client().ok("CLUSTER NODES"));
                let line = nodes.lines().find(|line| line.starts_with(&id));
                line.is_some_and(|line| line.contains(role) && line.contains(" connected"))
            })
        });
    }

    /// A client of the `redis` crate that follows redirections.
    pub fn connection(&self) -> redis::cluster::ClusterConnection {
        let nodes = self
            .nodes
            .iter()
            .map(|node| format!("redis://127.0.0.1:{}/", node.port()));
        redis::cluster::ClusterClient::new(nodes.collect::<Vec<_>>())
            .and_then(|client| client.get_connection())
            .unwrap_or_else(|why| panic!("cannot connect to the cluster: {why}"))
    }

    /// The node that serves a key.
    ///
    /// # Panics
    /// When none does.
    pub fn node_of(&self, key: &str) -> &Server {
        let node = self.nodes.iter().find(|node| node.serves(key));
        node.expect("a node serves the key")
    }

    /// A node's id in the cluster.
    pub fn id(&self, node: usize) -> String {
        reply::text(self.nodes[node].client().ok("CLUSTER MYID"))
    }

    /// Runs `redis-cli --cluster ARGS`. `{node}` in an argument is replaced by the address of the first node.
    ///
    /// # Panics
    /// When it fails, with its output.
    pub fn manage(&self, args: &[&str]) -> String {
        let address = format!("127.0.0.1:{}", self.nodes[0].port());
        let args = args.iter().map(|arg| arg.replace("{node}", &address));
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(env::cli())
            .arg("--cluster")
            .args(args)
            .output()
            .unwrap_or_else(|why| panic!("cannot start {}: {why}", env::cli().display()));
        let printed = format!(
            "{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
        assert!(status.success(), "redis-cli --cluster failed:\n{printed}");
        printed
    }
}
