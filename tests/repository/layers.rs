//! The modules of a crate form layers: imports have no cycle, and a layer imports only those declared before it.

use crate::imports::{Graph, Module, display};
use countint_tests::env;
use std::fs;
use std::path::{Path, PathBuf};

/// A crate whose imports are checked.
struct Crate {
    /// The file of its root, from the root of the workspace.
    root: &'static str,
    /// Its top-level modules: each imports only those before it.
    layers: &'static [&'static str],
}

/// The crates that must have layers. `cycles_of_other_crates_are_listed` prints the state of the others.
const CRATES: [Crate; 2] = [
    Crate {
        root: "src/lib.rs",
        layers: &[
            "error", "config", "stats", "scratch", "server", "types", "commands", "registry",
            "entry",
        ],
    },
    Crate {
        root: "benches/live/src/main.rs",
        layers: &[
            "error", "driver", "workload", "measure", "report", "sections", "options",
        ],
    },
];

/// The other crates of the workspace.
const OTHERS: [&str; 3] = [
    "core/src/lib.rs",
    "countd/src/lib.rs",
    "tests/support/lib.rs",
];

fn graph(root: &str) -> Graph {
    Graph::of_crate(&env::workspace().join(root))
}

fn names(modules: &[Module]) -> String {
    let names: Vec<String> = modules.iter().map(display).collect();
    names.join(", ")
}

#[test]
fn imports_have_no_cycle() {
    for Crate { root, .. } in CRATES {
        let cycles: Vec<String> = graph(root).cycles().iter().map(|c| names(c)).collect();
        assert!(cycles.is_empty(), "{root}:\n{}", cycles.join("\n"));
    }
}

#[test]
fn a_layer_imports_only_those_before_it() {
    for Crate { root, layers } in CRATES {
        for (module, imports) in graph(root).top_level().imports {
            let place = |name: &str| {
                let found = layers.iter().position(|layer| *layer == name);
                found.unwrap_or_else(|| panic!("{root}: {name} is not in the list of layers"))
            };
            for import in imports {
                assert!(
                    place(&import[0]) < place(&module[0]),
                    "{root}: {} imports {}",
                    display(&module),
                    display(&import)
                );
            }
        }
    }
}

/// What the commands of several types need lies in `commands::shared`.
#[test]
fn families_of_commands_do_not_import_one_another() {
    let is_family = |module: &Module| {
        module.len() > 1
            && module[0] == "commands"
            && ["cint", "ctab", "rbm"].contains(&&*module[1])
    };
    let graph = graph("src/lib.rs");
    let families: Vec<_> = graph.imports.iter().filter(|(m, _)| is_family(m)).collect();
    assert!(families.len() > 3, "the families of commands are found");
    for (module, imports) in families {
        for import in imports.iter().filter(|import| is_family(import)) {
            assert_eq!(
                module[1],
                import[1],
                "{} imports {}",
                display(module),
                display(import)
            );
        }
    }
}

/// Prints the cycles of the crates that have no declared layers yet: `cargo test ... -- --nocapture`.
#[test]
fn cycles_of_other_crates_are_listed() {
    for root in OTHERS {
        let graph = graph(root);
        let top = graph.top_level();
        println!("{root}: {} modules", graph.imports.len());
        for (level, graph) in [("top level", &top), ("files", &graph)] {
            for cycle in graph.cycles() {
                println!("  cycle of {} ({level}): {}", cycle.len(), names(&cycle));
            }
        }
    }
}

/// A crate in a temporary folder, removed when dropped.
struct TemporaryCrate(PathBuf);

impl TemporaryCrate {
    fn new(name: &str, files: &[(&str, &str)]) -> TemporaryCrate {
        let root = std::env::temp_dir().join(format!("layers-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a file has a directory"))
                .expect("a temporary folder can be created");
            fs::write(path, text).expect("a temporary file can be written");
        }
        TemporaryCrate(root)
    }

    fn cycles(&self) -> Vec<String> {
        let graph = Graph::of_crate(&self.0.join("lib.rs"));
        graph.cycles().iter().map(|cycle| names(cycle)).collect()
    }
}

impl Drop for TemporaryCrate {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new(&self.0));
    }
}

#[test]
fn cycles_are_found_in_every_kind_of_import() {
    let other = ("b/mod.rs", "use crate::a::A; pub mod c; pub struct B;");
    for (name, import) in [
        ("use", "use crate::b::B; pub struct A;"),
        ("group", "use crate::{b::{self, B}}; pub struct A;"),
        ("super", "use super::b::B; pub struct A;"),
        (
            "path",
            "pub struct A; fn f() -> crate::b::B { crate::b::B }",
        ),
        (
            "macro",
            "pub struct A; fn f() { println!(\"{}\", crate::b::B) }",
        ),
    ] {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", import),
            other,
            ("b/c.rs", ""),
        ];
        let found = TemporaryCrate::new(name, &files).cycles();
        assert_eq!(found, ["a, b"], "{name}");
    }
}

#[test]
fn imports_of_tests_are_ignored() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
        ),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ];
    assert!(TemporaryCrate::new("tests", &files).cycles().is_empty());
}

#[test]
fn a_parent_and_a_child_can_form_a_cycle() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod b; use b::B; pub struct A;"),
        ("a/b.rs", "use super::A; pub struct B;"),
    ];
    let found = TemporaryCrate::new("child", &files).cycles();
    assert_eq!(found, ["a, a::b"]);
}
