//! The tables of docs/protocol.md and docs/naming.md are those of base/src/protocol.rs. With `MPI_CONNECT_WRITE_HEADERS=1` they are written,
//! otherwise compared. What the text between them says of numbers is compared too, and no source has a sign of the protocol of its
//! own.

#[path = "kit/rust.rs"]
mod rust;
#[path = "kit/settle.rs"]
mod settle;

use base::protocol::{TABLES, Table, control, frame, greeting, hello, message, naming, port, shared, spawn, tag};
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
    for (file, tables, title) in [("docs/protocol.md", TABLES, wire), ("docs/naming.md", &[], client)] {
        let page = std::fs::read_to_string(root().join(file)).expect("the page");
        let made = tables.iter().fold(page.clone(), |page, (name, table)| with(&page, name, table));
        assert_eq!(made.matches(END).count(), tables.len(), "{file} has a place for an unknown table");
        assert!(page.contains(&title), "{file} has no title {title}");
        settle(file, &made);
    }
}

/// Every table of the source is on one of the pages, and no page has a table of numbers of its own.
#[test]
fn no_table_is_left_out_and_none_is_written_by_hand() {
    let source = std::fs::read_to_string(root().join("base/src/protocol.rs")).expect("the source");
    let made =
        source.matches("numbers! {\n        ///").count() + source.matches("numbers! {\n            ///").count();
    let made =
        made + source.matches("layout! {\n        ///").count() + source.matches("layout! {\n            ///").count();
    assert_eq!(made, TABLES.len(), "a table of base/src/protocol.rs is not in its list");
    for file in ["docs/protocol.md", "docs/naming.md"] {
        let page = std::fs::read_to_string(root().join(file)).expect("the page");
        let outside: String = page.split(END).map(|part| part.split("<!-- ").next().unwrap_or_default()).collect();
        assert_eq!(numbered(&outside), Vec::<&str>::new(), "{file}");
    }
    assert_eq!(numbered("| a | b |\n|---|---|\n| 1 | x |\n| `-2` | y |\n"), ["| 1 | x |", "| `-2` | y |"]);
}

/// The rows of tables whose first cell is a number.
fn numbered(text: &str) -> Vec<&str> {
    let first = |line: &str| line.split('|').nth(1).map(|cell| cell.trim().trim_matches('`').to_owned());
    let is_number = |cell: &str| cell.parse::<i64>().is_ok() || cell.starts_with("0x");
    text.lines().filter(|line| line.starts_with('|') && first(line).is_some_and(|cell| is_number(&cell))).collect()
}

