//! The table, the laws that fit it, the picture, and docs/scale.md between its marks.

use crate::measure::Measured;
use crate::picture;
use crate::table::{Table, bytes, number, or_not};
use std::fs;
use std::path::Path;

/// Smaller jobs have costs of their own, which are no law.
const FITTED_FROM: u32 = 1 << 12;

/// What is shown of each part of a run, as a function of the number of ranks.
struct Column {
    title: &'static str,
    part: &'static str,
    value: fn(&Measured) -> f64,
}

fn a_rank(value: u64, of: &Measured) -> f64 {
    value as f64 / f64::from(of.ranks)
}

const COLUMNS: [Column; 13] = [
    Column { title: "joining: processor, s", part: "join", value: |m| m.cpu },
    Column { title: "messages", part: "join", value: |m| m.messages as f64 },
    Column { title: "bytes a rank", part: "join", value: |m| a_rank(m.bytes, m) },
    Column { title: "memory a rank", part: "join", value: |m| a_rank(m.memory, m) },
    Column { title: "records of a job, bytes a rank of it", part: "records", value: |m| 2.0 * a_rank(m.bytes, m) },
    Column { title: "exchanging: processor, s", part: "exchange", value: |m| m.cpu },
    Column { title: "messages a rank", part: "exchange", value: |m| a_rank(m.messages, m) },
    Column { title: "bytes a rank", part: "exchange", value: |m| a_rank(m.bytes, m) },
    Column { title: "memory a rank", part: "exchange", value: |m| a_rank(m.memory, m) },
    Column { title: "most sockets of a rank", part: "exchange", value: |m| m.lanes as f64 },
    Column { title: "again, with deaths: processor, s", part: "deaths", value: |m| m.cpu },
    Column { title: "leaving: processor, s", part: "leave", value: |m| m.cpu },
    Column { title: "messages a rank", part: "leave", value: |m| a_rank(m.messages, m) },
];

/// The points of a column: ranks, and value.
fn points(all: &[Measured], column: &Column) -> Vec<(f64, f64)> {
    let of_part = all.iter().filter(|m| m.part == column.part);
    of_part.map(|m| (f64::from(m.ranks), (column.value)(m))).collect()
}

/// The law by which a value grows with the number of ranks: the straight line that fits both logarithms best.
struct Law {
    exponent: f64,
    /// The logarithm of the value of one rank.
    of_one: f64,
}

impl Law {
    fn at(&self, ranks: f64) -> f64 {
        (self.of_one + self.exponent * ranks.ln()).exp()
    }
}

fn law(points: &[(f64, f64)]) -> Option<Law> {
    let fits = |p: &&(f64, f64)| p.0 >= f64::from(FITTED_FROM) && p.1 > 0.0;
    let logs: Vec<(f64, f64)> = points.iter().filter(fits).map(|p| (p.0.ln(), p.1.ln())).collect();
    let n = logs.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| logs.iter().map(pick).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = logs.iter().map(|p| (p.0 - x).powi(2)).sum();
    let exponent = logs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread;
    (logs.len() > 2).then_some(Law { exponent, of_one: y - exponent * x })
}

/// What exchanging would take of as many ranks as were joined, by its laws. Empty if as many have exchanged.
fn foreseen(all: &[Measured]) -> String {
    let most = |part: &str| all.iter().filter(|m| m.part == part).map(|m| m.ranks).max();
    let of = |value: fn(&Measured) -> f64| law(&points(all, &Column { title: "", part: "exchange", value }));
    let laws = (of(|m| m.memory as f64), of(|m| m.cpu));
    let (Some(joined), Some(exchanged), (Some(memory), Some(cpu))) = (most("join"), most("exchange"), laws) else {
        return String::new();
    };
    if exchanged >= joined {
        return String::new();
    }
    let (memory, cpu) = (memory.at(f64::from(joined)) / f64::from(1 << 30), cpu.at(f64::from(joined)));
    let (log, memory, cpu) = (joined.ilog2(), number(memory), number(cpu));
    format!("\nBy these laws, 2^{log} ranks that exchange take {memory} GiB of memory and {cpu} s of processor.\n")
}

fn table(all: &[Measured], columns: &[Column]) -> Table {
    let mut table = Table::new("", &["ranks"]);
    table.rows[0].extend(columns.iter().map(|c| c.title.to_owned()));
    let mut ranks: Vec<u32> = all.iter().map(|m| m.ranks).collect();
    ranks.dedup();
    for ranks in ranks {
        let mut row = vec![format!("2^{}", ranks.ilog2())];
        row.extend(columns.iter().map(|column| {
            let found = all.iter().find(|m| m.ranks == ranks && m.part == column.part);
            or_not(found.map(|m| (column.value)(m)))
        }));
        table.rows.push(row);
    }
    if table.is_empty() {
        return table;
    }
    let mut grows = vec!["grows as ranks to the".to_owned()];
    let laws = columns.iter().map(|column| law(&points(all, column)));
    grows.extend(laws.map(|law| law.map_or("-".into(), |law| format!("{:.2}", law.exponent))));
    table.rows.push(grows);
    table
}

