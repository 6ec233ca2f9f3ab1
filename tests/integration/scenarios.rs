//! Every scenario, by every route: directly, in transactions and in scripts, in RESP2 and RESP3.

use countint_tests::play::{Player, Route};
use countint_tests::{Scenario, Server};

fn play_all(route: Route, resp3: bool) {
    let server = Server::start();
    let mut player = Player::new(&server, route, resp3);
    let mut failed = Vec::new();
    for scenario in Scenario::all() {
        failed.extend(player.play(&scenario));
    }
    assert!(
        failed.is_empty(),
        "{} steps failed:\n\n{}",
        failed.len(),
        failed.join("\n\n")
    );
}

#[test]
fn scenarios_hold_in_resp2() {
    play_all(Route::Direct, false);
}

#[test]
fn scenarios_hold_in_resp3() {
    play_all(Route::Direct, true);
}

#[test]
fn scenarios_hold_in_transactions() {
    play_all(Route::Multi, false);
}

#[test]
fn scenarios_hold_in_transactions_in_resp3() {
    play_all(Route::Multi, true);
}

#[test]
fn scenarios_hold_in_scripts() {
    play_all(Route::Lua, false);
}