/// Lines of the source, and what docs/protocol.md says of the number there.
const SAID: [(&str, &str, &str); 27] = [
    ("session/src/path/rx.rs", "ACK_FRAMES: u32 = 64;", "after 64 frames or"),
    ("session/src/path/rx.rs", "ACK_BYTES: usize = 256 * 1024;", "frames or 256 KiB without one"),
    (
        "session/src/state/life.rs",
        "SILENCE: Duration = Duration::from_secs(2);",
        "has brought nothing for 2 s is given up",
    ),
    (
        "session/src/state/life.rs",
        "SILENCE: Duration = Duration::from_secs(2);",
        "nothing on a TCP lane for 2 s, sends PING",
    ),
    ("engine/src/types.rs", "eager_max: 64 << 10,", "message of at most 64 KiB is sent as EAGER"),
    (
        "engine/src/types.rs",
        "long_eager_max: 256 << 10,",
        "256 KiB while the pair uses shared memory, and a longer EAGER is malformed",
    ),
    ("transports/src/tcp/lane.rs", "{ 256 << 10 }", "256 KiB if a message has come from the peer"),
    ("wire/src/lane.rs", "eager: 128 << 10,", "128 KiB while the pair uses a byte stream, and one of at most"),
    ("engine/src/types.rs", "128 << 10", "128 KiB of a longer message on a byte stream"),
    ("engine/src/state.rs", "PAUSE: u8 = 8;", "eight messages go without"),
    ("engine/src/types.rs", "extra_envelopes: 256,", "gives 256 more envelopes"),
    ("session/src/lanes.rs", "MAX_NONSENSE: u8 = 3;", "nonsense on three lanes one after the other"),
    (
        "session/src/evidence.rs",
        "REFUSE_LIMIT: Duration = Duration::from_secs(2);",
        "never met has to be refused for 2 s",
    ),
    ("session/src/evidence.rs", "COME_BACK_LIMIT: Duration = Duration::from_secs(20);", "after 20 s of refusals"),
    ("session/src/evidence.rs", "SILENCE_LIMIT: Duration = Duration::from_secs(60);", "after 60 s of silence"),
    (
        "session/src/state/incoming.rs",
        "LIMIT: Duration = Duration::from_secs(10);",
        "no lane 10 s after it was accepted",
    ),
    ("session/src/incoming.rs", "MOST: usize = 64;", "Of more than 64 such connections"),
    (
        "session/src/answer.rs",
        "ANSWER_LIMIT: Duration = Duration::from_secs(1);",
        "If none comes within 1 s, the newcomer",
    ),
    ("session/src/answer.rs", "OWN_DIAL_STANDS: Duration = Duration::from_secs(2);", "is out, less than 2 s old"),
    ("session/src/strangers.rs", "RETURN_LIMIT: Duration = Duration::from_secs(5);", "those that hung up 5 s ago"),
    (
        "session/src/strangers.rs",
        "RETURN_LIMIT: Duration = Duration::from_secs(5);",
        "disconnected for 5 s is forgotten",
    ),
    ("session/src/strangers.rs", "OFFER_LIMIT: Duration = Duration::from_secs(10);", "no whole OFFER within 10 s"),
    (
        "session/src/leaders/talk.rs",
        "WITHDRAWAL: Duration = Duration::from_secs(2);",
        "waits for WITHDRAWN, 2 s at most",
    ),
    (
        "session/src/leaders/accept.rs",
        "KNOWING: Duration = Duration::from_millis(300);",
        "client's host (0.3 s at most)",
    ),
    ("node/src/waits.rs", "ANSWER_APART: Duration = Duration::from_millis(20);", "at most once in 20 ms"),
    ("shim/src/port/dial_requests.rs", "LOOK: Duration = Duration::from_millis(700);", "records about every 0.7 s"),
    ("base/src/protocol.rs", "-257 FIRST_PARTITIONED", "tag -257 - (k"),
];

#[test]
fn the_text_says_the_numbers_too() {
    let page = std::fs::read_to_string(root().join("docs/protocol.md")).expect("the page");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for (file, line, said) in SAID {
        let source = std::fs::read_to_string(root().join(file)).expect("a source");
        assert!(source.contains(line), "{file} has no {line}: docs/protocol.md says {said:?}");
        assert!(page.contains(said), "docs/protocol.md does not say {said:?}, as {file} does: {line}");
    }
    let of_constants = [
        format!(
            "so many bytes, at most {} MiB, are the *request*: the version, {} (u8)",
            spawn::MAX_SPAWN >> 20,
            spawn::VERSION
        ),
        format!("so many bytes of text, at most {} KiB. The byte {} behind", spawn::MAX_REPORT >> 10, spawn::RELEASE),
        format!("A lane may have up to {} beside its first", frame::MAX_STRIPES - 1),
        format!("its number, 1 to {}, as stripe", frame::MAX_STRIPES - 1),
        format!("in frames of at most {} KiB", control::MAX_CALLER_FRAME >> 10),
        format!("1 to {} pieces in packed order", message::MOST_DESCRIBED),
        format!("Tags of the user are 0 to 2^{}-1", tag::USER_BITS),
        format!("It has at most {} characters", port::MAX_PORT_NAME),
        format!("The name of a port** is `{}`", port::PREFIX),
        format!("Its name is `{}`", port::CALL),
        format!("with the name `{}`", shared::SOCKET),
        // Three bytes are four characters of base64url.
        format!("The short form, {} characters,", port::PREFIX.len() + (port::short::BYTES * 4).div_ceil(3)),
    ];
    for said in of_constants {
        assert!(page.contains(&said), "docs/protocol.md does not say {said:?}");
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
        [text(&hello::MAGIC), text(&port::JOIN_MAGIC), text(&greeting::NAMING), port::PREFIX.into(), port::CALL.into()];
    for sign in signs.into_iter().chain([shared::SOCKET.into()]) {
        let has = |text: &str| rust::strings(text).iter().any(|said| said.starts_with(&sign));
        let found: Vec<_> = all.iter().filter(|(_, text)| has(text)).map(|(file, _)| file).collect();
        assert_eq!(found, ["base/src/protocol.rs"], "{sign}");
    }
}