/// The lines of the picture.
fn lines(all: &[Measured]) -> Vec<(String, Vec<(f64, f64)>)> {
    let named = |part: &str| match part {
        "join" => "joining",
        "exchange" => "exchanging",
        "deaths" => "with deaths",
        _ => "leaving",
    };
    let shown = COLUMNS.iter().filter(|c| c.title.contains("processor") || c.title.contains("memory"));
    shown
        .map(|column| {
            let of = named(column.part);
            let what = if column.title.contains("memory") { "KiB a rank" } else { "s" };
            let scale = if column.title.contains("memory") { 1.0 / 1024.0 } else { 1.0 };
            let points = points(all, column).into_iter().map(|(x, y)| (x, y * scale)).collect();
            (format!("{of}, {what}"), points)
        })
        .collect()
}

/// Replaces what is between two marks of the page.
fn put(page: &str, mark: &str, text: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- end of {mark} -->"));
    let (before, rest) = page.split_once(&begin).ok_or_else(|| format!("docs/scale.md lacks its mark '{mark}'"))?;
    let (_, after) = rest.split_once(&end).ok_or_else(|| format!("docs/scale.md lacks the end of '{mark}'"))?;
    Ok(format!("{before}{begin}{text}{end}{after}"))
}

/// Puts a text in its place in docs/scale.md, if RECORD=1.
pub fn record(mark: &str, text: &str) -> Result<(), String> {
    if std::env::var("RECORD").is_ok_and(|value| !value.is_empty()) {
        let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/scale.md");
        let page = fs::read_to_string(&at).map_err(|e| format!("{}: {e}", at.display()))?;
        fs::write(&at, put(&page, mark, text)?).map_err(|e| format!("{}: {e}", at.display()))?;
    }
    Ok(())
}

/// Shows what was measured, and records it if that is asked for. `stopped`: why there is no more.
pub fn show(all: &[Measured], stopped: Option<&str>) -> Result<(), String> {
    let stopped =
        stopped.map_or(String::new(), |why| format!("\nThe others were only joined: {why}.\n")) + &foreseen(all);
    let (joining, using) = COLUMNS.split_at(5);
    let tables = [table(all, joining), table(all, using)];
    if tables[0].is_empty() {
        return Err(stopped);
    }
    println!("{}{}{stopped}", tables[0].screen(), tables[1].screen());
    let drawn = picture::draw("Two jobs of together so many ranks", &lines(all), |n| format!("2^{}", n.ilog2()));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (made, kept) = (folder.join("target/scale.svg"), folder.join("docs/scale.svg"));
    fs::write(&made, &drawn).map_err(|e| format!("{}: {e}", made.display()))?;
    if std::env::var("RECORD").is_ok_and(|value| !value.is_empty()) {
        fs::write(&kept, &drawn).map_err(|e| format!("{}: {e}", kept.display()))?;
    }
    let largest = all.iter().map(|m| m.memory).max().unwrap_or(0) >> 20 << 20;
    let memory = format!("\nThe largest took {} of memory.\n", bytes(largest));
    record(
        "law",
        &format!("{}\n{}{memory}{stopped}", tables[0].markdown().trim_start(), tables[1].markdown().trim_start()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_is_found() {
        let grown =
            |power: f64| (10..20).map(|n| f64::from(1 << n)).map(|n| (n, 3.0 * n.powf(power))).collect::<Vec<_>>();
        for power in [0.0, 1.0, 2.0] {
            let law = law(&grown(power)).expect("enough points");
            assert!((law.exponent - power).abs() < 1e-9);
            assert!((law.at(1048576.0) / (3.0 * 1048576f64.powf(power)) - 1.0).abs() < 1e-9);
        }
        assert!(law(&grown(1.0)[..4]).is_none());
    }

    #[test]
    fn what_was_not_run_is_foreseen_and_has_a_dash() {
        let of = |exponent: u32, part: &str| Measured {
            ranks: 1 << exponent,
            part: part.into(),
            cpu: f64::from(1 << exponent) / 1024.0,
            messages: 5,
            bytes: 5,
            memory: 1 << (exponent + 14),
            lanes: 9,
        };
        let mut all: Vec<Measured> = (12..=20).map(|exponent| of(exponent, "join")).collect();
        all.extend((12..=18).map(|exponent| of(exponent, "exchange")));
        assert_eq!(
            foreseen(&all),
            "\nBy these laws, 2^20 ranks that exchange take 16.0 GiB of memory and 1024 s of processor.\n"
        );
        let row = table(&all, &COLUMNS[5..6]).rows.into_iter().find(|row| row[0] == "2^20").expect("joined");
        assert_eq!(row[1], "-");
        all.extend((19..=20).map(|exponent| of(exponent, "exchange")));
        assert_eq!(foreseen(&all), "");
    }

    #[test]
    fn a_text_is_put_between_its_marks() {
        let page = "a\n<!-- law -->\nold\n<!-- end of law -->\nb\n";
        assert_eq!(put(page, "law", "new\n").as_deref(), Ok("a\n<!-- law -->\nnew\n<!-- end of law -->\nb\n"));
        assert!(put(page, "other", "").is_err());
    }
}
