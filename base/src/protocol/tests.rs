//! The tables are whole, and say what the constants are.

use super::*;

fn bytes(size: &str) -> usize {
    let (many, one) = size.split_once(" × ").unwrap_or(("1", size));
    let one = match one {
        "u8" => 1,
        "u16" => 2,
        "u32" => 4,
        "u64" | "i64" => 8,
        other => other.strip_suffix(" bytes").and_then(|n| n.parse().ok()).expect("a type"),
    };
    many.parse::<usize>().unwrap() * one
}

#[test]
fn each_field_begins_where_the_one_before_it_ends() {
    let layouts = TABLES.iter().filter(|(_, table)| table.head[..2] == ["offset", "type"]);
    assert!(layouts.clone().count() > 8);
    for (name, table) in layouts {
        let mut at = 0;
        for row in table.rows {
            assert_eq!(row[0].parse(), Ok(at), "{name}: {row:?}");
            at += if row[1].is_empty() { 0 } else { bytes(row[1]) };
        }
    }
}

#[test]
fn no_number_of_a_kind_means_two_things() {
    for (name, table) in TABLES {
        let mut numbers: Vec<_> = table.rows.iter().map(|row| row[0]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), table.rows.len(), "{name}");
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{name}");
    }
    // Slots have the kinds of frames too.
    assert!(shared::KINDS.rows.iter().all(|row| frame::KINDS.rows.iter().all(|kind| kind[0] != row[0])));
}

/// What rows and names say of numbers that are constants is what these are.
#[test]
fn words_say_the_numbers() {
    let says = |table: Table, words: String| {
        let said = table.rows.iter().flat_map(|row| row.iter()).any(|cell| cell.contains(&words));
        assert!(said, "{words}");
    };
    says(hello::said::TABLE, format!("version, {}", hello::VERSION));
    says(hello::said::TABLE, format!("magic, `{}`", std::str::from_utf8(&hello::MAGIC).unwrap()));
    for magic in [greeting::JOBS, greeting::NAMING] {
        says(greeting::head::TABLE, format!("`{}`", std::str::from_utf8(&magic).unwrap()));
    }
    let (first, second) = (greeting::FIRST_PROOF, greeting::SECOND_PROOF);
    says(greeting::head::TABLE, format!("{first} of the dialling side; {second} in a good answer"));
    assert_eq!(record::MAX_CONTENT, 65_536);
    says(record::head::TABLE, format!("1 to 65,536 of content, and {} of the tag", record::TAG));
    says(frame::header::TABLE, format!("at most {} MiB", frame::MAX_PAYLOAD >> 20));
    says(contact::head::TABLE, format!("version of the record, {}", contact::RECORD));
    says(contact::head::TABLE, format!("follow, at most {}", contact::MAX_ENTRIES));
    assert_eq!(contact::MAX_ENTRY, 1_024);
    says(contact::entry::TABLE, "at most 1,024".into());
    says(transport::TRANSPORTS, format!("at most {}", address::MAX_ADDRESSES));
    says(transport::TRANSPORTS, format!("at most {}, these ports", rdma::MAX_PORTS));
    says(rdma::pair::TABLE, format!("version, {}", rdma::RDMA));
    says(rdma::pair::TABLE, format!("longest message, {}", rdma::SLOT));
    says(rdma::pair::TABLE, format!("one byte, {}, once", rdma::STANDS));
    says(rdma::MESSAGES, format!("1 to {} pieces", rdma::MAX_PIECES));
    says(message::FLAGS, format!("1 to {}", message::MAX_NOTE));
    says(message::TYPES, format!("at most {} bytes", message::MAX_TOLD));
    says(control::KINDS, format!("at most {} bytes", control::MAX_NAME));
    says(control::KINDS, format!("at most {} MiB", control::MAX_RECORDS >> 20));
    says(control::party::TABLE, format!("at most {} bytes", control::MAX_NAME));
    says(shared::tail::TABLE, format!("layout, {}", shared::LAYOUT));
    says(shared::tail::TABLE, format!("0 to {}", shared::DOORBELLS - 1));
    says(shared::WORD, format!("units of {} bytes", shared::UNIT));
    says(shared::LANE, format!("{} slots of {} bytes", shared::SLOTS, shared::SLOT));
    says(shared::LANE, format!("{} MiB for bodies", shared::ROOM >> 20));
    let all = shared::SLOTS as usize * shared::SLOT + shared::ROOM;
    // The largest frame fits into an empty payload ring.
    const { assert!(shared::ROOM >= frame::MAX_PAYLOAD) };
    assert_eq!(shared::LANE_END, shared::SLOTS_AT + 2 * all);
    says(shared::BOARD, format!("{} bits", shared::DOORBELLS));
    says(port::join::TABLE, format!("magic, `{}`", std::str::from_utf8(&port::JOIN_MAGIC).unwrap()));
    says(port::join::TABLE, format!("at most {} KiB", port::MAX_JOIN >> 10));
    says(port::join::TABLE, format!("the number {}", context::ONLY));
    assert_eq!(message::note::MODULUS, (1 << 61) - 1);
    assert_eq!(message::PIECE, 2 * size_of::<u64>());
    assert_eq!(tag::LAST_OF_USER, (1 << tag::USER_BITS) - 1);
    assert_eq!(tag::FIRST_PARTITIONED, tag::LAST_RESERVED - 1);
    const { assert!(transport::TOY >= transport::ON_TRIAL && transport::TCP < transport::ON_TRIAL) };
}
