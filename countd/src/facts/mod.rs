//! Fact stores: records of which users performed a metric on an entity. Recording a fact, counting it and appending its event are
//! one atomic step.

mod bitmap;
mod card;
mod change;
pub(crate) mod compaction;
mod daily;
mod layout;
mod member;
mod mixed;
mod rbm;
mod recount;
mod set;
mod split;
mod store;
mod stores;

pub use card::{Card, CardSource, cards, cards_permissions, decode_cards, may_differ};
pub use compaction::required_permissions as compaction_permissions;
pub use layout::{check, check_or_init};
pub use member::MemberSource;
pub use recount::{recount, recount_permissions};
pub use set::{decode_page as decode_set_page, set_page, set_page_permissions};
pub use split::{AT_SHARD, Leaving, MERGING, Part, SplitFacts};
pub use store::{
    CounterField, Fact, FactChange, FactGroup, FactPage, FactStore, InvalidCursor, counter_call,
    decode_change, decode_group,
};
pub use stores::FactStores;
