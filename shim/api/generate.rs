// Turns `functions.txt` into the entry points. Used by build.rs only.
//
// For every exported function it writes
//   MPI_X, PMPI_X   one jump through SLOTS: what a native call pays
//   resolve_*       what a slot holds at first: finds what belongs there
//   visible_*       tells the dynamic linker what a name stands for, while no MPI is loaded
//   checked_X       looks at the marked arguments: forwards, by a jump, or goes on to the next
//   glanceN_X       looks at an array of handles of N bytes by AVX2: forwards, by a jump, or goes on to one of those around
//   served_X        goes to src/entry, refuses, or forwards
//   guarded_X       forwards through a PMPI tool that sits between us and the MPI
//   by_caller_X     the same for PMPI_X, but straight to the MPI when the tool itself calls, or the MPI

use crate::functions::{self, Function, Way};
use std::fmt::Write;

/// The questions about an argument, by its mark: whether it is ours, where a failure is raised, and what kind it is.
fn questions(function: &Function, arg: &str, mark: &str) -> (String, String, &'static str) {
    let count = format!("r#{} as i32", function.args[0].name);
    let (test, place, kind) = match mark {
        "Comm" => (format!("crate::inter::maybe({arg})"), format!("place::comm({arg})"), "Comm"),
        "Comm*" => (
            format!("crate::inter::maybe_at({arg})"),
            format!("place::comm(crate::abi::load_handle({arg}) as usize)"),
            "Comm",
        ),
        "Request" => (format!("crate::request::is_token({arg})"), format!("place::request({arg})"), "Request"),
        "Request*" => (format!("crate::request::is_token_at({arg})"), format!("place::request_at({arg})"), "Request"),
        "Request[]" => (
            format!("crate::request::first_token({arg}, {count}).is_some()"),
            format!("place::request_in({arg}, {count})"),
            "Request",
        ),
        "Message*" => (format!("crate::message::is_token_at({arg})"), format!("place::message_at({arg})"), "Request"),
        "Group" => (format!("crate::group::is_token({arg})"), format!("place::group({arg})"), "Group"),
        "Group*" => (format!("crate::group::is_token_at({arg})"), "Some(Place::world())".to_owned(), "Group"),
        other => panic!("functions.txt: {}: nothing asks about {other:?}", function.name),
    };
    (test, place, kind)
}

/// Whether an argument may be ours, in a few instructions. Every native call checks this once there is an
/// inter-communicator of ours.
fn quick_test(function: &Function) -> String {
    let asked = function.args.iter().filter_map(|arg| {
        let at = format!("r#{}", arg.name);
        Some(match arg.handle().map(|_| arg.mark.as_str()) {
            None => return None,
            Some("Comm") => format!("crate::inter::maybe({at})"),
            Some("Comm*") => format!("crate::inter::maybe_at({at})"),
            Some("Request[]") => format!("crate::token::REQUEST.maybe_among({at}, r#{} as i32)", function.args[0].name),
            Some(mark) => match mark.strip_suffix('*') {
                Some(kind) => format!("crate::token::{}.maybe_at({at})", kind.to_uppercase()),
                None => format!("crate::token::{}.maybe({at})", mark.to_uppercase()),
            },
        })
    });
    let asked: Vec<_> = asked.collect();
    match function.name.split_once('_') {
        // From an INTEGER.
        Some((kind, _)) if asked.is_empty() => {
            format!("crate::token::{}.maybe(r#{})", kind.to_uppercase(), function.args[0].name)
        }
        _ => asked.join(" || "),
    }
}

/// The index of the communicator, if that is the only argument to be checked.
fn lone_comm(function: &Function) -> Option<usize> {
    let mut marked = function.args.iter().enumerate().filter(|(_, arg)| arg.handle().is_some());
    let (at, arg) = marked.next()?;
    (marked.next().is_none() && arg.mark == "Comm").then_some(at)
}

