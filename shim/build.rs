//! Generates the entry points and our own calls from the table of MPI functions and the ABI tables from that of MPI's constants, and
//! links so that the library stays loaded and has a versioned name.

#[path = "api/constants.rs"]
mod constants;
#[allow(dead_code)] // Only names and their order are used here.
#[path = "../base/src/families.rs"]
mod families;
#[path = "api/functions.rs"]
mod functions;
#[path = "api/generate.rs"]
mod generate;
#[path = "api/own_calls.rs"]
mod own_calls;

use families::Family;

const LIBRARY: &str = "libmpi_connect.so";

fn main() {
    println!("cargo::rerun-if-changed=api");
    println!("cargo::rerun-if-changed=../base/src/families.rs");
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR").expect("set by cargo"));
    let read = |table: &str| std::fs::read_to_string(table).expect("the tables are in the tree");
    let write = |file: &str, text: String| std::fs::write(out.join(file), text).expect("OUT_DIR is writable");
    let functions = read("api/functions.txt");
    let wrong = |e| panic!("functions.txt: {e}");
    for (file, made) in generate::generate(&functions).unwrap_or_else(wrong) {
        write(file, made);
    }
    write("own_calls.rs", own_calls::generate(&functions).unwrap_or_else(|e| panic!("functions.txt: {e}")));
    let abi = constants::parse(&read("api/constants.txt")).and_then(|rows| constants::generate(&rows));
    write("abi.rs", abi.unwrap_or_else(|e| panic!("constants.txt: {e}")));
    // The library's thread and attribute callbacks must outlive a dlclose of it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let soname = format!("{LIBRARY}.{}", env!("CARGO_PKG_VERSION_MAJOR"));
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    link_beside_library(&out, &soname);
}

/// Cargo writes the library under its plain name, but objects that are linked with it there ask for the versioned name.
fn link_beside_library(out: &std::path::Path, soname: &str) {
    // PROFILE/build/NAME/out
    let Some(profile) = out.ancestors().nth(3) else { return };
    let link = profile.join(soname);
    if link.read_link().ok().as_deref() != Some(LIBRARY.as_ref()) {
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(LIBRARY, &link).expect("the folder that cargo builds in is writable");
    }
}
