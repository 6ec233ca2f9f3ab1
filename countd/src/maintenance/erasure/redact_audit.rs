//! What remains of an entry of the audit when a user is erased.

use super::names::{ERASED, without_id};
use crate::domain::config::USER;

/// What an entry of the audit has as the source if a timeline of a user was corrected (verified.lua).
const REVERSE: &str = "reverse";

/// Removes a user from the fields and values of an entry of the audit. Texts that operators write may name the user anywhere.
pub fn redact_audit(fields: &[String], uid: &str) -> Vec<String> {
    let pairs = || fields.chunks(2);
    let has = |name: &str, value: &str| pairs().any(|pair| pair == [name, value]);
    let is_on_user = has("etype", USER) && has("eid", uid);
    // The row of a timeline is the entity of the fact: an erased user, if the timeline has users.
    let is_user_row = match has("source", REVERSE) {
        true => pairs().any(|pair| matches!(pair, [name, key] if name == "key" && has_users(key))),
        false => is_on_user,
    };
    let redacted = pairs().flat_map(|pair| {
        let [name, value] = pair else {
            return pair.to_vec();
        };
        let value = match name.as_str() {
            "eid" if is_on_user => ERASED.to_owned(),
            "key" if is_on_user => without_id(value, uid),
            "row" if is_user_row && value == uid => ERASED.to_owned(),
            "by" | "reason" | "traceId" => without_id(value, uid),
            _ => value.clone(),
        };
        vec![name.clone(), value]
    });
    redacted.collect()
}

/// Whether a key is a timeline of facts on users: `rtl:{metric}:{etype}:{uid}`.
fn has_users(key: &str) -> bool {
    key.split(':').nth(2) == Some(USER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of every script that writes to the audit.
    #[test]
    fn audits_lose_the_user_and_keep_numbers_of_entities() {
        for (entry, expected) in [
            // counter_adjust.lua
            (
                "before 42 etype note eid 42 key cnt:v1:note:42 by 42 reason for-42 traceId 42",
                "before 42 etype note eid 42 key cnt:v1:note:42 by erased reason for-42 traceId erased",
            ),
            (
                "before 42 etype user eid 42 key ucnt:42 by 42 reason for-42 traceId 42",
                "before 42 etype user eid erased key ucnt:erased by erased reason for-42 traceId erased",
            ),
            // check_now.lua, rebuild.lua, rebuild_apply.lua and checks.lua, for an entity.
            (
                "after 42 row 42 etype note eid 42 metric like source rebuild round 42 key tab:v1:note:42",
                "after 42 row 42 etype note eid 42 metric like source rebuild round 42 key tab:v1:note:42",
            ),
            // checks.lua, for followers of a user.
            (
                "after 42 row 42 etype user eid 42 metric followers source user number counter key utab:1",
                "after 42 row erased etype user eid erased metric followers source user number counter key utab:1",
            ),
            // check_users.lua, compare_sums.lua and rebuild.lua, for a user.
            (
                "after 42 key utab:{7} row 42 etype user eid 42 metric likesReceived source credits",
                "after 42 key utab:{7} row erased etype user eid erased metric likesReceived source credits",
            ),
            (
                "after 42 key utab:7 row 43 etype user eid 43 metric posts source user",
                "after 42 key utab:7 row 43 etype user eid 43 metric posts source user",
            ),
            // verified.lua: a fact of another user on this one, and facts of this user.
            (
                "after 42 key rtl:follow:user:9 row 42 etype user eid 9 metric follow source reverse",
                "after 42 key rtl:follow:user:9 row erased etype user eid 9 metric follow source reverse",
            ),
            (
                "after 42 key rtl:follow:user:42:{7} row 9 etype user eid 42 metric follow source reverse",
                "after 42 key rtl:follow:user:erased:{7} row 9 etype user eid erased metric follow source reverse",
            ),
            (
                "after 42 key rtl:like:note:42 row 42 etype user eid 42 metric like source reverse",
                "after 42 key rtl:like:note:erased row 42 etype user eid erased metric like source reverse",
            ),
            (
                "after 42 key rtl:like:note:9 row 42 etype user eid 9 metric like source reverse",
                "after 42 key rtl:like:note:9 row 42 etype user eid 9 metric like source reverse",
            ),
        ] {
            let fields: Vec<String> = entry.split(' ').map(str::to_owned).collect();
            assert_eq!(redact_audit(&fields, "42").join(" "), expected);
        }
    }
}