/// The check of `quick_test` in assembly, so that calls with more than six arguments need no copy of them.
fn look_at_comm(name: &str, at: usize) -> String {
    let comm = match ["edi", "esi", "edx", "ecx", "r8d", "r9d"].get(at) {
        Some(register) => (*register).to_owned(),
        // The arguments on the stack lie above the caller's address.
        None => format!("dword ptr [rsp + {}]", 8 * (at - 5)),
    };
    format!(
        "#[unsafe(naked)]\n#[allow(non_snake_case)]\nunsafe extern \"C\" fn checked_{name}<const K: usize>() {{\n    naked_asm!(\n        \
         \"imul r10d, {comm}, {{spread}}\", \"shr r10d, {{shift}}\", \"lea r11, [rip + {{filter}}]\",\n        \
         \"cmp word ptr [r11 + 2 * r10], 0\", \"jne {{served}}\", \"jmp qword ptr [rip + {{native}} + {{at}}]\",\n        \
         spread = const crate::inter::SPREAD, shift = const crate::inter::SHIFT, filter = sym crate::inter::FILTER,\n        \
         served = sym served_{name}::<K>, native = sym forward::NATIVE, at = const K * size_of::<usize>(),\n    )\n}}"
    )
}

/// Whether a function looks at nothing but an array of requests, its second argument. The first one is their number.
fn lone_array(function: &Function) -> bool {
    let marked = || function.args.iter().filter(|arg| arg.handle().is_some());
    marked().count() == 1 && function.args.get(1).is_some_and(|arg| arg.mark == "Request[]")
}

