// Turns the rows of `functions.txt` that the library calls itself into `own!`, which src/forward/own.rs makes functions
// of. Used by build.rs only.

use crate::functions::{self, Function, types::Type};
use std::fmt::Write;

/// Types that are as wide as a register, and whose address is the place of one handle.
const HANDLES: [&str; 7] = ["Comm", "Datatype", "Errhandler", "Group", "Info", "Op", "Request"];

/// The type of an argument in Rust. Arrays of handles are untyped memory, since the width of a handle depends on the ABI.
fn rust(of: &Type) -> Option<String> {
    let mpi = of.of.strip_prefix("MPI_").unwrap_or_default();
    let (one, depth) = match (of.of.as_str(), mpi) {
        ("int", _) => ("c_int", of.depth),
        ("char", _) => ("c_char", of.depth),
        ("void", _) | (_, "Status") if of.depth > 0 => ("c_void", of.depth),
        (_, "Count") => ("i64", of.depth),
        (_, "Aint") => ("isize", of.depth),
        (_, handle) if HANDLES.contains(&handle) => (if of.is_array { "c_void" } else { "Handle" }, of.depth),
        (_, function) if function.ends_with("_function") && of.depth == 1 => return Some("*const ()".into()),
        _ => return None,
    };
    Some(if of.is_const { "*const " } else { "*mut " }.repeat(depth) + one)
}

fn call(function: &Function) -> Result<String, String> {
    let mut args = Vec::new();
    for arg in &function.args {
        let of = rust(&arg.of).ok_or_else(|| format!("{}: {} has no type in Rust", function.name, arg.of))?;
        args.push(format!("r#{}: {of}", arg.name));
    }
    if (function.result.of.as_str(), function.result.depth) != ("int", 0) {
        return Err(format!("{}: its result is no error code", function.name));
    }
    let (name, symbol) = (&function.name, function.c_name());
    Ok(format!("fn {} {name} = c\"P{symbol}\" ({});", name.to_lowercase(), args.join(", ")))
}

pub fn generate(table: &str) -> Result<String, String> {
    let mut out = String::from("own! {\n");
    for function in functions::parse(table)?.iter().flat_map(|s| &s.functions).filter(|f| f.is_called) {
        writeln!(out, "    {}", call(function)?).map_err(|e| e.to_string())?;
    }
    Ok(out + "}\n")
}
