//! The ABI tables against each `mpi.h`. Every constant that a header names must have a row in `constants.txt`; a C
//! program made from the rows compares the values, another the places of the fields of a status.

#[path = "../../../shim/api/constants.rs"]
mod constants;

use base::Family;
use c_tests::{Done, Figure, Launch, Library, MPIS, Mpi, Scene, library, root};
use constants::{Row, Value};
use mpi_connect::abi::{Count, FAMILIES, Traits};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn table() -> String {
    std::fs::read_to_string(root().join("shim/api/constants.txt")).expect("the table is in the tree")
}

fn rows() -> Vec<Row> {
    constants::parse(&table()).expect("a table without faults")
}

/// The family that each MPI of the tests belongs to, and its column.
fn family(mpi: &Mpi) -> (usize, &'static Traits) {
    FAMILIES.iter().copied().enumerate().find(|(_, f)| f.which == mpi.family).expect("a family of that name")
}

/// In the scene's own folder: another test may use its like while this one is written.
fn compile(scene: &Scene, mpi: &Mpi, options: &[&str], source: &str, name: &str) -> Result<Output, String> {
    let file = scene.path(name).with_extension("c");
    std::fs::write(&file, source).expect("a file in the scene's folder");
    let [compiler, last] = mpi.compiler();
    let mut built = Command::new(&compiler[0]);
    let built = built.args(&compiler[1..]).args(options).arg(&file).args(last).output().expect("a compiler");
    if built.status.success() { Ok(built) } else { Err(String::from_utf8_lossy(&built.stderr).into_owned()) }
}

fn build(scene: &Scene, mpi: &Mpi, source: &str, name: &str) -> PathBuf {
    let program = scene.path(name);
    let output = ["-w", "-o", program.to_str().expect("a path of plain text")];
    compile(scene, mpi, &output, source, name).unwrap_or_else(|e| panic!("{}:\n{e}", mpi.name));
    program
}

// ------------------------------------------------------------------------------------------------ names and values

/// The constants that a header names: macros, enumerators, variables, whatever is written in capitals.
fn names_in_header(mpi: &Mpi) -> BTreeSet<String> {
    let include = "#include <mpi.h>\n";
    let scene = Scene::new(format!("header of {}", mpi.name));
    let preprocess = |options: &[&str]| {
        let done = compile(&scene, mpi, options, include, "header").unwrap_or_else(|e| panic!("{}:\n{e}", mpi.name));
        String::from_utf8(done.stdout).expect("a header of plain text")
    };
    let mut names = BTreeSet::new();
    for line in preprocess(&["-E", "-dM"]).lines() {
        let defined = line.strip_prefix("#define ").unwrap_or_default();
        names.extend(words(defined).take(1).filter(|w| defined.starts_with(w) && is_constant(w)).map(str::to_owned));
    }
    let mut text = preprocess(&["-E", "-P"]);
    // The functions of MPICH's tool interface, by number: no constants of MPI.
    if let Some(start) = text.find("enum QMPI_Functions_enum {") {
        let end = start + text[start..].find('}').expect("an end of the enumeration");
        text.replace_range(start..end, "");
    }
    // Every second part lies between quotes.
    for part in text.split('"').step_by(2) {
        names.extend(words(part).filter(|w| is_constant(w)).map(str::to_owned));
    }
    names
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

fn is_constant(word: &str) -> bool {
    (word.starts_with("MPI_") || word.starts_with("MPIX_")) && !word.contains(|c: char| c.is_ascii_lowercase())
}

/// What the table lacks of a header, and what it promises in vain.
fn differences(rows: &[Row], column: usize, names: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        match rows.iter().find(|r| r.name == *name).map(|r| &r.values[column]) {
            None => found.push(format!("{name} has no row")),
            Some(Value::Absent | Value::Instead(_)) => found.push(format!("{name} is in the header, not in the table")),
            Some(_) => {}
        }
    }
    for row in rows.iter().filter(|r| r.used.is_some() && !names.contains(&r.name)) {
        if !matches!(row.values[column], Value::Late(_) | Value::Instead(_) | Value::EmptyInstead(_)) {
            found.push(format!("{} is used, and not in the header", row.name));
        }
    }
    found
}

