//! The table of MPI's functions against each `mpi.h`: every function there that takes or gives a communicator, a request,
//! a message, a group or a status must have a row, and every row the prototype's arguments and result, of the same C
//! types. So no function reaches the MPI below that nobody has thought about, and we call none otherwise than it is
//! declared. And every function that the table has refused is called, and refuses.

use crate::functions::{self, Arg, Section, Way, types::Type};
use c_tests::{Figure, Launch, MPIS, Mpi, Scene, root};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const KINDS: [&str; 5] = ["Comm", "Request", "Message", "Group", "Status"];
/// Extensions that an MPI declares beside its `mpi.h`.
const INCLUDES: &str = "#include <mpi.h>\n#if __has_include(<mpi-ext.h>)\n#include <mpi-ext.h>\n#endif\n";

fn table() -> Vec<Section> {
    let text = std::fs::read_to_string(root().join("shim/api/functions.txt")).expect("the table is in the tree");
    functions::parse(&text).expect("a table without faults")
}

// ------------------------------------------------------------------------------------------------------ prototypes

struct Prototype {
    /// Without the P of the profiling interface.
    name: String,
    args: Vec<Type>,
    result: Type,
}

impl Prototype {
    /// The kinds of handles that it takes or gives.
    fn kinds(&self) -> BTreeSet<&'static str> {
        let kind = |of: &Type| KINDS.into_iter().find(|kind| of.of.strip_prefix("MPI_") == Some(*kind));
        self.args.iter().chain([&self.result]).filter_map(kind).collect()
    }
}

/// What the preprocessor makes of the headers of an MPI.
fn preprocessed(mpi: &Mpi) -> String {
    let [compiler, last] = mpi.compiler();
    let mut command = Command::new(&compiler[0]);
    command.args(&compiler[1..]).args(["-E", "-P", "-x", "c", "-"]).args(last);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a compiler");
    child.stdin.take().expect("a pipe").write_all(INCLUDES.as_bytes()).expect("a compiler that reads");
    let done = child.wait_with_output().expect("a compiler that ends");
    assert!(done.status.success(), "{}: the header cannot be read", mpi.name);
    String::from_utf8(done.stdout).expect("a header of plain text")
}

