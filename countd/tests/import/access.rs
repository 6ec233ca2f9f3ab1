//! The Redis user that `countd acl` creates may run imports.

use super::setup::{CONFIG, Files, set_schema};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{printed, run, run_as_user};

fn the_user_of_countd_acl_may_import(store: TestStore) {
    let server = &store.server;
    set_schema(server);
    let commands = printed(&run(server, CONFIG, &["acl"]));
    let mut client = server.client();
    for command in commands.lines() {
        client.ok(&command.replace("PASSWORD", "secret"));
    }
    let files = Files::new();
    let counts = files.write("c.csv", "etype,eid,comment\nnote,1,2\nnote,u-1,3\n");
    let facts = files.write("f.csv", "eid,uid\n1,2\nu-1,3\n");
    let import = |words: &str, file: &str| {
        let mut arguments = vec!["import"];
        arguments.extend(words.split(' '));
        arguments.push(file);
        printed(&run_as_user(server, "countd", CONFIG, &arguments))
    };
    import("counts --job c", &counts);
    let authors = files.write("a.csv", "etype,eid,author\nnote,1,2\nnote,u-1,3\n");
    import("authors --job authors", &authors);
    for metric in super::setup::STORES {
        import(
            &format!("facts --job {metric} --metric {metric} --etype note"),
            &facts,
        );
    }
    client.ok("HSET e:1 comment 5");
    client.ok("HSET e:u-1 comment 5");
    // Reading a source is not among the permissions: its URL has a user of its own.
    let source = format!("redis://127.0.0.1:{}/", server.port());
    let words = "counts --job live --verify minimum --from hash-per-entity --pattern e:{id} --etype note --source";
    import(words, &source);
    import("forget", "live");
}

for_each_store! {
    [module objects plain cluster]
    the_user_of_countd_acl_may_import
}