/// The files that `src` includes, by name.
pub fn generate(table: &str) -> Result<[(&'static str, String); 3], String> {
    let (mut out, mut guards, mut known) = (String::new(), String::new(), String::new());
    let w = &mut out;
    let exported = functions::parse(table)?.into_iter().filter(|s| s.way.is_exported());
    let functions: Vec<_> = exported.flat_map(|s| s.functions.into_iter().map(move |f| (s.way, f))).collect();
    let n = functions.len();
    writeln!(known, "pub const FUNCTIONS: usize = {n};").unwrap();
    let mut slots = String::new();
    let mut visible = String::new();
    let mut names = String::new();
    let mut checked = String::new();
    let mut glances = String::new();
    let mut guarded = String::new();
    let mut ways = String::new();
    for (i, (way, f)) in functions.iter().enumerate() {
        let (name, way) = (&f.name, *way);
        let mpi = f.c_name();
        let (called_as, pface) = (2 * i, 2 * i + 1);
        for (slot, mpi) in [(called_as, mpi.clone()), (pface, format!("P{mpi}"))] {
            let at = slot * size_of::<usize>();
            writeln!(
                w,
                "#[unsafe(naked)]\n#[unsafe(no_mangle)]\n#[allow(non_snake_case)]\npub unsafe extern \"C\" fn {mpi}() {{\n    \
                 naked_asm!(\"jmp qword ptr [rip + {{slots}} + {{at}}]\", slots = sym SLOTS, at = const {at})\n}}\n\
                 #[unsafe(naked)]\n#[allow(non_snake_case)]\nunsafe extern \"C\" fn resolve_{mpi}() {{\n    \
                 naked_asm!(\"push {{slot}}\", \"jmp {{common}}\", slot = const {slot}, common = sym resolve_common)\n}}\n\
                 #[unsafe(naked)]\n#[allow(non_snake_case)]\nunsafe extern \"C\" fn visible_{mpi}() {{\n    \
                 naked_asm!(\"mov edi, {{slot}}\", \"jmp {{resolve}}\", slot = const {slot}, resolve = sym exports::resolve)\n}}"
            )
            .unwrap();
            write!(slots, "Slot::new(resolve_{mpi} as *mut ()), ").unwrap();
            write!(visible, "Code(visible_{mpi} as *const ()), ").unwrap();
        }
        let params = f.args.iter().map(|a| format!("r#{}: usize", a.name)).collect::<Vec<_>>().join(", ");
        let values = f.args.iter().map(|a| format!("r#{}", a.name)).collect::<Vec<_>>().join(", ");
        let types = vec!["usize"; f.args.len()].join(", ");
        let result = if way == Way::Convert { "usize" } else { "c_int" };
        let fn_type = format!("unsafe extern \"C\" fn({types}) -> {result}");
        let marked = || f.args.iter().filter(|a| a.handle().is_some());
        let asked = marked().map(|a| questions(f, &format!("r#{}", a.name), &a.mark));
        let outs: Vec<_> = f.args.iter().filter(|a| a.is_out()).map(|a| format!("r#{}", a.name)).collect();
        let mut body = String::new();
        match way {
            Way::Always => writeln!(body, "    ours::{name}(CalledAs(K), {values})").unwrap(),
            Way::Ours => {
                let asked: Vec<_> = asked.collect();
                let any = asked.iter().map(|q| q.0.as_str()).collect::<Vec<_>>().join(" || ");
                let place = asked.iter().map(|q| q.1.as_str()).collect::<Vec<_>>().join(".or(");
                let place = format!("{place}{}", ")".repeat(asked.len() - 1));
                let mut served = format!("ours::{name}({values})");
                if !outs.is_empty() {
                    let outs = outs.join(", ");
                    served =
                        format!("if [{outs}].contains(&0) {{ nowhere({called_as}, {place}) }} else {{ {served} }}");
                }
                // The function itself finds out whether a communicator is ours.
                if marked().any(|a| a.mark != "Comm") {
                    served = format!("if {any} {{ {served} }} else {{ None }}");
                }
                writeln!(
                    body,
                    "    // SAFETY: the arguments are the caller's, as MPI_{name} takes them.\n    \
                     if let Some(code) = unsafe {{ {served} }} {{\n        return code;\n    }}"
                )
                .unwrap();
            }
            Way::Refuse => {
                for (arg, (test, place, kind)) in marked().zip(asked) {
                    if arg.mark == "Comm" {
                        let arg = format!("r#{}", arg.name);
                        writeln!(
                            body,
                            "    // SAFETY: the arguments are the caller's, as MPI_{name} takes them.\n    \
                             let {arg} = match unsafe {{ if {test} {{ place::instead_of({arg}) }} else {{ Ok({arg}) }} }} {{\n        \
                             Ok(comm) => comm,\n        Err(place) => return refuse({called_as}, place, Class::{kind}),\n    }};"
                        )
                        .unwrap();
                        continue;
                    }
                    writeln!(
                        body,
                        "    // SAFETY: the arguments are the caller's, as MPI_{name} takes them.\n    \
                         if let Some(place) = unsafe {{ if {test} {{ {place} }} else {{ None }} }} {{\n        \
                         return refuse({called_as}, place, Class::{kind});\n    }}"
                    )
                    .unwrap();
                }
            }
            Way::Convert => {
                writeln!(body, "    if let Some(value) = ours::{name}({values}) {{\n        return value;\n    }}")
                    .unwrap();
            }
            Way::Native | Way::Below | Way::Own => {}
        }
        let forward = format!(
            "// SAFETY: `forward::native` gives the function of this index, which takes these arguments.\n    \
             unsafe {{ std::mem::transmute::<*const (), {fn_type}>(forward::native(K))({values}) }}"
        );
        // If all arguments are in registers, the calls at its end are jumps.
        let begin = |w: &mut String, kind: &str| {
            writeln!(w, "#[allow(non_snake_case)]\nunsafe extern \"C\" fn {kind}_{name}<const K: usize>({params}) -> {result} {{")
                .unwrap();
        };
        match way {
            Way::Always => {
                begin(w, "checked");
                writeln!(w, "{body}}}").unwrap();
            }
            Way::Native | Way::Below | Way::Own => {
                begin(w, "checked");
                writeln!(w, "{body}    {forward}\n}}").unwrap();
            }
            Way::Ours | Way::Refuse | Way::Convert => {
                if let Some(at) = lone_comm(f) {
                    writeln!(w, "{}", look_at_comm(name, at)).unwrap();
                } else {
                    begin(w, "checked");
                    let quick = quick_test(f);
                    writeln!(
                        w,
                        "    // SAFETY: the arguments are the caller's, as MPI_{name} takes them; so does the function of this index, which \
                     has been found.\n    \
                     unsafe {{\n        if {quick} {{\n            return served_{name}::<K>({values});\n        }}\n        \
                     std::mem::transmute::<*const (), {fn_type}>(forward::found(K))({values})\n    }}\n}}"
                    )
                    .unwrap();
                }
                if lone_array(f) {
                    for bytes in [4, 8] {
                        writeln!(
                            w,
                            "#[unsafe(naked)]\n#[allow(non_snake_case)]\nunsafe extern \"C\" fn glance{bytes}_{name}<const K: usize>() {{\n    \
                             glance!({bytes}, checked_{name}::<K>, served_{name}::<K>, forward::NATIVE, K * size_of::<usize>())\n}}"
                        )
                        .unwrap();
                    }
                    for slot in [called_as, pface] {
                        let code = |bytes| format!("Code(glance{bytes}_{name}::<{slot}> as *const ())");
                        write!(glances, "({slot}, [{}, {}]), ", code(4), code(8)).unwrap();
                    }
                }
                writeln!(w, "#[inline(never)]").unwrap();
                begin(w, "served");
                writeln!(w, "{body}    {forward}\n}}").unwrap();
            }
        }
        writeln!(
            guards,
            "#[allow(non_snake_case)]\nunsafe extern \"C\" fn guarded_{name}<const K: usize>({params}) -> {result} {{\n    \
             let through = tool::Guard::enter(K);\n    \
             // SAFETY: `Guard` holds the function of this index, which takes these arguments.\n    \
             unsafe {{ std::mem::transmute::<*const (), {fn_type}>(through.function())({values}) }}\n}}"
        )
        .unwrap();
        write!(
            checked,
            "Code(checked_{name}::<{called_as}> as *const ()), Code(checked_{name}::<{pface}> as *const ()), "
        )
        .unwrap();
        // The caller's address is still on top of the stack. It tells the PMPI calls of a tool, and those of the MPI itself.
        let at = i * size_of::<usize>();
        writeln!(
            guards,
            "#[unsafe(naked)]\n#[allow(non_snake_case)]\nunsafe extern \"C\" fn by_caller_{name}() {{\n    naked_asm!(\n        \
             \"mov rax, [rsp]\", \"sub rax, [rip + {{start}} + {{at}}]\", \"cmp rax, [rip + {{len}} + {{at}}]\", \"jb 2f\",\n        \
             \"mov rax, [rsp]\", \"sub rax, [rip + {{mpi_start}}]\", \"cmp rax, [rip + {{mpi_len}}]\", \"jae 3f\",\n        \
             \"2:\", \"jmp qword ptr [rip + {{pmpi}} + {{at}}]\", \"3:\", \"jmp {{guarded}}\",\n        \
             start = sym tool::TOOL_START, len = sym tool::TOOL_LEN, pmpi = sym tool::PMPI, at = const {at},\n        \
             mpi_start = sym tool::MPI_START, mpi_len = sym tool::MPI_LEN,\n        \
             guarded = sym guarded_{name}::<{pface}>,\n    )\n}}"
        )
        .unwrap();
        write!(guarded, "Code(guarded_{name}::<{called_as}> as *const ()), Code(by_caller_{name} as *const ()), ")
            .unwrap();
        write!(names, "c\"P{mpi}\", ").unwrap();
        let way = match way {
            Way::Always => "Always",
            Way::Native | Way::Below | Way::Own => "Never",
            Way::Ours | Way::Refuse | Way::Convert => "OnceJoined",
        };
        write!(ways, "Looking::{way}, ").unwrap();
    }
    writeln!(
        w,
        "/// What each entry jumps to: two a function, MPI_X and PMPI_X.\nstatic SLOTS: [Slot; 2 * FUNCTIONS] = [{slots}];\n\
         static CHECKED: [Code; 2 * FUNCTIONS] = [{checked}];\n\
         /// The slots of functions that take arrays of requests, and the entries for those of four bytes and of eight where the\n\
         /// processor has AVX2.\n\
         static GLANCES: &[(usize, [Code; 2])] = &[{glances}];\n\
         static VISIBLE: [Code; 2 * FUNCTIONS] = [{visible}];\n\
         /// When each function's arguments are looked at.\nstatic LOOKING: [Looking; FUNCTIONS] = [{ways}];"
    )
    .unwrap();
    writeln!(guards, "static GUARDED: [Code; 2 * FUNCTIONS] = [{guarded}];").unwrap();
    writeln!(
        known,
        "/// The names, with the P: without it, one byte further on.\npub static NAMES: [&CStr; FUNCTIONS] = [{names}];"
    )
    .unwrap();
    Ok([("entries.rs", out), ("guarded.rs", guards), ("names.rs", known)])
}
