//! What the program's side reads: names of ports, the message of MPI_Comm_join, and programs that the command looks at.

use crate::Target;
use crate::wire::record;
use mpi_connect::fuzzing::{joined, name_of, port, told, whole};
use node::Contacts;
use node::leaders::{Agreement, MAX_RANKS, Party, contacts};

/// The command's own file: the command is no library.
#[allow(dead_code)]
#[path = "../../src/elf.rs"]
mod elf;

fn port_name(input: &[u8]) {
    let Ok(name) = std::str::from_utf8(input) else { return };
    let Some(found) = port(name) else { return };
    assert!(found.contact.is_sound() || name.len() > 255, "a longer name is no port's");
    // A name that fits comes back, unless it says a thing twice.
    if let Some(again) = &found.name {
        assert!(again.len() <= 255);
        let second = port(again).expect("its own name can be read");
        assert_eq!((second.group, second.name.as_ref()), (found.group, Some(again)));
    }
}

/// The names of ports.
pub const PORT_NAME: Target = Target {
    run: port_name,
    seeds: || {
        let one = ["10.1.2.3:4000".parse().expect("an address")];
        let short = transports::registry::at_addresses([7; 16], [9; 16], &one);
        [short, record()].iter().filter_map(name_of).map(String::into_bytes).collect()
    },
    longest: 300,
    memory: 16 << 10,
};

fn join(input: &[u8]) {
    let Some(wanted) = whole(input) else { return };
    let head = base::protocol::port::join::CONTEXT;
    assert!((head..=head + base::protocol::port::MAX_JOIN).contains(&wanted));
    let Some(message) = input.get(head..) else { return };
    let Some((agreement, fits)) = joined(message) else { return };
    assert_eq!(told(&agreement), message, "an agreement has one form");
    let remote = &agreement.remote;
    assert!(!remote.name.contains(char::is_control));
    if fits {
        assert!(remote.size <= MAX_RANKS && contacts(&remote.records, remote.size).is_ok());
    }
}

/// What a leader says of its side: for seeds.
pub fn party(name: &str, records: usize) -> Party {
    let all = vec![record(); records];
    let records_of = |all: Vec<_>| if all.is_empty() { Vec::new() } else { Contacts::from(all).bytes().to_vec() };
    Party {
        incarnation: 77,
        cookie: [4; 16],
        size: records as u32,
        tag_ub: 1 << 30,
        representation: node::Representation::here().number(),
        registered: None,
        name: name.into(),
        wanted: String::new(),
        records: records_of(all),
    }
}

/// The message of MPI_Comm_join: its head, and what it says.
pub const JOIN: Target = Target {
    run: join,
    seeds: || {
        [1, 2, 0]
            .map(|records| {
                let message = told(&Agreement { context: 1, remote: party("air", records) });
                let mut out = base::protocol::port::JOIN_MAGIC.to_vec();
                out.extend_from_slice(&(message.len() as u32).to_le_bytes());
                [out, message].concat()
            })
            .to_vec()
    },
    longest: 1024,
    memory: 64 << 10,
};

fn program(input: &[u8]) {
    match elf::Elf::of(std::io::Cursor::new(input)) {
        Ok(it) => assert!(!it.needs_mpi || it.uses_mpi),
        Err(e) => assert!(!e.to_string().is_empty()),
    }
}

/// A small program: headers, a dynamic table, and its names.
fn small_program() -> Vec<u8> {
    let names = b"\0libc.so.6\0libmpi.so.12\0MPI_Init\0PMPI_Init\0dlopen\0";
    let (ident, interpreter) = ([0x7f, b'E', b'L', b'F', 2, 1, 1, 0], b"/lib64/ld-linux-x86-64.so.2\0");
    let (dynamic_at, names_at) = (64 + 3 * 56u64, 64 + 3 * 56 + 6 * 16u64);
    let symbols_at = names_at + 64;
    let interpreter_at = symbols_at + 4 * 24;
    let end = interpreter_at + interpreter.len() as u64;
    let mut out = ident.to_vec();
    out.resize(16, 0);
    // A shared object of x86-64, version 1; no entry, program headers behind, no sections.
    out.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    [0u64, 64, 0].iter().for_each(|n| out.extend(n.to_le_bytes()));
    out.extend(0u32.to_le_bytes());
    [64u16, 56, 3, 64, 0, 0].iter().for_each(|n| out.extend(n.to_le_bytes()));
    for (kind, at, size) in [(1u32, 0, end), (2, dynamic_at, 6 * 16), (3, interpreter_at, interpreter.len() as u64)] {
        out.extend(kind.to_le_bytes());
        out.extend(4u32.to_le_bytes());
        [at, at, at, size, size, 8].iter().for_each(|n| out.extend(n.to_le_bytes()));
    }
    // NEEDED, SONAME, STRTAB, STRSZ, SYMTAB, the end.
    for (tag, value) in [(1, 1), (14, 11), (5, names_at), (10, names.len() as u64), (6, symbols_at), (0, 0u64)] {
        out.extend(i64::to_le_bytes(tag));
        out.extend(value.to_le_bytes());
    }
    out.extend_from_slice(names);
    out.resize(symbols_at as usize, 0);
    for name in [0u32, 24, 33, 43] {
        out.extend(name.to_le_bytes());
        out.extend([0x12, 0, u8::from(name == 33), 0]);
        out.extend([0; 16]);
    }
    out.extend_from_slice(interpreter);
    out
}

/// Executables and libraries, as the command reads them.
pub const ELF: Target = Target {
    run: program,
    seeds: || vec![small_program(), b"#!/usr/bin/env python3\nimport os".to_vec()],
    longest: 2048,
    memory: 4 << 20,
};
