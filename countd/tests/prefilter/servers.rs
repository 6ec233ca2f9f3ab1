//! Servers without the module: statuses are read from Redis, although the configuration enables the prefilter.

use super::{CONFIG, answers, builds, has, start};
use crate::support::stores::plain;
use crate::support::{metric, on_note, set_schema};

#[test]
fn without_the_module_statuses_are_read_from_redis() {
    let store = plain();
    set_schema(&store.server, CONFIG);
    let filtering = start(&store.server, "serve");
    let acting = start(&store.server, "all");
    let (api, other) = (filtering.api(), acting.api());
    for uid in 1..=20 {
        assert!(!has(&api, 1, uid));
        other.act("like", on_note(1, uid));
        assert!(has(&api, 1, uid), "user {uid}");
    }
    assert_eq!((answers(&api), builds(&api)), (0, 0));
    assert_eq!(metric(&api, "countd_prefilter_bytes"), 0);
    assert!(filtering.log().contains("prefilter: needs the module"));
}
