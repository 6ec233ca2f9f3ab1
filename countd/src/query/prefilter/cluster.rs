//! What a node says about its cluster: the replies of `CLUSTER INFO` and `CLUSTER NODES`.

use std::collections::BTreeMap;

/// The number of fields of a line of `CLUSTER NODES` before the slots.
const FIELDS: usize = 8;

/// What `CLUSTER INFO` says of changes. A node that joins or leaves changes the number of known nodes; an election changes the epoch of the voters
/// before the replica takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Info {
    known_nodes: u64,
    pub(super) current_epoch: u64,
    /// The configuration epoch of the node, or of its primary.
    my_epoch: u64,
}

impl Info {
    /// Parses a reply. `None` if the node does not serve its slots.
    pub fn parse(reply: &str) -> Option<Info> {
        let fields = reply.lines().filter_map(|line| line.trim().split_once(':'));
        let fields: BTreeMap<&str, &str> = fields.collect();
        let number = |name: &str| fields.get(name)?.parse().ok();
        if fields.get("cluster_state") != Some(&"ok") {
            return None;
        }
        Some(Info {
            known_nodes: number("cluster_known_nodes")?,
            current_epoch: number("cluster_current_epoch")?,
            my_epoch: number("cluster_my_epoch")?,
        })
    }
}

/// A primary, as another node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Primary {
    /// The IP address; empty if the node does not know its own.
    ip: String,
    hostname: String,
    pub(super) port: u16,
    /// The ranges of slots, in their order; empty if it has none.
    slots: String,
}

impl Primary {
    /// The host at which it is reached. `hosts` are those of other nodes, as they are reached: by name or by IP address.
    pub fn host<'a>(&'a self, hosts: &'a [String]) -> Option<&'a str> {
        let is_name = |host: &String| host.parse::<std::net::IpAddr>().is_err();
        let by_name = !self.hostname.is_empty() && hosts.iter().any(is_name);
        match (by_name, self.ip.as_str()) {
            (true, _) => Some(&self.hostname),
            (false, "") => hosts.first().map(String::as_str),
            (false, ip) => Some(ip),
        }
    }
}

/// The primaries of a cluster, also those without slots, as one node knows them.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// The ID of this node.
    pub(super) myself: String,
    /// By ID.
    pub(super) primaries: BTreeMap<String, Primary>,
    /// Whether this node exports or imports a slot.
    pub(super) is_moving: bool,
}

impl View {
    /// Parses a reply of `CLUSTER NODES`. `None` if a primary with slots is not available, or the reply has another form.
    pub fn parse(reply: &str) -> Option<View> {
        let mut view = View::default();
        for line in reply.lines() {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let (fields, slots) = fields.split_at_checked(FIELDS)?;
            let (id, flags) = (fields[0].to_owned(), fields[2]);
            let has = |flag: &str| flags.split(',').any(|found| found == flag);
            if has("myself") {
                view.myself.clone_from(&id);
            }
            let (moving, owned): (Vec<&str>, Vec<&str>) =
                slots.iter().partition(|slot| slot.starts_with('['));
            view.is_moving |= !moving.is_empty();
            if !has("master") || has("handshake") {
                continue;
            }
            if has("fail") || has("noaddr") {
                // A primary that was replaced has no slots, and returns as a replica.
                match owned.is_empty() {
                    true => continue,
                    false => return None,
                }
            }
            let (address, rest) = fields[1].split_once('@')?;
            let (ip, port) = address.rsplit_once(':')?;
            let hostname = rest.split(',').nth(1).unwrap_or_default();
            let primary = Primary {
                ip: ip.to_owned(),
                hostname: hostname.to_owned(),
                port: port.parse().ok()?,
                slots: owned.join(" "),
            };
            view.primaries.insert(id, primary);
        }
        (!view.myself.is_empty()).then_some(view)
    }

    /// Whether both have the same primaries.
    pub fn has_same_primaries(&self, other: &View) -> bool {
        self.primaries.keys().eq(other.primaries.keys())
    }

