//! The tables of docs/protocol.md and docs/naming.md are those of base/src/protocol.rs. With `MPI_CONNECT_WRITE_HEADERS=1` they are written,
//! otherwise compared; and no source has a sign of the protocol of its own.

#[path = "kit/rust.rs"]
mod rust;
#[path = "kit/settle.rs"]
mod settle;

use base::protocol::{TABLES, Table, hello, naming, port, shared};
use settle::{root, settle};

const END: &str = "<!-- end -->\n";

fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |").replace("|  |", "| |")
}

fn written(table: &Table) -> String {
    let rule = format!("|{}\n", "---|".repeat(table.head.len()));
    let rows = table.rows.iter().map(|cells| row(cells)).collect::<String>();
    // Markdown takes a table only behind a blank line.
    format!("\n{}{rule}{rows}\n", row(table.head))
}

/// The page with this table in its place.
fn with(page: &str, name: &str, table: &Table) -> String {
    let mark = format!("<!-- {name} -->\n");
    let parts: Vec<&str> = page.split(&mark).collect();
    let [before, after] = parts[..] else { panic!("{} places for the table {name}", parts.len() - 1) };
    let (_, rest) = after.split_once(END).unwrap_or_else(|| panic!("the table {name} has no end"));
    format!("{before}{mark}{}{END}{rest}", written(table))
}

#[test]
fn the_pages_have_every_table() {
    let client = format!("\n## The protocol between client and server, version {}\n", naming::VERSION);
    let wire = format!("# The wire protocol, version {}\n", hello::VERSION);
    for (file, tables, title) in [("docs/protocol.md", TABLES, wire), ("docs/naming.md", naming::TABLES, client)] {
        let page = std::fs::read_to_string(root().join(file)).expect("the page");
        let made = tables.iter().fold(page.clone(), |page, (name, table)| with(&page, name, table));
        assert_eq!(made.matches(END).count(), tables.len(), "{file} has a place for an unknown table");
        assert!(page.contains(&title), "{file} has no title {title}");
        settle(file, &made);
    }
}

#[test]
fn a_table_is_written_as_it_is() {
    let table = Table { head: &["a", "b", "c"], rows: &[&["1", "", ""], &["2", "x", "y"]] };
    let page = format!("before\n<!-- t -->\nold\n{END}after\n");
    let made = with(&page, "t", &table);
    assert_eq!(
        made,
        format!("before\n<!-- t -->\n\n| a | b | c |\n|---|---|---|\n| 1 | | |\n| 2 | x | y |\n\n{END}after\n")
    );
    assert_eq!(with(&made, "t", &table), made);
}

#[test]
fn no_source_has_a_sign_of_its_own() {
    let all = rust::sources(&["base", "engine", "wire", "session", "transports", "naming-server", "node", "shim"]);
    let text = |magic: &[u8]| std::str::from_utf8(magic).expect("a word").to_owned();
    let signs =
        [text(&hello::MAGIC), text(&port::JOIN_MAGIC), text(&naming::MAGIC), port::PREFIX.into(), port::CALL.into()];
    for sign in signs.into_iter().chain([shared::SOCKET.into()]) {
        let has = |text: &str| rust::strings(text).iter().any(|said| said.starts_with(&sign));
        let found: Vec<_> = all.iter().filter(|(_, text)| has(text)).map(|(file, _)| file).collect();
        assert_eq!(found, ["base/src/protocol.rs"], "{sign}");
    }
}
