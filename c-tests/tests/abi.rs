//! The tables of `shim/src/abi` against each `mpi.h`: a C program made from the tables compares every constant, and
//! the places of the fields of a status.

use c_tests::{Figure, MPIS, Mpi, target};
use mpi_connect::abi::{Const, Count, FAMILIES, Family};
use std::fmt::Write;
use std::process::Command;

/// The family that each MPI of the tests belongs to.
fn family(mpi: &Mpi) -> &'static Family {
    FAMILIES.iter().copied().find(|f| f.name == mpi.abi).expect("a family of that name")
}

fn probe(family: &Family) -> String {
    let mut c = String::from(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <mpi.h>\n#include <stddef.h>\n#include <stdio.h>\n\
         #include <string.h>\nstatic int wrong;\n\
         static void is(const char *what, long long here, long long table) {\n\
           if (here != table) { printf(\"%s is %lld, the table says %lld\\n\", what, here, table); wrong++; }\n}\n\
         int main(int argc, char **argv) {\n  MPI_Init(&argc, &argv);\n",
    );
    for (name, value) in family.constants {
        match value {
            Const::Int(v) => writeln!(c, "  is(\"{name}\", (long long)(ptrdiff_t){name}, {v}LL);").unwrap(),
            Const::Address(symbol) => {
                let symbol = symbol.to_str().unwrap();
                writeln!(c, "  is(\"{name}\", (long long)(ptrdiff_t){name}, (long long)(ptrdiff_t)dlsym(RTLD_DEFAULT, \"{symbol}\"));").unwrap();
            }
        }
    }
    let s = &family.status;
    for (name, field) in [("MPI_SOURCE", s.source), ("MPI_TAG", s.tag), ("MPI_ERROR", s.error)] {
        writeln!(c, "  is(\"{name}\", offsetof(MPI_Status, {name}), {field});").unwrap();
    }
    writeln!(c, "  is(\"sizeof(MPI_Status)\", sizeof(MPI_Status), {});", s.size).unwrap();
    writeln!(c, "  is(\"sizeof(MPI_Comm)\", sizeof(MPI_Comm), {});", family.handle_bytes).unwrap();
    // What the MPI itself writes for more than 4 GiB, and what it reads from what we would write.
    let (write, read) = match s.count {
        Count::SplitInts { low, high } => (
            format!(
                "int v[2] = {{ (int)n, (int)((n >> 32) << 1) }}; memcpy(at + {low}, v, 4); memcpy(at + {high}, v + 1, 4);"
            ),
            format!("memcmp(at + {low}, v, 4) == 0 && memcmp(at + {high}, v + 1, 4) == 0"),
        ),
        Count::Long { cancelled, count } => (
            format!("int v = 0; memcpy(at + {cancelled}, &v, 4); memcpy(at + {count}, &n, 8);"),
            format!("memcmp(at + {cancelled}, &v, 4) == 0 && memcmp(at + {count}, &n, 8) == 0"),
        ),
    };
    writeln!(
        c,
        "  {{\n    long long n = 5LL << 30;\n    MPI_Status st; memset(&st, 0, sizeof st);\n    char *at = (char *)&st;\n    {write}\n\
             MPI_Count got = 0; int cancelled = 1;\n    MPI_Get_elements_x(&st, MPI_BYTE, &got);\n    MPI_Test_cancelled(&st, &cancelled);\n\
             is(\"count read\", got, n);\n    is(\"cancelled read\", cancelled, 0);\n\
             MPI_Status_set_elements_x(&st, MPI_BYTE, n); MPI_Status_set_cancelled(&st, 0);\n\
             is(\"count written\", {read}, 1);\n  }}"
    )
    .unwrap();
    c += "  MPI_Finalize();\n  return wrong != 0;\n}\n";
    c
}

#[test]
fn tables_agree_with_the_headers() {
    let mut figure = Figure::new("05-abi", "ABI tables against mpi.h");
    for mpi in MPIS.iter().filter(|m| FAMILIES.iter().any(|f| f.name == m.abi)) {
        let family = family(mpi);
        let folder = target().join("c-tests").join(mpi.name);
        std::fs::create_dir_all(&folder).unwrap();
        let (source, program) = (folder.join("abi.c"), folder.join("abi"));
        std::fs::write(&source, probe(family)).unwrap();
        let [compiler, last] = mpi.compiler();
        let mut built = Command::new(&compiler[0]);
        let built = built.args(&compiler[1..]).arg(&source).arg("-o").arg(&program).args(last).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let mut words = mpi.launcher(&[], &[], 1);
        words.push(program.display().to_string());
        let run = mpi.command(&words).output().unwrap();
        assert!(run.status.success(), "{}:\n{}", mpi.name, String::from_utf8_lossy(&run.stdout));
        figure.line(format!("{}: {} constants and the status agree", mpi.name, family.constants.len()));
    }
}