    /// Whether both have the same primaries, and these the same slots. Nodes may know each other by different addresses.
    pub fn has_same_slots(&self, other: &View) -> bool {
        let slots = |of: &View| -> Vec<(String, String)> {
            let all = of.primaries.iter();
            all.map(|(id, primary)| (id.clone(), primary.slots.clone()))
                .collect()
        };
        slots(self) == slots(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_known_nodes:4\r\ncluster_size:3\r\n\
        cluster_current_epoch:7\r\ncluster_my_epoch:2\r\ncluster_stats_messages_sent:9\r\n";

    #[test]
    fn nodes_and_epochs_are_compared_but_not_statistics() {
        let info = Info::parse(INFO);
        assert!(info.is_some());
        assert_eq!(Info::parse(&INFO.replace("sent:9", "sent:10")), info);
        for (old, new) in [
            ("known_nodes:4", "known_nodes:5"),
            ("current_epoch:7", "current_epoch:8"),
            ("my_epoch:2", "my_epoch:8"),
        ] {
            let other = Info::parse(&INFO.replace(old, new));
            assert!(other.is_some() && other != info, "{new}");
        }
        assert_eq!(Info::parse(&INFO.replace("state:ok", "state:fail")), None);
        assert_eq!(Info::parse("cluster_state:ok\r\n"), None);
    }

    const NODES: &str = "\
aa 10.0.0.1:7001@17001,redis-1,shard-id=x myself,master - 0 0 1 connected 0-5 8 [9->-bb]
bb 10.0.0.2:7002@17002 master - 0 1 2 connected 9-16383
cc 10.0.0.3:7003@17003,, master,fail? - 0 1 0 connected
dd 10.0.0.4:7004@17004 slave bb 0 1 2 connected
ee 10.0.0.5:7005@17005 master,fail - 0 1 3 disconnected
ff 10.0.0.6:7006@17006 handshake - 0 0 0 disconnected
";

    #[test]
    fn primaries_are_found_also_those_without_slots() {
        let view = View::parse(NODES).expect("a view");
        assert_eq!(view.myself, "aa");
        assert!(view.is_moving);
        assert!(view.primaries.keys().eq(["aa", "bb", "cc"]));
        assert_eq!(view.primaries["aa"].slots, "0-5 8");
        assert_eq!(view.primaries["cc"].slots, "");
        assert_eq!(view.primaries["bb"].port, 7002);
        let lost = NODES.replace("disconnected\nff", "disconnected 7\nff");
        assert!(View::parse(&lost).is_none(), "a primary with slots failed");
        assert!(View::parse("ERR").is_none());

        let other = View::parse(&NODES.replace("10.0.0.1", "::1")).expect("a view");
        assert!(view.has_same_primaries(&other) && view.has_same_slots(&other));
        let moved = NODES.replace("9-16383", "8-16383").replace("0-5 8", "0-5");
        let moved = View::parse(&moved).expect("a view");
        assert!(view.has_same_primaries(&moved) && !view.has_same_slots(&moved));
        let promoted = NODES.replace("slave bb", "master -");
        let promoted = View::parse(&promoted).expect("a view");
        assert!(!view.has_same_primaries(&promoted) && !view.has_same_slots(&promoted));
    }

    #[test]
    fn a_primary_is_reached_as_the_others_are() {
        let nodes = NODES.replace("10.0.0.2:", "fe80::2:");
        let nodes = nodes.replace("10.0.0.3:", ":");
        let view = View::parse(&nodes).expect("a view");
        let host = |id: &str, known: &str| {
            let known = [known.to_owned()];
            let host = view.primaries[id].host(&known);
            host.expect("a host").to_owned()
        };
        assert_eq!(host("aa", "redis-2"), "redis-1");
        assert_eq!(host("aa", "10.0.0.9"), "10.0.0.1");
        assert_eq!(host("bb", "redis-2"), "fe80::2");
        assert_eq!(host("cc", "10.0.0.9"), "10.0.0.9");
    }
}
