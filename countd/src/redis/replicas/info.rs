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
    /// The connected replicas of a primary.
    pub replicas: Vec<Address>,
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
                _ if is_replica(name) => found.replicas.extend(online_replica(value)),
                _ => {}
            }
        }
        found
    }
}

/// Whether slots are moving away from a node, from its reply to `CLUSTER NODES`.
pub(super) fn has_moving_slots(nodes: &str) -> bool {
    let mut lines = nodes.lines();
    let own = lines.find(|line| line.contains("myself"));
    own.is_none_or(|line| line.contains("->-"))
}

/// Whether it is the name of a replica: `slave0`, `slave1` ...
fn is_replica(name: &str) -> bool {
    let number = name.strip_prefix("slave");
    number.is_some_and(|number| number.parse::<u16>().is_ok())
}

/// The address of a replica: `ip=127.0.0.1,port=6380,state=online,offset=14,lag=0`.
fn online_replica(text: &str) -> Option<Address> {
    let field = |name: &str| {
        let mut fields = text.split(',').filter_map(|field| field.split_once('='));
        fields.find(|(found, _)| *found == name)
    };
    let (_, state) = field("state")?;
    let ((_, ip), (_, port)) = (field("ip")?, field("port")?);
    (state == "online").then_some((ip.to_owned(), port.parse().ok()?))
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
        };
        assert_eq!(Replication::parse(replica), expected);
    }
}
