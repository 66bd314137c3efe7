//! The tables of docs/protocol.md are those of base/src/protocol.rs. With `MPI_CONNECT_WRITE_HEADERS=1` they are written,
//! otherwise compared; and no source has a sign of the protocol of its own.

#[path = "kit/rust.rs"]
mod rust;
#[path = "kit/settle.rs"]
mod settle;

use base::protocol::{TABLES, Table, hello, port, shared};
use settle::{root, settle};

const PAGE: &str = "docs/protocol.md";
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
    let [before, after] = parts[..] else { panic!("{PAGE} has {} places for the table {name}", parts.len() - 1) };
    let (_, rest) = after.split_once(END).unwrap_or_else(|| panic!("{PAGE}: the table {name} has no end"));
    format!("{before}{mark}{}{END}{rest}", written(table))
}

#[test]
fn the_page_has_every_table() {
    let page = std::fs::read_to_string(root().join(PAGE)).expect("the page");
    let made = TABLES.iter().fold(page.clone(), |page, (name, table)| with(&page, name, table));
    assert_eq!(made.matches(END).count(), TABLES.len(), "{PAGE} has a place for a table that there is not");
    let title = format!("# The wire protocol, version {}\n", hello::VERSION);
    assert!(page.starts_with(&title), "{PAGE} does not begin with {title}");
    settle(PAGE, &made);
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
    let all = rust::sources(&["base", "engine", "wire", "session", "transports", "node", "shim"]);
    let text = |magic: &[u8]| std::str::from_utf8(magic).expect("a word").to_owned();
    let signs = [text(&hello::MAGIC), text(&port::JOIN_MAGIC), port::PREFIX.into(), port::CALL.into()];
    for sign in signs.into_iter().chain([shared::SOCKET.into()]) {
        let has = |text: &str| rust::strings(text).iter().any(|said| said.starts_with(&sign));
        let found: Vec<_> = all.iter().filter(|(_, text)| has(text)).map(|(file, _)| file).collect();
        assert_eq!(found, ["base/src/protocol.rs"], "{sign}");
    }
}