/// The place behind the bracket that closes the one at the start of the text.
fn behind_brackets(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

fn without_attributes(header: &str) -> String {
    let mut parts = header.split("__attribute__");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let part = part.trim_start();
        text += &part[behind_brackets(part)..];
    }
    text
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

/// The type of what is declared with a name or without.
fn declared(text: &str) -> Type {
    if text.contains('(') {
        return Type { of: "a function".into(), ..Type::default() };
    }
    let mut of = Type::c(text);
    // The name comes last, if there is one; types of several words are C's own.
    let is_own = |word: &str| ["int", "long", "char", "short", "unsigned", "double", "float", "void"].contains(&word);
    if let Some((ahead, last)) = of.of.rsplit_once(' ')
        && !is_own(last)
    {
        of.of = ahead.to_owned();
    }
    of
}

/// What is one type by several names: an INTEGER, a name of before MPI-3, and LAM's requests on files, as wide as others.
const ALIKE: [(&str, &str); 3] =
    [("MPI_Fint", "int"), ("MPI_Comm_errhandler_fn", "MPI_Comm_errhandler_function"), ("MPIO_Request", "MPI_Request")];

fn by_one_name(of: &Type) -> Type {
    let one = ALIKE.iter().find(|(other, _)| *other == of.of).map_or(of.of.as_str(), |(_, one)| one);
    Type { of: one.to_owned(), ..of.clone() }
}

/// The arguments between two brackets, split at the commas that lie in no other brackets.
fn arguments(text: &str) -> Vec<Type> {
    let mut depth = 0;
    let split = text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    let all: Vec<_> = split.map(str::trim).collect();
    if matches!(all[..], ["" | "void"]) { Vec::new() } else { all.into_iter().map(declared).collect() }
}

/// The functions of MPI that a preprocessed header declares or defines, those of the profiling interface among them.
fn prototypes(header: &str) -> Vec<Prototype> {
    let text = without_attributes(header);
    let mut found = Vec::new();
    let mut start = 0;
    for (open, _) in text.match_indices('(') {
        if open < start {
            continue;
        }
        let begin = text[..open].rfind([';', '{', '}']).map_or(0, |at| at + 1);
        let before = text[begin..open].trim();
        let name = words(before).last().unwrap_or_default();
        let end = open + behind_brackets(&text[open..]);
        let name = name.strip_prefix('P').unwrap_or(name);
        let is_mpi =
            name.strip_prefix("MPI").is_some_and(|n| n.trim_start_matches(char::is_uppercase).starts_with('_'));
        let declares = before.ends_with(name) && !before.starts_with("typedef") && words(before).count() > 1;
        if is_mpi && declares && text[end..].trim_start().starts_with([';', '{']) {
            let result = declared(before);
            found.push(Prototype { name: name.to_owned(), args: arguments(&text[open + 1..end - 1]), result });
            start = end;
        }
    }
    found
}

// ------------------------------------------------------------------------------------------------------- comparison

/// What the table lacks of a header.
fn problems(table: &[Section], prototypes: &[Prototype]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for prototype in prototypes {
        let (name, n) = (&prototype.name, prototype.args.len());
        let mut rows = table.iter().flat_map(|s| &s.functions);
        let Some(row) = rows.find(|f| f.c_name() == *name) else {
            let kinds: Vec<_> = prototype.kinds().into_iter().collect();
            if !kinds.is_empty() {
                found.insert(format!("{name} ({}) has no row", kinds.join(", ")));
            }
            continue;
        };
        if row.args.len() != n {
            found.insert(format!("{name} has {n} arguments, its row {}", row.args.len()));
            continue;
        }
        let places = (1..=n).map(|at| format!("argument {at}")).chain(["the result".to_owned()]);
        let said = row.args.iter().map(|arg| &arg.of).chain([&row.result]);
        for ((place, said), here) in places.zip(said).zip(prototype.args.iter().chain([&prototype.result])) {
            if !by_one_name(said).allows(&by_one_name(here)) {
                found.insert(format!("{name}, {place}: {here}, the row has {said}"));
            }
        }
    }
    found
}

/// What the table has, and no header: functions, and what is const, since any may leave that out.
fn idle(table: &[Section], prototypes: &[Prototype]) -> Vec<String> {
    let mut idle = Vec::new();
    for row in table.iter().flat_map(|s| &s.functions) {
        let name = row.c_name();
        let same: Vec<_> = prototypes.iter().filter(|p| p.name == name).collect();
        if same.is_empty() {
            idle.push(name.clone());
        }
        let never = |at: usize| row.args[at].of.is_const && !same.iter().any(|p| p.args[at].is_const);
        idle.extend(
            (0..row.args.len()).filter(|at| never(*at)).map(|at| format!("{name}: {} const", row.args[at].name)),
        );
    }
    idle
}

#[test]
fn every_function_of_the_headers_has_a_row() {
    let table = table();
    let ways = [Way::Always, Way::Ours, Way::Native, Way::Convert, Way::Refuse, Way::Below];
    let mut lines =
        vec![["", "found", "known", "ours", "native", "converted", "refused", "below"].map(String::from).to_vec()];
    let mut seen = Vec::new();
    for mpi in MPIS.iter() {
        let prototypes = prototypes(&preprocessed(mpi));
        let names: BTreeSet<_> = prototypes.iter().filter(|p| !p.kinds().is_empty()).map(|p| p.name.clone()).collect();
        let profiled = prototypes.len();
        // The least of them, LAM, has more; a scanner that finds nothing would find nothing wrong.
        assert!(names.len() > 150 && profiled > 2 * names.len(), "{}: {} functions found", mpi.name, names.len());
        let found: Vec<_> = problems(&table, &prototypes).into_iter().collect();
        assert!(found.is_empty(), "{}:\n{}", mpi.name, found.join("\n"));
        let of = |way| {
            let rows = table.iter().filter(|s| s.way == way).flat_map(|s| &s.functions);
            rows.filter(|f| names.contains(&f.c_name())).count()
        };
        let [always, ours, native, convert, refuse, below] = ways.map(of);
        let numbers = [names.len(), ways.map(of).iter().sum(), always + ours, native, convert, refuse, below];
        lines.push([mpi.name.to_owned()].into_iter().chain(numbers.map(|n| n.to_string())).collect());
        seen.extend(prototypes);
    }
    if Mpi::names().len() == MPIS.len() {
        let idle = idle(&table, &seen);
        assert!(idle.is_empty(), "what no header has: {idle:?}");
    }
    Figure::new("06-coverage", "functions of mpi.h that take or give handles or statuses, and which way they go")
        .table(&lines);
}

/// A made-up header, with every mistake that a table could make of it.
#[test]
fn a_function_that_nobody_thought_about_is_told() {
    let header = "
        typedef int (MPI_Some_function)(MPI_Comm comm, int n);
        typedef int MPI_Other_function(MPI_Comm comm);
        typedef struct _status { int MPI_SOURCE; } MPI_Status;
        extern int MPI_New(int n, MPI_Comm comm) __attribute__((deprecated(\"MPI_Old(MPI_Comm) is no more\")));
        int PMPI_New_c(long n, const MPI_Request requests[], void (*call)(int, MPI_Group), MPI_Status *status);
        MPI_Message MPI_From(int message) ;
        int MPIX_Query(void);
        int MPIL_Put(MPI_Request, char *);
        int MPI_Plain(int (*call)(MPI_Comm), void *comm);
        int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
        int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm);
        int PMPI_Wait(MPI_Request request, MPI_Status *status);
        int MPI_Test(int *flag, MPI_Request *request, MPI_Status *status);
        int MPI_Isend(void *buf, int n, MPI_Datatype type, int dest, MPI_Comm comm, int tag, MPI_Request *request);
        int MPI_Start(MPI_Comm *request);
        int MPI_Group_size(MPI_Comm group, int *size);
        static inline int MPI_Inside(MPI_Group group) { return MPI_Inner(group); }
        int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[]);
        int MPI_Barrier(MPI_Comm comm);
        int MPI_Ssend(void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
        int MPI_Cancel(const MPI_Request *request);
        int MPI_Probe(int source, long tag, MPI_Comm comm, MPI_Status *);
        int MPI_Bcast_c(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
        double MPI_Comm_free(MPI_Comm *comm);
        int MPI_Type_size(MPI_Datatype datatype, MPI_Count *size);
        MPI_Fint MPI_Comm_c2f(MPI_Comm comm);
        int MPI_Group_c2f(MPI_Group group);
    ";
    let found: Vec<_> = problems(&table(), &prototypes(header)).into_iter().collect();
    let expected = [
        "MPIL_Put (Request) has no row",
        "MPI_Bcast_c, argument 2: int, the row has MPI_Count",
        "MPI_Cancel, argument 1: const MPI_Request*, the row has MPI_Request*",
        "MPI_Comm_free, the result: double, the row has int",
        "MPI_From (Message) has no row",
        "MPI_Group_size, argument 1: MPI_Comm, the row has MPI_Group",
        "MPI_Inside (Group) has no row",
        "MPI_Isend, argument 5: MPI_Comm, the row has int",
        "MPI_Isend, argument 6: int, the row has MPI_Comm",
        "MPI_New (Comm) has no row",
        "MPI_New_c (Request, Status) has no row",
        "MPI_Probe, argument 2: long, the row has int",
        "MPI_Recv has 6 arguments, its row 7",
        "MPI_Start, argument 1: MPI_Comm*, the row has MPI_Request*",
        "MPI_Test, argument 1: int*, the row has MPI_Request*",
        "MPI_Test, argument 2: MPI_Request*, the row has int*",
        "MPI_Type_size, argument 2: MPI_Count*, the row has int*",
        "MPI_Wait, argument 1: MPI_Request, the row has MPI_Request*",
    ];
    assert_eq!(found, expected);
}

// --------------------------------------------------------------------------------------------------------- refusals

/// Every refused function, by both names, once for each of its handles: a letter for each argument, as `refused.c`
/// reads them. The length of an array of one is 1.
fn refused() -> String {
    let letter = |arg: &Arg| match arg.mark.as_str() {
        "Comm" => 'C',
        "Comm*" => 'c',
        "Request" => 'R',
        "Request*" | "Request[]" => 'r',
        "Group" => 'G',
        "Group*" => 'g',
        other => panic!("no handle of this kind in the program: {other}"),
    };
    let mut list = String::new();
    for function in table().iter().filter(|s| s.way == Way::Refuse).flat_map(|s| &s.functions) {
        for (at, arg) in function.args.iter().enumerate().filter(|(_, arg)| arg.handle().is_some()) {
            let mut letters = vec!['0'; function.args.len()];
            letters[0] = '1';
            letters[at] = letter(arg);
            let letters: String = letters.into_iter().collect();
            list += &format!("{0} {letters}\nP{0} {letters}\n", function.c_name());
        }
    }
    list
}

/// An error of the handle's class that names the call, from every one of them that the MPI has, and nothing done.
#[test]
fn what_is_refused_is_refused() {
    let list = refused();
    let mut figure = Figure::new("07-refused", "calls on what is ours, by the table refused: made, all refused");
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("refused: {}, {}", a.name, b.name));
        let file = scene.path("list");
        std::fs::write(&file, &list).expect("the scene's folder");
        let file = file.to_str().expect("plain text");
        let jobs = [(a, ["air", "ocean", "0", file]), (b, ["ocean", "air", "1", file])];
        let done = scene.pass(jobs.map(|(mpi, words)| scene.start(Launch::new(mpi, 1, "refused", &words))), LIMIT);
        for (mpi, done) in [a, b].into_iter().zip(&done) {
            let found: usize = done.lines("FOUND").next().and_then(|n| n.parse().ok()).expect("a number");
            // LAM, which has fewest functions, has more.
            scene.require(found > 50, &format!("{}: {found} functions found", mpi.name));
            figure.line(format!("{}: {found} of {}", mpi.name, list.lines().count()));
        }
    }
}
