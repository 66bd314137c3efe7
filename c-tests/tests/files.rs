//! The list of the system tests, where it must be whole.

use c_tests::root;
use std::collections::BTreeSet;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every file is a module of the program, and has its row in the page about the tests, which has no other.
#[test]
fn every_file_is_run_and_described() {
    let entries = std::fs::read_dir(root().join("c-tests/tests/system")).expect("the folder of the tests");
    let names = entries.filter_map(|e| e.ok()?.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned));
    let files: BTreeSet<_> = names.filter(|name| name != "main").collect();
    assert!(files.len() > 30, "{files:?}");
    let main = read("c-tests/tests/system/main.rs");
    let modules = main.lines().filter_map(|l| l.strip_prefix("mod ")?.strip_suffix(';').map(str::to_owned));
    let modules: BTreeSet<_> = modules.filter(|name| name != "functions").collect();
    assert_eq!(modules, files, "left: main.rs, right: files");
    let page = read("docs/testing.md");
    let rows = page.lines().filter_map(|l| l.strip_prefix("| `")?.split_once("` |").map(|(name, _)| name.to_owned()));
    let rows: BTreeSet<_> = rows.filter(|name| !name.contains(' ')).collect();
    assert_eq!(rows, files, "left: docs/testing.md, right: files");
}
