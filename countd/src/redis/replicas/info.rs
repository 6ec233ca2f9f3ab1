//! `INFO replication`.

use crate::redis::address::Address;
use redis::RedisError;
use redis::aio::ConnectionLike;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["INFO replication"];

/// The replication of a server.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Replication {
    /// The ID of the history. It changes when a replica takes over, and when a primary starts again.
    pub history: String,
    /// Whether it is a primary.
    pub is_primary: bool,
    /// The offset up to which the server has executed the history.
    pub offset: u64,
    /// Whether a replica is connected and in sync.
    pub is_linked: bool,
    /// The replicas of a primary that are connected and in sync.
    pub replicas: Vec<Address>,
    /// All connected replicas of a primary.
    pub connected: Vec<ConnectedReplica>,
}

/// A replica as its primary knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectedReplica {
    /// Its address.
    pub address: Address,
    /// `online`, or the state of its synchronization.
    pub state: String,
    /// The offset up to which it has said to have received the history. It says so each second.
    pub offset: u64,
}

impl ConnectedReplica {
    /// Whether it is in sync.
    pub fn is_online(&self) -> bool {
        self.state == "online"
    }
}

impl Replication {
    /// Reads it.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn read(server: &mut impl ConnectionLike) -> Result<Replication, RedisError> {
        let text: String = redis::cmd("INFO")
            .arg("replication")
            .query_async(server)
            .await?;
        Ok(Replication::parse(&text))
    }

    fn parse(text: &str) -> Replication {
        let mut found = Replication::default();
        for line in text.lines() {
            let Some((name, value)) = line.trim_end().split_once(':') else {
                continue;
            };
            match name {
                "role" => found.is_primary = value == "master",
                "master_replid" => value.clone_into(&mut found.history),
                "master_link_status" => found.is_linked = value == "up",
                // A replica has both. What it has received and not executed is in neither.
                "master_repl_offset" if found.is_primary => {
                    found.offset = value.parse().unwrap_or(0);
                }
                "slave_repl_offset" => found.offset = value.parse().unwrap_or(0),
                _ if is_replica(name) => found.connected.extend(connected_replica(value)),
                _ => {}
            }
        }
        let online = found.connected.iter().filter(|replica| replica.is_online());
        found.replicas = online.map(|replica| replica.address.clone()).collect();
        found
    }
}

/// Whether slots are moving away from a node, from its reply to `CLUSTER NODES`.
pub(super) fn has_moving_slots(nodes: &str) -> bool {
    let mut lines = nodes.lines();
    let own = lines.find(|line| line.contains("myself"));
    own.is_none_or(|line| line.contains("->-"))
}

/// The ID of a node, and the addresses of the replicas that belong to it, from its reply to `CLUSTER NODES`.
pub fn replicas_of_node(nodes: &str) -> (String, Vec<Address>) {
    let lines: Vec<Vec<&str>> = nodes
        .lines()
        .map(|line| line.split(' ').collect())
        .collect();
    let own = lines
        .iter()
        .find(|line| line.get(2).is_some_and(|flags| flags.contains("myself")));
    let own = own
        .and_then(|line| line.first())
        .copied()
        .unwrap_or_default();
    let replicas = lines.iter().filter_map(|line| {
        let [_, address, flags, primary, ..] = line.as_slice() else {
            return None;
        };
        let is_replica = flags
            .split(',')
            .any(|flag| flag == "slave" || flag == "replica");
        // `host:port@bus`, and since Redis 7.0 `,hostname` after it.
        let address = address.split(['@', ',']).next()?;
        let (host, port) = address.rsplit_once(':')?;
        let address = (host.to_owned(), port.parse().ok()?);
        (is_replica && *primary == own).then_some(address)
    });
    (own.to_owned(), replicas.collect())
}

/// Whether it is the name of a replica: `slave0`, `slave1` ...
fn is_replica(name: &str) -> bool {
    let number = name.strip_prefix("slave");
    number.is_some_and(|number| number.parse::<u16>().is_ok())
}

/// A replica: `ip=127.0.0.1,port=6380,state=online,offset=14,lag=0`.
fn connected_replica(text: &str) -> Option<ConnectedReplica> {
    let field = |name: &str| {
        let mut fields = text.split(',').filter_map(|field| field.split_once('='));
        fields.find_map(|(found, value)| (found == name).then_some(value))
    };
    Some(ConnectedReplica {
        address: (field("ip")?.to_owned(), field("port")?.parse().ok()?),
        state: field("state")?.to_owned(),
        offset: field("offset").and_then(|offset| offset.parse().ok())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slots_that_leave_the_node_matter() {
        let lines = |own: &str| {
            format!(
                "a h:1@2 master - 0 0 1 connected 0-9 [3->-b]\nb h:2@3 myself,master - 0 0 2 connected {own}\n"
            )
        };
        assert!(!has_moving_slots(&lines("10-20")));
        assert!(!has_moving_slots(&lines("10-20 [3-<-a]")));
        assert!(has_moving_slots(&lines("10-20 [11->-a]")));
        assert!(has_moving_slots(""), "unknown");
    }

    #[test]
    fn replicas_of_a_node_are_parsed() {
        let nodes = "a 10.0.0.1:1@2 myself,master - 0 0 1 connected 0-9\nb 10.0.0.2:2@3,host master - 0 0 2 connected 10-20\n\
            c 10.0.0.3:3@4,host slave a 0 0 1 connected\nd 10.0.0.4:4@5 slave b 0 0 2 connected\n\
            e 10.0.0.5:5@6 slave,fail a 0 0 1 disconnected\n";
        let address = |host: &str, port| (host.to_owned(), port);
        let expected = vec![address("10.0.0.3", 3), address("10.0.0.5", 5)];
        assert_eq!(replicas_of_node(nodes), ("a".to_owned(), expected));
    }

    #[test]
    fn primary_and_replica_are_parsed() {
        let primary = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
             slave0:ip=10.0.0.2,port=6380,state=online,offset=14,lag=0\r\n\
             slave1:ip=10.0.0.3,port=6380,state=wait_bgsave,offset=0,lag=0\r\n\
             master_replid:ab\r\nmaster_replid2:00\r\nmaster_repl_offset:15\r\n";
        let expected = Replication {
            history: "ab".to_owned(),
            is_primary: true,
            offset: 15,
            is_linked: false,
            replicas: vec![("10.0.0.2".to_owned(), 6380)],
            connected: [("10.0.0.2", "online", 14), ("10.0.0.3", "wait_bgsave", 0)]
                .map(|(ip, state, offset)| ConnectedReplica {
                    address: (ip.to_owned(), 6380),
                    state: state.to_owned(),
                    offset,
                })
                .into(),
        };
        assert_eq!(Replication::parse(primary), expected);
        let replica = "role:slave\r\nmaster_link_status:up\r\nslave_read_repl_offset:14\r\n\
             slave_repl_offset:12\r\nslave_priority:100\r\nconnected_slaves:0\r\nmaster_replid:ab\r\nmaster_repl_offset:14\r\n";
        let expected = Replication {
            history: "ab".to_owned(),
            is_primary: false,
            offset: 12,
            is_linked: true,
            replicas: Vec::new(),
            connected: Vec::new(),
        };
        assert_eq!(Replication::parse(replica), expected);
    }
}
