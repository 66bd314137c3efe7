//! Files that are made from the sources: written where `MPI_CONNECT_WRITE_HEADERS` is set, compared otherwise.

use std::path::PathBuf;

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn settle(file: &str, text: &str) {
    let path = root().join(file);
    if std::env::var_os("MPI_CONNECT_WRITE_HEADERS").is_some() {
        std::fs::write(&path, text).expect("the tree is writable");
    } else {
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(there, text, "{file} is not what the source says: run `make headers`");
    }
}
