//! Generates the entry points from the table of MPI functions, and links so that the library stays loaded.

#[path = "api/generate.rs"]
mod generate;

fn main() {
    let table = "api/functions.txt";
    println!("cargo::rerun-if-changed={table}");
    println!("cargo::rerun-if-changed=api/generate.rs");
    let out = std::path::Path::new(&std::env::var("OUT_DIR").expect("set by cargo")).join("entries.rs");
    let text = std::fs::read_to_string(table).expect("the table of functions is in the tree");
    std::fs::write(out, generate::generate(&text)).expect("OUT_DIR is writable");
    // Our thread and attribute callbacks outlive any dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi_connect.so");
}