/// A program that prints each constant of the header whose value is not the table's. It needs no running MPI.
fn comparison(rows: &[Row], column: usize, family: &Traits, names: &BTreeSet<String>) -> String {
    let mut c = String::from(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <mpi.h>\n#include <stddef.h>\n#include <stdio.h>\n\
         static void is(const char *what, size_t size, long long here, long long table) {\n\
           if (size == 4 ? (int)here != (int)table : here != table)\n\
             printf(\"%s is %lld, the table says %lld\\n\", what, here, table);\n}\n\
         #define IS(name, table) is(#name, sizeof(name), (long long)(ptrdiff_t)(name), (long long)(ptrdiff_t)(table))\n\
         int main(void) {\n",
    );
    for row in rows.iter().filter(|r| names.contains(&r.name)) {
        match &row.values[column] {
            Value::Int(v) | Value::Late(v) => writeln!(c, "  IS({}, {v}LL);", row.name).unwrap(),
            Value::Least(v) => writeln!(c, "  if ({0} < {v}) IS({0}, {v}LL);", row.name).unwrap(),
            Value::Address(symbol) => writeln!(c, "  IS({}, dlsym(RTLD_DEFAULT, \"{symbol}\"));", row.name).unwrap(),
            _ => {}
        }
    }
    for of in ["Comm", "Datatype", "Errhandler", "Group", "Info", "Op", "Request", "Win"] {
        writeln!(c, "  is(\"sizeof(MPI_{of})\", 8, sizeof(MPI_{of}), {});", family.handle_bytes).unwrap();
    }
    let s = &family.status;
    for (name, field) in [("MPI_SOURCE", s.source), ("MPI_TAG", s.tag), ("MPI_ERROR", s.error)] {
        writeln!(c, "  is(\"the place of {name}\", 8, offsetof(MPI_Status, {name}), {field});").unwrap();
    }
    writeln!(c, "  is(\"sizeof(MPI_Status)\", 8, sizeof(MPI_Status), {});\n  return 0;\n}}", s.size).unwrap();
    c
}

/// What differs between rows and header: names first, then values.
fn compare(rows: &[Row], mpi: &Mpi, names: &BTreeSet<String>) -> Vec<String> {
    let (column, family) = family(mpi);
    let mut found = differences(rows, column, names);
    let scene = Scene::new(format!("constants of {}", mpi.name));
    let program = build(&scene, mpi, &comparison(rows, column, family, names), "constants");
    let run = mpi.command(&[program.display().to_string()]).output().expect("a program just built");
    assert!(run.status.success(), "{}: {}", mpi.name, String::from_utf8_lossy(&run.stderr));
    found.extend(String::from_utf8_lossy(&run.stdout).lines().map(str::to_owned));
    found
}

#[test]
fn tables_agree_with_the_headers() {
    let rows = rows();
    let mut figure = Figure::new("05-abi", "ABI tables against mpi.h: constants that the header names, those compared");
    for mpi in MPIS.iter() {
        let names = names_in_header(mpi);
        let found = compare(&rows, mpi, &names);
        assert!(found.is_empty(), "{}:\n{}", mpi.name, found.join("\n"));
        let (column, family) = family(mpi);
        let has_value =
            |r: &&Row| matches!(r.values[column], Value::Int(_) | Value::Least(_) | Value::Late(_) | Value::Address(_));
        let compared = rows.iter().filter(has_value).filter(|r| names.contains(&r.name)).count();
        figure.line(format!("{} ({}): {} named, {compared} compared, all right", mpi.name, family.which, names.len()));
    }
}

/// A table that is wrong is found out, whichever way it is wrong.
#[test]
fn a_wrong_table_is_told() {
    let mpi = MPIS[0];
    let (column, _) = family(mpi);
    let names = names_in_header(mpi);
    let told = |change: fn(&mut Row, usize), of: &str| {
        let mut rows = rows();
        change(rows.iter_mut().find(|r| r.name == of).expect("a row of that name"), column);
        compare(&rows, mpi, &names)
    };
    let lost = told(|row, _| row.name = "MPI_ELSE".into(), "MPI_ERR_AMODE");
    assert_eq!(lost, ["MPI_ERR_AMODE has no row"]);
    let absent = told(|row, column| row.values[column] = Value::Absent, "MPI_ERR_AMODE");
    assert_eq!(absent, ["MPI_ERR_AMODE is in the header, not in the table"]);
    let number = told(|row, column| row.values[column] = Value::Int(77), "MPI_ERR_TAG");
    assert!(matches!(&number[..], [line] if line.starts_with("MPI_ERR_TAG is 4, the table says 77")), "{number:?}");
    let least = told(|row, column| row.values[column] = Value::Least(1 << 20), "MPI_BSEND_OVERHEAD");
    assert!(matches!(&least[..], [line] if line.starts_with("MPI_BSEND_OVERHEAD is ")), "{least:?}");
    let handle = told(|row, column| row.values[column] = Value::Address("main".into()), "MPI_INT");
    assert!(matches!(&handle[..], [line] if line.starts_with("MPI_INT is ")), "{handle:?}");
}

/// A row that is used must have something to be used, in every family.
#[test]
fn a_used_row_without_value_is_no_table() {
    let table = table();
    let generate = |table: &str| constants::parse(table).and_then(|rows| constants::generate(&rows));
    assert!(generate(&table).is_ok());
    let replaced = generate(&table.replace("=MPI_ERR_OTHER", "-"));
    assert_eq!(replaced, Err("MPI_ERR_ACCESS: used, but LAM gives no value for it".into()));
    let dangling = generate(&table.replace("=MPI_ERR_OTHER", "=MPI_ERR_ELSE"));
    assert_eq!(dangling, Err("MPI_ERR_ACCESS: no row MPI_ERR_ELSE".into()));
    let refused = generate(&table.replace("x=MPI_COMBINER_STRUCT", "x"));
    assert_eq!(refused, Err("MPI_COMBINER_STRUCT_INTEGER: used, but Open MPI gives no value for it".into()));
    let row = |used: &str, values: &str| generate(&format!("MPI_ONE {used} {values}"));
    assert_eq!(
        row("one:c_int", "1 ~ 1 1"),
        Err(format!("MPI_ONE: used, but {} gives no value for it", Family::OpenMpi))
    );
    assert_eq!(row(".", "1 1 1"), Err("MPI_ONE: 4 columns of values".into()));
    assert_eq!(row("one", "1 1 1 1"), Err("MPI_ONE: one is not FIELD:TYPE".into()));
    assert!(row(".", "1 1 1 ?").is_err());
    assert_eq!(generate("MPI_ONE . - - - -\nMPI_ONE . - - - -"), Err("MPI_ONE: twice".into()));
}

// ----------------------------------------------------------------------------------------------------------- status

/// A program in which the MPI reads a status that holds a count as we write it, and writes one itself.
fn status_program(family: &Traits, has_large_counts: bool) -> String {
    let (source, count) = (family.status.source, family.status.count);
    let put = match count {
        Count::SplitInts { low, high } => format!(
            "int v[2] = {{ (int)n, (int)((n >> 32) << 1) }}; memcpy(at + {low}, v, 4); memcpy(at + {high}, v + 1, 4);"
        ),
        Count::Long { cancelled, count } => {
            format!("int v = 0; memcpy(at + {cancelled}, &v, 4); memcpy(at + {count}, &n, 8);")
        }
        Count::Int { count, .. } => format!("int v = (int)n; memcpy(at + {count}, &v, 4);"),
    };
    let put_mark = match count {
        Count::SplitInts { high, .. } => format!("int v = 1; memcpy(at + {high}, &v, 4);"),
        Count::Long { cancelled, .. } => format!("int v = 1; memcpy(at + {cancelled}, &v, 4);"),
        Count::Int { cancelled, .. } => format!("int v = {cancelled}; memcpy(at + {source}, &v, 4);"),
    };
    let mut c = format!(
        "#include <mpi.h>\n#include <stdio.h>\n#include <string.h>\nstatic int wrong;\n\
         static void is(const char *what, long long here, long long right) {{\n\
           if (here != right) {{ printf(\"%s is %lld, not %lld\\n\", what, here, right); wrong++; }}\n}}\n\
         static void put(char *at, long long n) {{ {put} }}\n\
         static void put_mark(char *at) {{ {put_mark} }}\n\
         /* Whether we would leave it as it is. */\n\
         static int holds(char *at, long long n) {{\n  char ours[sizeof(MPI_Status)];\n\
           memcpy(ours, at, sizeof ours);\n  put(ours, n);\n  return memcmp(ours, at, sizeof ours) == 0;\n}}\n\
         int main(int argc, char **argv) {{\n  MPI_Init(&argc, &argv);\n  MPI_Status st;\n  int got, mark;\n\
           double data[6] = {{ 0 }};\n  memset(&st, 0xff, sizeof st);\n\
           MPI_Sendrecv(data, 3, MPI_DOUBLE, 0, 7, data + 3, 3, MPI_DOUBLE, 0, 7, MPI_COMM_SELF, &st);\n\
           is(\"a count received\", holds((char *)&st, 24), 1);\n\
           memset(&st, 0xff, sizeof st);\n  st.MPI_SOURCE = 0;\n  put((char *)&st, 24);\n\
           MPI_Get_count(&st, MPI_DOUBLE, &got);\n  is(\"count read\", got, 3);\n\
           MPI_Test_cancelled(&st, &mark);\n  is(\"cancelled read\", mark, 0);\n\
           put_mark((char *)&st);\n  MPI_Test_cancelled(&st, &mark);\n  is(\"the mark read\", mark != 0, 1);\n\
           st.MPI_SOURCE = 0;\n\
"
    );
    c += if has_large_counts {
        "  MPI_Count large = 0;\n  long long n = 5LL << 30;\n  put((char *)&st, n);\n\
           MPI_Get_elements_x(&st, MPI_BYTE, &large);\n  is(\"large count read\", large, n);\n\
           MPI_Test_cancelled(&st, &mark);\n  is(\"cancelled read beside it\", mark, 0);\n\
           MPI_Status_set_elements_x(&st, MPI_BYTE, n + 1);\n  MPI_Status_set_cancelled(&st, 0);\n\
           is(\"large count written\", holds((char *)&st, n + 1), 1);\n"
    } else {
        // What we write when the count is larger than an int.
        "  put((char *)&st, 2147483647);\n  MPI_Get_count(&st, MPI_INT, &got);\n\
           is(\"too large a count\", got, MPI_UNDEFINED);\n"
    };
    c + "  MPI_Finalize();\n  return wrong != 0;\n}\n"
}

#[test]
fn statuses_agree_with_the_mpi() {
    for mpi in MPIS.iter() {
        let scene = Scene::new(format!("statuses of {}", mpi.name));
        let has_large_counts = names_in_header(mpi).contains("MPI_COUNT");
        let program = build(&scene, mpi, &status_program(family(mpi).1, has_large_counts), "status");
        let [done] = scene.wait([scene.start(Launch::of(mpi, 1, program, Library::None, &[]))], LIMIT);
        scene.require(done.status.success() && done.stdout.is_empty(), "the statuses are not alike");
    }
}

// ------------------------------------------------------------------------------------------------------ recognition

/// The path of the library below a job over exactly these libraries.
fn below(scene: &Scene, mpi: &Mpi, libraries: Vec<PathBuf>) -> PathBuf {
    let source = "#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }\n";
    let launch =
        Launch::of(mpi, 1, build(scene, mpi, source, "started"), Library::Preloaded, &[]).preloading(libraries);
    let [done] = scene.pass([scene.start(launch)], LIMIT);
    path_below(scene, mpi, &done)
}

#[test]
fn every_mpi_is_recognised() {
    for mpi in MPIS.iter() {
        let scene = Scene::new(format!("a job of {}", mpi.name));
        below(&scene, mpi, vec![library()]);
    }
}

/// By what the library calls itself, not by its file. These can be opened from anywhere: they find their own libraries.
#[test]
fn a_library_under_another_name_is_recognised() {
    for mpi in ["mpich4", "impi", "impi-abi"].map(|name| Mpi::by_name(name).expect("an MPI of that name")) {
        let scene = Scene::new(format!("the library of {} under another name", mpi.name));
        let alias = scene.path("alias");
        let real = below(&scene, mpi, vec![library()]);
        std::os::unix::fs::symlink(real, &alias).expect("a link in the scene's folder");
        scene.require(below(&scene, mpi, vec![library(), alias.clone()]) == alias, "the other name is not used");
    }
}

/// The path of the MPI library, from the log line that names the ABI.
fn path_below(scene: &Scene, mpi: &Mpi, done: &Done) -> PathBuf {
    let said = done.stderr.split_once(&format!("ABI: {} (", mpi.family)).map(|(_, rest)| rest);
    scene.require(said.is_some(), &format!("{} is not said to have the ABI {}", done.title, mpi.family));
    said.and_then(|rest| rest.split(')').next()).unwrap_or_default().into()
}

/// One MPI with both ABIs: what a program is bound to decides, not what is installed.
#[test]
fn both_abis_of_one_mpi_side_by_side() {
    for (own, standard) in [("mpich5", "mpich5-abi"), ("impi", "impi-abi")] {
        let halves = [own, standard].map(|name| Mpi::by_name(name).expect("an MPI of that name"));
        let scene = Scene::new(format!("{own} and {standard}"));
        let sections =
            ["queries", "send", "sendrecv", "waitall", "testsome", "probe", "types", "truncation", "refused"];
        let jobs = [["air", "ocean", "0"], ["ocean", "air", "1"]].map(|names| [&names[..], &sections[..]].concat());
        let [a, b] = [0, 1].map(|i| scene.start(Launch::new(halves[i], 2, "pair", &jobs[i])));
        let done = scene.pass([a, b], LIMIT);
        let libraries = [0, 1].map(|i| path_below(&scene, halves[i], &done[i]));
        scene.require(libraries[0] != libraries[1], "both have the same library below");
    }
}
