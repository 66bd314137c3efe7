//! Generates the entry points from the table of MPI functions and the ABI tables from that of MPI's constants, and
//! links so that the library stays loaded.

#[path = "api/constants.rs"]
mod constants;
#[path = "api/functions.rs"]
mod functions;
#[path = "api/generate.rs"]
mod generate;

fn main() {
    println!("cargo::rerun-if-changed=api");
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR").expect("set by cargo"));
    let read = |table: &str| std::fs::read_to_string(table).expect("the tables are in the tree");
    let write = |file: &str, text: String| std::fs::write(out.join(file), text).expect("OUT_DIR is writable");
    let entries = generate::generate(&read("api/functions.txt"));
    write("entries.rs", entries.unwrap_or_else(|e| panic!("functions.txt: {e}")));
    let abi = constants::parse(&read("api/constants.txt")).and_then(|rows| constants::generate(&rows));
    write("abi.rs", abi.unwrap_or_else(|e| panic!("constants.txt: {e}")));
    // Our thread and attribute callbacks outlive any dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi_connect.so");
}
