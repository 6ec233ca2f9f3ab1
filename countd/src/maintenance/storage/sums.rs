//! Gives up sweeps over authors: credits move between keys or entities.

use super::slots::slots;
use crate::domain::error::StoreError;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use std::sync::LazyLock;

/// Gives up the comparison of sums of credits in a slot.
static GIVE_UP: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/sums_give_up.lua")));

/// The permission that [`give_up`] requires.
pub fn give_up_permissions() -> Permissions {
    GIVE_UP.required_permissions()
}

/// Gives up the sweep over authors that is under way: nothing is compared with its sums.
///
/// # Errors
/// The store is unavailable. It may have been given up in some slots; the call can be repeated.
pub async fn give_up(store: &Store) -> Result<(), StoreError> {
    for partition in slots(store) {
        let call = GIVE_UP.script.key(store.keys().sums_state(partition));
        let _: u64 = call.invoke_async(&mut store.commands()).await?;
    }
    Ok(())
}
