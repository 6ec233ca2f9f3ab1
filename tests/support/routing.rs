//! Which nodes of a cluster execute a command, and how their replies become one, as the tips `request_policy` and `response_policy` of Redis's
//! commands say.

use crate::reply;
use redis::Value;

/// How the replies of all masters become one.
pub(crate) enum Aggregation {
    /// All of them are the same.
    First,
    /// The sum of integers.
    Sum,
    /// The elements of all arrays.
    Concatenation,
    /// Texts, one after the other.
    Text,
    /// Digests of values: a node that does not have the key replies with zeros.
    Digests,
}

/// How the replies to a command that all nodes execute become one; `None` for a command of the node that serves its key, and for one about a
/// node.
pub(crate) fn aggregation<A: AsRef<[u8]>>(args: &[A]) -> Option<Aggregation> {
    let word = |at: usize| {
        let arg = args.get(at).map_or(&[][..], AsRef::as_ref);
        String::from_utf8_lossy(arg).to_ascii_uppercase()
    };
    match (word(0).as_str(), word(1).as_str()) {
        ("KEYS", _) => Some(Aggregation::Concatenation),
        ("DBSIZE", _) => Some(Aggregation::Sum),
        ("DEBUG", "DIGEST") => Some(Aggregation::Text),
        ("DEBUG", "DIGEST-VALUE") => Some(Aggregation::Digests),
        ("FLUSHALL" | "SAVE" | "BGSAVE" | "BGREWRITEAOF", _)
        | ("CONFIG", "SET" | "RESETSTAT")
        | ("ACL", "SETUSER" | "DELUSER")
        | ("SCRIPT", "FLUSH")
        | ("FUNCTION", "FLUSH" | "LOAD" | "DELETE")
        | ("MODULE", "LOAD")
        | ("CLIENT", "PAUSE" | "UNPAUSE" | "KILL") => Some(Aggregation::First),
        _ => None,
    }
}

impl Aggregation {
    /// The reply of all nodes. An error of one of them is the reply.
    pub fn of(&self, mut replies: Vec<Value>) -> Value {
        if let Some(error) = replies.iter().position(is_error) {
            return replies.swap_remove(error);
        }
        match self {
            Aggregation::First => replies.swap_remove(0),
            Aggregation::Sum => Value::Int(replies.into_iter().map(reply::int).sum()),
            Aggregation::Concatenation => {
                Value::Array(replies.into_iter().flat_map(reply::array).collect())
            }
            Aggregation::Text => {
                let texts: Vec<String> = replies.into_iter().map(reply::text).collect();
                Value::SimpleString(texts.join(" "))
            }
            Aggregation::Digests => {
                let digests = replies.into_iter().map(reply::array).map(|of_node| {
                    let digests = of_node.into_iter().map(reply::text);
                    digests.collect::<Vec<_>>()
                });
                let digests = digests.reduce(|all, of_node| {
                    let pairs = all.into_iter().zip(of_node);
                    pairs.map(|(one, other)| one.max(other)).collect()
                });
                let digests = digests.unwrap_or_default().into_iter();
                Value::Array(digests.map(Value::SimpleString).collect())
            }
        }
    }
}

fn is_error(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(_))
}

/// The port of the node that serves the key; `None` if it is not another one.
pub(crate) fn moved_to(reply: &Value) -> Option<u16> {
    let Value::ServerError(error) = reply else {
        return None;
    };
    let details = error.details().filter(|_| error.code() == "MOVED")?;
    details.rsplit(':').next()?.parse().ok()
}
